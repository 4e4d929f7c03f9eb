//! The words of a request, which no error repeats.

use std::borrow::Cow;

use redis::{Arg, Cmd};

use super::{Address, Endpoint};

/// A shorter argument is a word of a command or a number, and is not hidden: otherwise every occurrence of that
/// word would look like a secret. So an error may repeat a value beside a lock that is this short, if a server
/// quotes it without cutting it off.
const SHORT: usize = 8;

/// The beginning of the codes of our scripts' errors.
pub(super) const OURS: &str = "LOCK";

/// Stands for hidden text.
const HIDDEN: &str = "…";

/// The words of a request, which a server may quote when it refuses. Some are secret: the credentials, and among
/// the arguments the tokens of owners and the values that apps keep beside a lock.
pub(super) struct Sent<'a> {
    pub(super) address: &'a Address,
    credentials: Vec<&'a str>,
    arguments: Vec<&'a str>,
}

impl<'a> Sent<'a> {
    /// Only the credentials, which every connection sends first.
    pub(super) fn login(endpoint: &'a Endpoint) -> Self {
        let login = [endpoint.login.password(), endpoint.login.username()];
        let credentials = login.into_iter().flatten().filter(|it| !it.is_empty()).collect();
        Self { address: &endpoint.address, credentials, arguments: Vec::new() }
    }

    pub(super) fn has_credentials(&self) -> bool {
        !self.credentials.is_empty()
    }

    /// The credentials, and the arguments of a command.
    pub(super) fn command(endpoint: &'a Endpoint, command: &'a Cmd) -> Self {
        let mut sent = Self::login(endpoint);
        for argument in command.args_iter().skip(1) {
            if let Arg::Simple(bytes) = argument {
                // A line of the protocol is text. Of other bytes it shows at most the text between them.
                let texts = bytes.utf8_chunks().map(|chunk| chunk.valid());
                sent.arguments.extend(texts.filter(|text| text.len() >= SHORT));
            }
        }
        // One argument may be a piece of another.
        sent.arguments.sort_unstable_by_key(|secret| std::cmp::Reverse(secret.len()));
        sent
    }

    #[cfg(test)]
    pub(super) fn to(address: &'a Address) -> Self {
        Self { address, credentials: Vec::new(), arguments: Vec::new() }
    }

    /// The shown part of an error with this code, without the words of the request. Errors of our own scripts
    /// contain numbers that were sent, and no other argument. Credentials are hidden everywhere, even if they
    /// look like a number.
    pub(super) fn hide_in<'t>(&self, code: &str, text: &'t str) -> Cow<'t, str> {
        let is_told = |argument: &str| code.starts_with(OURS) && is_number(argument);
        let arguments = self.arguments.iter().filter(|argument| !is_told(argument));
        // A credential may be a piece of an argument.
        arguments.chain(&self.credentials).fold(Cow::Borrowed(text), |text, secret| {
            if text.contains(secret) { Cow::Owned(without(&text, secret)) } else { text }
        })
    }
}

/// Whether an argument is a number. An owner token may consist of digits alone, but has more of them.
fn is_number(argument: &str) -> bool {
    const LONGEST_NUMBER: usize = 20;
    argument.len() <= LONGEST_NUMBER && argument.bytes().all(|byte| byte.is_ascii_digit())
}

/// A text without a secret. A short secret may be a piece of a common word, so it is hidden only where it stands
/// alone.
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
        let hidden = |text| sent.hide_in("ERR", text).into_owned();
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
        let hidden = |text| sent.hide_in("ERR", text).into_owned();
        assert_eq!(hidden("locks are a clockwork, lock: it"), "locks are … clockwork, …: it");
    }

    #[test]
    fn our_own_errors_say_numbers() {
        let endpoint = Endpoint::parse("redis://redis.example").unwrap();
        let Command(command) = Command::words(&["EVALSHA", "4294967295", "0123456789abcdef"]);
        let text = "4294967295 of 0123456789abcdef";
        let hidden = |code| Sent::command(&endpoint, &command).hide_in(code, text).into_owned();
        assert_eq!(hidden("LOCKTAKE"), "4294967295 of …");
        assert_eq!(hidden("ERR"), "… of …");
    }

    #[test]
    fn a_password_is_hidden_where_it_looks_like_a_number() {
        let endpoint = endpoint("locks", "1234");
        let Command(command) = Command::words(&["EVALSHA", "12345678"]);
        let sent = Sent::command(&endpoint, &command);
        assert_eq!(sent.hide_in("LOCKTAKE", "1234 of 12345678, 41234"), "… of 12345678, 41234");
    }

    #[test]
    fn a_token_of_digits_alone_and_texts_among_bytes_are_hidden() {
        let endpoint = Endpoint::parse("redis://redis.example").unwrap();
        let (token, mut command) = ("12345678901234567890123456789012", redis::cmd("EVALSHA"));
        command.arg(token).arg(b"\xffhidden-text\xff");
        let sent = Sent::command(&endpoint, &command);
        let said = format!("{token} and hidden-text");
        assert_eq!(sent.hide_in("LOCKTAKE", &said), "… and …");
    }

    #[test]
    fn no_credentials_hide_nothing() {
        let endpoint = Endpoint::parse("redis://redis.example").unwrap();
        assert_eq!(
            Sent::login(&endpoint).hide_in("NOAUTH", "NOAUTH Authentication"),
            "NOAUTH Authentication"
        );
    }
}
