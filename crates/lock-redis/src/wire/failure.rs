//! Failures, in the vocabulary of `lock-core`.

#[cfg(test)]
mod tests;

use lock_core::{Error, ErrorKind};
use redis::{RedisError, ServerError};

use super::Address;
use super::sent::{OURS, Sent};
use super::shown::Shown;
use super::wording;
use crate::slot::SLOTS;

/// Why a request has no reply.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    /// The server does not know the script, and did not run it.
    NoScript(Error),
    /// The server, or a proxy before it, does not accept this command, and did not run it.
    NoCommand(Error),
    /// The server is a replica, or has become one. Another connection may lead to its master.
    Demoted(Error),
    /// The slot of the keys is being moved, and the server cannot serve all of them at once.
    Moving(Error),
    /// Another server serves the slot of the keys.
    Moved(Redirect, Error),
    /// The slot of the only key is being moved, and another server has the key, if there is one.
    Asks(Redirect, Error),
    /// The server did not run the request, and may do so soon.
    Later(Error),
    /// There was no connection, so nothing was sent.
    Unsent(Error),
    /// The server wants a password first.
    NoAuth(Error),
    /// The server, or a proxy before it, did not accept the greeting of RESP3.
    NoResp3(Error),
    /// The reply belongs to something else, and so may the later replies on the connection.
    Astray(Error),
    /// Everything else.
    Error(Error),
}

impl Failure {
    /// The failure as an error for callers, when this crate can do nothing about it.
    pub(crate) fn into_error(self) -> Error {
        self.error().clone()
    }

    /// The error for callers.
    pub(crate) fn error(&self) -> &Error {
        match self {
            Self::NoScript(error)
            | Self::NoCommand(error)
            | Self::Demoted(error)
            | Self::Moving(error)
            | Self::Moved(_, error)
            | Self::Asks(_, error)
            | Self::Later(error)
            | Self::Unsent(error)
            | Self::NoAuth(error)
            | Self::NoResp3(error)
            | Self::Astray(error)
            | Self::Error(error) => error,
        }
    }

    /// The server to ask, if the server that was asked is not the one. The inner `None`: it does not say which.
    pub(crate) fn leads_on(&self) -> Option<Option<&Address>> {
        match self {
            Self::Moved(redirect, _) | Self::Asks(redirect, _) => Some(redirect.address.as_ref()),
            Self::Demoted(_) => Some(None),
            _ => None,
        }
    }

    /// This failure, for a script that ran and is not run again.
    pub(super) fn of_one_that_ran(self) -> Self {
        match self {
            Self::NoScript(error)
            | Self::NoCommand(error)
            | Self::Moving(error)
            | Self::Moved(_, error)
            | Self::Asks(_, error)
            | Self::Later(error) => Self::Error(error),
            failure => failure,
        }
    }

    /// This failure, for a script that names so many keys. The server that gets the slot cannot serve several keys
    /// of which it lacks some, and the one that asks to go there has none of them.
    pub(super) fn of_keys(self, keys: u16) -> Self {
        match self {
            Self::Asks(_, error) if keys != 1 => Self::Moving(error),
            failure => failure,
        }
    }
}

/// Where a server sends its clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Redirect {
    pub(crate) slot: u16,
    /// `None` if the server does not say.
    pub(crate) address: Option<Address>,
}

impl Redirect {
    /// Reads `slot host:port`. A server that knows no host means its own.
    fn read(text: &str, asked: &Address) -> Option<Self> {
        let mut words = text.split(' ');
        let slot = words.next()?.parse().ok().filter(|slot| *slot < SLOTS)?;
        let (host, port) = words.next()?.rsplit_once(':')?;
        let address = Address::named(host, port.parse().ok()?, asked);
        words.next().is_none().then_some(Self { slot, address })
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

/// The server refused. An error that only a script of ours gives, and then with the number of its call, is
/// not its answer.
pub(super) fn refused(sent: &Sent<'_>, error: &ServerError) -> Failure {
    if error.code() == "WRONGTYPE" || error.code().starts_with(OURS) {
        return astray(sent.address);
    }
    refusal(sent, error)
}

/// A script returned an error. So it ran, and the server knows it.
pub(super) fn gone_wrong(sent: &Sent<'_>, error: &ServerError) -> Failure {
    refusal(sent, error).of_one_that_ran()
}

fn refusal(sent: &Sent<'_>, error: &ServerError) -> Failure {
    Refusal::new(error.code(), error.details().unwrap_or_default()).failure(sent)
}

/// The reply answers another request.
pub(super) fn astray(address: &Address) -> Failure {
    let message = format!("{address} sent a reply that belongs to another request");
    Failure::Astray(Error::new(ErrorKind::Protocol, message))
}

/// The connection to a server broke, or its bytes make no sense.
pub(super) fn broken(sent: &Sent<'_>, error: RedisError) -> Failure {
    Failure::Error(convert(sent, error))
}

/// The greeting of RESP3 failed.
///
/// Any reply that is neither about credentials nor about the state of the server means that the server may
/// well accept RESP2: there are as many wordings as there are proxies.
pub(super) fn no_greeting(sent: &Sent<'_>, error: RedisError) -> Failure {
    // The greeting contains the credentials. A server that asks for them does not know the greeting.
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
        // The server ends TLS after the handshake if it does not accept the certificate of the client.
        Kind::Io if is_final_alert(&error.to_string()) => Error::with_source(
            ErrorKind::Denied,
            format!("{address} did not accept the certificate of this client, or wants one"),
            error,
        ),
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
        // For this kind the crate quotes the reply, which may quote the request.
        Kind::UnexpectedReturnType => {
            Error::new(ErrorKind::Protocol, format!("{address} sent what is no reply"))
        }
        // Texts of other kinds may quote the request.
        kind => Error::new(ErrorKind::Other, format!("a request to {address} failed: {kind:?}")),
    }
}

/// Whether the other side has ended TLS for a reason that another attempt meets as well, such as a certificate. An alert
/// about trouble of the server, or about damaged bytes, is not final.
pub(crate) fn is_final_alert(error: &str) -> bool {
    const PASSING: [&str; 5] =
        ["InternalError", "BadRecordMac", "DecodeError", "RecordOverflow", "UserCanceled"];
    error
        .split_once("fatal alert: ")
        .is_some_and(|(_, alert)| !PASSING.iter().any(|passing| alert.starts_with(passing)))
}

/// An error that a server replied with.
struct Refusal<'a> {
    code: &'a str,
    text: &'a str,
}

impl<'a> Refusal<'a> {
    /// Servers before Redis 7 wrap the error of a script: `ERR Error running script (call to f_…):
    /// @user_script:4: @user_script: 4: -OOM command not…`. The inner part is the error. If our scripts
    /// catch it, only the place stands before it: `@user_script: 4: -OOM command not…`.
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
            // Otherwise a colon in a quotation would make a code of an argument.
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
            "CLUSTERDOWN" | "MASTERDOWN" | "LOADING" => Failure::Later(error),
            "MOVED" => match Redirect::read(self.text, sent.address) {
                Some(redirect) => Failure::Moved(redirect, error),
                None => Failure::Error(error),
            },
            "ASK" => match Redirect::read(self.text, sent.address) {
                Some(redirect) => Failure::Asks(redirect, error),
                None => Failure::Error(error),
            },
            "NOAUTH" => Failure::NoAuth(error),
            code if wording::is_of_command(code, self.text, error.kind()) => {
                Failure::NoCommand(error)
            }
            _ => Failure::Error(error),
        }
    }

    /// The meaning comes from the words of the server. The shown text omits what was sent, of which a piece
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
            "NOPERM" => (ErrorKind::Denied, "does not allow this user to do that"),
            "NOAUTH" | "WRONGPASS" => {
                (ErrorKind::Denied, "did not accept the user name and password")
            }
            "WRONGTYPE" => (ErrorKind::ForeignKey, "has something at the key that is not a lock"),
            "MOVED" | "ASK" | "CROSSSLOT" => (
                ErrorKind::Unsupported,
                "is a node of a cluster, not a single server: use a URL redis+cluster://…",
            ),
            "NOPROTO" => (ErrorKind::Unsupported, "does not speak RESP3"),
            _ => self.meaning_of_ours().unwrap_or_else(|| self.meaning_of_text()),
        }
    }

    /// The codes of our scripts.
    fn meaning_of_ours(&self) -> Option<(ErrorKind, &'static str)> {
        Some(match self.code {
            "LOCKFENCE" => (ErrorKind::ForeignKey, "has an unusable fence for the key"),
            "LOCKVERSION" => (
                ErrorKind::ForeignKey,
                "stores the lock in the format of another version: use one version of this library for it",
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
            "LOCKDATA" => (ErrorKind::ForeignKey, "does not say whether it has forgotten leases"),
            "LOCKINFO" => (
                ErrorKind::Denied,
                "does not allow this user to run INFO, so it is unknown whether it has forgotten leases",
            ),
            "LOCKTERM" => (
                ErrorKind::Denied,
                "does not allow this user to run INFO, so no grant can name the term of the server: grant the right \
                 +info, or switch the quarantine of terms off",
            ),
            "LOCKCLUSTER" => (ErrorKind::Unsupported, "is a node of a cluster, and cannot sit out"),
            "LOCKGONE" => (ErrorKind::NotReady, "does not have the lock any more"),
            "LOCKOVER" => (ErrorKind::NotHeld, "does not convert"),
            _ => return None,
        })
    }

    /// Some errors have no code of their own, and some versions wrap one error in another.
    fn meaning_of_text(&self) -> (ErrorKind, &'static str) {
        let says = |text| self.text.contains(text);
        // The crate drops the code of an error that comes while a connection is opened.
        let denied = ["ACL failure", "can't run this command", "NOPERM", "has no permissions"];
        if denied.into_iter().any(says) {
            (ErrorKind::Denied, "does not allow this user to do that")
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
