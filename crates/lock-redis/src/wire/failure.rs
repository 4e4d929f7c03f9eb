//! What goes wrong, in the words of `lock-core`.

#[cfg(test)]
mod tests;

use lock_core::{Error, ErrorKind};
use redis::{RedisError, ServerError};

use super::Address;
use super::sent::{OURS, Sent};
use super::shown::Shown;
use super::wording;

/// Why a request has no reply.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The server does not know the script, which did not run.
    NoScript(Error),
    /// The server, or what stands before it, does not take this command, which did not run.
    NoCommand(Error),
    /// The server is a replica, or has become one. Another connection may lead to its master.
    Demoted(Error),
    /// The slot of the keys is being moved, and the server cannot serve all of them at once.
    Moving(Error),
    /// The server wants a password first.
    NoAuth(Error),
    /// The server, or what stands before it, did not take the greeting of RESP3.
    NoResp3(Error),
    /// The reply is to something else, and so may those be that follow on the connection.
    Astray(Error),
    /// Everything else.
    Error(Error),
}

impl Failure {
    /// The failure as callers see it, when nothing can be done about it here.
    pub(crate) fn into_error(self) -> Error {
        match self {
            Self::NoScript(error)
            | Self::NoCommand(error)
            | Self::Demoted(error)
            | Self::Moving(error)
            | Self::NoAuth(error)
            | Self::NoResp3(error)
            | Self::Astray(error)
            | Self::Error(error) => error,
        }
    }

    /// The same of a script that ran, and is not run again.
    pub(super) fn of_one_that_ran(self) -> Self {
        match self {
            Self::NoScript(error) | Self::NoCommand(error) => Self::Error(error),
            failure => failure,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

/// A server said no. What only a script of ours says, and then by the number of its call, is not its answer.
pub(super) fn refused(sent: &Sent<'_>, error: &ServerError) -> Failure {
    if error.code() == "WRONGTYPE" || error.code().starts_with(OURS) {
        return astray(sent.address);
    }
    refusal(sent, error)
}

/// A script said no. So it ran, and is known.
pub(super) fn gone_wrong(sent: &Sent<'_>, error: &ServerError) -> Failure {
    refusal(sent, error).of_one_that_ran()
}

fn refusal(sent: &Sent<'_>, error: &ServerError) -> Failure {
    Refusal::new(error.code(), error.details().unwrap_or_default()).failure(sent)
}

/// What came back is no answer to what was asked.
pub(super) fn astray(address: &Address) -> Failure {
    let message = format!("{address} answered something else than what it was asked");
    Failure::Astray(Error::new(ErrorKind::Protocol, message))
}

/// The way to a server is broken, or its bytes make no sense.
pub(super) fn broken(sent: &Sent<'_>, error: RedisError) -> Failure {
    Failure::Error(convert(sent, error))
}

/// The greeting of RESP3 failed.
///
/// Whatever a server says to it that is neither about credentials nor about its own state means
/// that it may well take RESP2: there are as many wordings as there are proxies.
pub(super) fn no_greeting(sent: &Sent<'_>, error: RedisError) -> Failure {
    // The greeting brings the credentials. A server that asks for them does not know the greeting.
    if error.code() == Some("NOAUTH") && sent.has_credentials() {
        let message = format!("{} does not know the greeting of RESP3", sent.address);
        return Failure::NoResp3(Error::new(ErrorKind::Unsupported, message));
    }
    let unknown = match error.kind() {
        redis::ErrorKind::RESP3NotSupported => true,
        _ => matches!(error.code(), Some("ERR" | "NOPROTO")),
    };
    let error = convert(sent, error);
    if unknown { Failure::NoResp3(error) } else { Failure::Error(error) }
}

fn convert(sent: &Sent<'_>, error: RedisError) -> Error {
    use redis::ErrorKind as Kind;

    let address = sent.address;
    if let Some(code) = error.code() {
        return Refusal::new(code, error.detail().unwrap_or_default()).convert(sent);
    }
    match error.kind() {
        Kind::AuthenticationFailed => Error::new(
            ErrorKind::Denied,
            format!("{address} did not accept the user name and password"),
        ),
        Kind::RESP3NotSupported => {
            Error::new(ErrorKind::Unsupported, format!("{address} does not speak RESP3"))
        }
        Kind::Io if error.is_timeout() => {
            Error::with_source(ErrorKind::Timeout, format!("{address} does not answer"), error)
        }
        Kind::Io => Error::with_source(
            ErrorKind::Unreachable,
            format!("the connection to {address} is broken"),
            error,
        ),
        Kind::Parse => Error::with_source(
            ErrorKind::Protocol,
            format!("{address} sent what is no reply"),
            error,
        ),
        // Here the crate quotes the reply, which may quote what was sent.
        Kind::UnexpectedReturnType => {
            Error::new(ErrorKind::Protocol, format!("{address} sent what is no reply"))
        }
        // Texts of other kinds may quote what was sent.
        kind => Error::new(ErrorKind::Other, format!("a request to {address} failed: {kind:?}")),
    }
}

/// An error that a server replied with.
struct Refusal<'a> {
    code: &'a str,
    text: &'a str,
}

impl<'a> Refusal<'a> {
    /// Servers before Redis 7 wrap what goes wrong inside a script:
    /// `ERR Error running script (call to f_…): @user_script:4: @user_script: 4: -OOM command not…`.
    /// What is inside says what is wrong. Where our scripts catch it, only the place is before it:
    /// `@user_script: 4: -OOM command not…`.
    fn new(code: &'a str, text: &'a str) -> Self {
        const PLACE: &str = "@user_script:";
        let wrapped = if code == PLACE {
            Some(text)
        } else if text.starts_with("Error running script") {
            text.rfind(PLACE).and_then(|at| text[at + PLACE.len()..].strip_prefix(' '))
        } else {
            None
        };
        let inner = wrapped.and_then(|wrapped| {
            let (line, said) = wrapped.split_once(": ")?;
            // Else a colon in what is quoted would make a code of an argument.
            line.parse::<u32>().ok()?;
            said.trim_start_matches('-').split_once(' ')
        });
        match inner {
            Some((code, text)) => Self { code, text },
            None => Self { code, text },
        }
    }

    fn failure(&self, sent: &Sent<'_>) -> Failure {
        let error = self.convert(sent);
        match self.code {
            "NOSCRIPT" => Failure::NoScript(error),
            "READONLY" => Failure::Demoted(error),
            "TRYAGAIN" => Failure::Moving(error),
            "NOAUTH" => Failure::NoAuth(error),
            code if wording::is_of_command(code, self.text, error.kind()) => {
                Failure::NoCommand(error)
            }
            _ => Failure::Error(error),
        }
    }

    /// What it means is in the words of the server. What is shown leaves out what was sent, of which a piece
    /// may look like one of those words.
    fn convert(&self, sent: &Sent<'_>) -> Error {
        let (kind, meaning) = self.meaning();
        let [code, text] = [self.code, self.text].map(|said| sent.hide_in(self.code, said));
        let shown = Shown { code: &code, text: &text };
        Error::new(kind, format!("{} {meaning}: {shown}", sent.address))
    }

    fn meaning(&self) -> (ErrorKind, &'static str) {
        match self.code {
            "OOM" => (ErrorKind::OutOfMemory, "has no memory for another lock"),
            "LOADING" => (ErrorKind::NotReady, "is still loading its data"),
            "BUSY" => (ErrorKind::NotReady, "is busy with a script"),
            "READONLY" => (ErrorKind::NotReady, "is a replica"),
            "TRYAGAIN" => (ErrorKind::NotReady, "is moving the slot of the key to another server"),
            "MASTERDOWN" | "CLUSTERDOWN" | "UNBLOCKED" => (ErrorKind::NotReady, "is failing over"),
            "NOREPLICAS" => (ErrorKind::NotReady, "has too few replicas to write"),
            "MISCONF" => (ErrorKind::NotReady, "cannot save its data and takes no writes"),
            "NOSCRIPT" => (ErrorKind::NotReady, "lost a script that was just loaded"),
            "NOPERM" => (ErrorKind::Denied, "lets this user not do that"),
            "NOAUTH" | "WRONGPASS" => {
                (ErrorKind::Denied, "did not accept the user name and password")
            }
            "WRONGTYPE" => (ErrorKind::ForeignKey, "has something at the key that is not a lock"),
            "LOCKFENCE" => (ErrorKind::ForeignKey, "has an unusable fence for the key"),
            "LOCKVERSION" => (
                ErrorKind::ForeignKey,
                "has the lock in a format of another version: use one version of this library for it",
            ),
            "LOCKCLOCK" => (ErrorKind::NotReady, "has a clock that is not set"),
            "LOCKCELL" => (ErrorKind::ForeignKey, "has an unusable value beside the key"),
            "LOCKKIND" => (ErrorKind::ForeignKey, "has another kind of lock at the key"),
            "LOCKQUEUE" => (ErrorKind::QueueFull, "has no more room in the queue"),
            "LOCKPERMITS" => (ErrorKind::InvalidConfig, "has another semaphore at the key"),
            "LOCKTAKE" => (ErrorKind::InvalidConfig, "cannot count that many permits"),
            "LOCKCLOSED" => (ErrorKind::Closed, "has a closed semaphore at the key"),
            "LOCKVOUCH" => (ErrorKind::InvalidConfig, "has not been vouched for that long"),
            "LOCKNODE" => (ErrorKind::ForeignKey, "has no standing among others"),
            "LOCKINFO" => (
                ErrorKind::Denied,
                "does not let this user run INFO, so that nobody can tell whether it has forgotten leases",
            ),
            "LOCKCLUSTER" => {
                (ErrorKind::Unsupported, "is a node of a cluster, and cannot be kept out of votes")
            }
            "LOCKOVER" => (ErrorKind::NotHeld, "does not convert"),
            "MOVED" | "ASK" | "CROSSSLOT" => {
                (ErrorKind::Unsupported, "is a node of a cluster, not a single server")
            }
            "NOPROTO" => (ErrorKind::Unsupported, "does not speak RESP3"),
            _ => self.meaning_of_text(),
        }
    }

    /// Some errors have no code of their own, and some versions wrap one in another.
    fn meaning_of_text(&self) -> (ErrorKind, &'static str) {
        let says = |text| self.text.contains(text);
        // The crate drops the code of what a server refuses while a connection is opened.
        let denied = ["ACL failure", "can't run this command", "NOPERM", "has no permissions"];
        if denied.into_iter().any(says) {
            (ErrorKind::Denied, "lets this user not do that")
        } else if says("max number of clients") {
            (ErrorKind::NotReady, "takes no more connections")
        } else if says("DB index") {
            (ErrorKind::InvalidConfig, "has no database of this number")
        } else if says("unknown command") || says("unknown subcommand") {
            (ErrorKind::Unsupported, "does not know a command")
        } else if wording::is_of_command(self.code, self.text, ErrorKind::Other) {
            (ErrorKind::Unsupported, "does not take a command")
        } else {
            (ErrorKind::Other, "refused a request")
        }
    }
}
