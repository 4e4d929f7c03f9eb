//! What was sent, which no error repeats.

use std::borrow::Cow;

use redis::{Arg, Cmd};

use super::{Address, Endpoint};

/// An argument shorter than that is a word of a command or a number, and no secret.
const SHORT: usize = 8;

/// How the codes of our scripts' errors begin.
pub(super) const OURS: &str = "LOCK";

/// What stands for what is not repeated.
const HIDDEN: &str = "…";

/// What was sent to a server, which may quote it when it refuses. Some of it is secret: credentials, and among
/// the arguments the tokens of owners and what apps keep beside a lock.
pub(super) struct Sent<'a> {
    pub(super) address: &'a Address,
    secrets: Vec<&'a str>,
}

impl<'a> Sent<'a> {
    /// Nothing but the credentials, which every connection begins with.
    pub(super) fn login(endpoint: &'a Endpoint) -> Self {
        let login = [endpoint.login.password(), endpoint.login.username()];
        let secrets = login.into_iter().flatten().filter(|it| !it.is_empty()).collect();
        Self { address: &endpoint.address, secrets }
    }

    /// These, and the arguments of a command.
    pub(super) fn command(endpoint: &'a Endpoint, command: &'a Cmd) -> Self {
        let mut sent = Self::login(endpoint);
        let arguments = command.args_iter().skip(1).filter_map(|argument| match argument {
            Arg::Simple(bytes) if bytes.len() >= SHORT => std::str::from_utf8(bytes).ok(),
            _ => None,
        });
        sent.secrets.extend(arguments);
        // One may be a piece of another.
        sent.secrets.sort_unstable_by_key(|secret| std::cmp::Reverse(secret.len()));
        sent
    }

    #[cfg(test)]
    pub(super) fn to(address: &'a Address) -> Self {
        Self { address, secrets: Vec::new() }
    }

    /// The code and the text of an error, without what was sent. Errors of our own scripts say numbers that were
    /// sent, and nothing else.
    pub(super) fn hide_in<'t>(
        &self,
        code: &'t str,
        text: Option<&'t str>,
    ) -> (Cow<'t, str>, Cow<'t, str>) {
        let numbers = !code.starts_with(OURS);
        (self.hide(code, numbers), self.hide(text.unwrap_or_default(), numbers))
    }

    fn hide<'t>(&self, text: &'t str, numbers: bool) -> Cow<'t, str> {
        let is_number = |secret: &str| secret.bytes().all(|byte| byte.is_ascii_digit());
        let secrets = self.secrets.iter().filter(|secret| numbers || !is_number(secret));
        secrets.fold(Cow::Borrowed(text), |text, secret| {
            if text.contains(secret) { Cow::Owned(without(&text, secret)) } else { text }
        })
    }
}

/// A text without a secret. A short one may be a piece of a common word, and is taken for what it is only where
/// it stands alone.
fn without(text: &str, secret: &str) -> String {
    if secret.len() >= SHORT {
        return text.replace(secret, HIDDEN);
    }
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(secret) {
        let is_joined =
            before.ends_with(char::is_alphanumeric) || after.starts_with(char::is_alphanumeric);
        shown.push_str(before);
        shown.push_str(if is_joined { secret } else { HIDDEN });
        rest = after;
    }
    shown + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Command;

    fn endpoint(user: &str, password: &str) -> Endpoint {
        Endpoint::parse(&format!("redis://{user}:{password}@redis.example")).unwrap()
    }

    #[test]
    fn what_was_sent_is_hidden() {
        let endpoint = endpoint("locks", "hunter2");
        let Command(mut command) = Command::words(&["EVALSHA", "0", "30000"]);
        command.arg("0123456789abcdef").arg("the 0123456789abcdef of it").arg(b"\xff\xff");
        let sent = Sent::command(&endpoint, &command);
        let hidden = |text| sent.hide(text, true).into_owned();
        assert_eq!(hidden("User locks has no permissions"), "User … has no permissions");
        assert_eq!(hidden("'hunter2' and hunter2"), "'…' and …");
        assert_eq!(
            hidden("what is EVALSHA 0 30000 x:0123456789abcdef"),
            "what is EVALSHA 0 30000 x:…"
        );
        assert_eq!(hidden("not the 0123456789abcdef of it"), "not …");
        assert_eq!(hidden("nothing of that"), "nothing of that");
    }

    #[test]
    fn words_that_look_like_a_short_secret_stay() {
        let (endpoint, command) = (endpoint("a", "lock"), Command::words(&["PING"]).0);
        let sent = Sent::command(&endpoint, &command);
        let hidden = |text| sent.hide(text, true).into_owned();
        assert_eq!(hidden("locks are a clockwork, lock: it"), "locks are … clockwork, …: it");
    }

    #[test]
    fn our_own_errors_say_numbers() {
        let endpoint = Endpoint::parse("redis://redis.example").unwrap();
        let Command(command) = Command::words(&["EVALSHA", "4294967295", "0123456789abcdef"]);
        let text = Some("4294967295 of 0123456789abcdef");
        let hidden = |code| Sent::command(&endpoint, &command).hide_in(code, text).1.into_owned();
        assert_eq!(hidden("LOCKTAKE"), "4294967295 of …");
        assert_eq!(hidden("ERR"), "… of …");
    }

    #[test]
    fn no_credentials_hide_nothing() {
        let endpoint = Endpoint::parse("redis://redis.example").unwrap();
        assert_eq!(
            Sent::login(&endpoint).hide("NOAUTH Authentication", true),
            "NOAUTH Authentication"
        );
    }
}
