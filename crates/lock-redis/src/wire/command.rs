//! The commands that a client sends.

use std::fmt;
use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use lock_core::{Error, ErrorKind};
use redis::{Arg, Cmd, RedisWrite as _};

use super::script::Script;
use crate::keys::Keeping;

/// A command of a few words, for what happens once per connection.
pub(crate) struct Command(pub(super) Cmd);

impl Command {
    pub(crate) fn words(words: &[&str]) -> Self {
        let mut command = Cmd::new();
        for word in words {
            command.write_arg(word.as_bytes());
        }
        Self(command)
    }

    pub(super) fn load(script: &Script) -> Self {
        Self::words(&["SCRIPT", "LOAD", script.body()])
    }
}

/// How a call names its script.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum By {
    /// By its digest: `EVALSHA`.
    #[default]
    Digest,
    /// By its text: `EVAL`.
    Body,
}

/// A call of a script, with its arguments written into one buffer.
pub(crate) struct Call {
    script: &'static Script,
    by: By,
    pub(super) command: Cmd,
    /// The last argument, once the call has one.
    number: Option<Number>,
    /// How the state of a lock is kept: the last argument but one, if the script concerns states.
    keeping: Option<Keeping>,
    keys: u16,
    prefix: Option<Prefix>,
}

/// A command that is sent together with a call, and concerns that call alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Prefix {
    /// The server tracks the keys of the call.
    Caching,
    /// The server serves a slot that it is about to take over.
    Asking,
}

impl Prefix {
    pub(super) fn words(self) -> &'static [&'static str] {
        match self {
            Self::Caching => &["CLIENT", "CACHING", "YES"],
            Self::Asking => &["ASKING"],
        }
    }
}

impl Call {
    /// A call with this many keys, in a buffer with room for arguments of `room` bytes.
    pub(crate) fn new(script: &'static Script, keys: u16, room: usize) -> Self {
        const WORDS: usize = 20;
        const NUMBERS: usize = 40;
        let command = Cmd::with_capacity(WORDS, script.digest().len() + NUMBERS + room);
        let mut call = Self {
            script,
            by: By::Digest,
            command,
            number: None,
            keeping: None,
            keys,
            prefix: None,
        };
        call.begin().number(keys.into());
        call
    }

    /// Adds the arguments that name the script.
    fn begin(&mut self) -> &mut Self {
        let script = self.script;
        match self.by {
            By::Digest => self.bytes(b"EVALSHA").bytes(script.digest().as_bytes()),
            By::Body => self.bytes(b"EVAL").bytes(script.body().as_bytes()),
        }
    }

    /// This call, after which the server reports once when a key that the script reads may have another
    /// value. RESP3 only, and only once the connection tracks the keys of such calls.
    pub(crate) fn tracked(mut self) -> Self {
        self.prefix = Some(Prefix::Caching);
        self
    }

    /// This call, for a server to which a slot is being moved.
    pub(crate) fn asking(mut self) -> Self {
        self.prefix = Some(Prefix::Asking);
        self
    }

    /// This call, of a script that may write the state of a lock.
    pub(crate) fn keeping(mut self, keeping: Keeping) -> Self {
        self.keeping = Some(keeping);
        self
    }

    pub(crate) fn script(&self) -> &'static Script {
        self.script
    }

    /// The script in the form that is sent.
    pub(crate) fn sends(&self) -> &'static Script {
        self.keeping.as_ref().map_or(self.script, |keeping| self.script.with_terms(keeping.terms))
    }

    pub(super) fn prefix(&self) -> Option<Prefix> {
        self.prefix
    }

    /// How many keys the script names.
    pub(super) fn keys(&self) -> u16 {
        self.keys
    }

    /// The first of these keys, if there is one.
    pub(crate) fn first_key(&self) -> Option<&[u8]> {
        /// The command, the script and the number of the keys.
        const BEFORE: usize = 3;
        match self.command.args_iter().nth(BEFORE) {
            Some(Arg::Simple(key)) if self.keys > 0 => Some(key),
            _ => None,
        }
    }

    /// Adds an argument.
    pub(crate) fn bytes(&mut self, argument: &[u8]) -> &mut Self {
        self.command.write_arg(argument);
        self
    }

    /// Adds one argument that comes in pieces.
    pub(crate) fn pieces<const N: usize>(&mut self, pieces: [&[u8]; N]) -> &mut Self {
        let mut argument = self.command.writer_for_next_arg();
        for piece in pieces {
            // Writing to memory does not fail.
            let _ = argument.write_all(piece);
        }
        drop(argument);
        self
    }

    /// Adds an argument in decimal digits.
    pub(crate) fn number(&mut self, argument: u64) -> &mut Self {
        self.text(argument)
    }

    /// Adds an argument as it is shown.
    pub(crate) fn text(&mut self, argument: impl fmt::Display) -> &mut Self {
        self.command.write_arg_fmt(argument);
        self
    }

    /// Names the script in this way, and adds the number that the answer is going to name. Both replace those
    /// of an earlier attempt.
    pub(super) fn name(&mut self, by: By, number: Number) {
        let script = self.script;
        self.script = self.sends();
        if let Some(keeping) = self.keeping.take() {
            self.text(keeping);
        }
        let is_sent = self.number.replace(number).is_some();
        if is_sent || by != self.by || !std::ptr::eq(script, self.script) {
            self.by = by;
            self.write_anew(is_sent);
        }
        self.number(number.0);
    }

    /// Writes all arguments again, except the number at the end, if there is one.
    fn write_anew(&mut self, has_number: bool) {
        /// The command, and the digest or the body.
        const BEGINNING: usize = 2;
        let before = std::mem::take(&mut self.command);
        let count = before.args_iter().len() - usize::from(has_number);
        self.begin();
        for argument in before.args_iter().take(count).skip(BEGINNING) {
            if let Arg::Simple(argument) = argument {
                self.bytes(argument);
            }
        }
    }
}

/// The number that an answer names, so that it is not taken for the answer to another request.
///
/// A connection pairs requests with replies by their order alone. It is out of step for good once a reply
/// counted as two, or two counted as one, or a proxy delivered the reply of another client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Number(u64);

impl Number {
    /// Large enough that no two numbers of a connection meet, in few digits.
    const HIGHEST: u64 = (1 << 48) - 1;

    /// The rest of an answer after this number; `None` if the answer does not begin with it.
    pub(super) fn rest(self, answer: &[u8]) -> Option<&[u8]> {
        let digits = answer.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (named, rest) = answer.split_at(digits);
        let named = std::str::from_utf8(named).ok()?.parse::<u64>().ok()?;
        (named == self.0).then_some(rest)
    }

    #[cfg(test)]
    pub(super) fn to_text(self) -> String {
        self.0.to_string()
    }
}

/// The numbers of a connection's requests.
#[derive(Debug)]
pub(crate) struct Numbers(AtomicU64);

impl Numbers {
    /// They begin at a random number, so that two connections do not share theirs.
    pub(crate) fn new() -> Result<Self, Error> {
        let first = getrandom::u64().map_err(|error| {
            Error::with_source(ErrorKind::Other, "no random bytes from the system", error)
        })?;
        Ok(Self(AtomicU64::new(first)))
    }

    pub(crate) fn next(&self) -> Number {
        Number(self.0.fetch_add(1, Ordering::Relaxed) & Number::HIGHEST)
    }
}

/// Arguments contain secrets, so only the first word is shown.
impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Command").field(&first_word(&self.0)).finish()
    }
}

/// Arguments contain owner tokens, so only the first word is shown.
impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Call").field(&first_word(&self.command)).finish()
    }
}

fn first_word(command: &Cmd) -> String {
    match command.args_iter().next() {
        Some(Arg::Simple(name)) => String::from_utf8_lossy(name).into_owned(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripts::RENEW;

    fn words(call: &Call) -> Vec<Vec<u8>> {
        let words = call.command.args_iter().map(|word| match word {
            Arg::Simple(word) => word.to_vec(),
            _ => panic!("no word"),
        });
        words.collect()
    }

    #[test]
    fn a_call_that_is_sent_again_has_another_number_and_nothing_else() {
        let mut call = Call::new(&RENEW, 1, 0);
        call.bytes(b"key").pieces([b"a", b"b"]).number(7);
        let before = words(&call);
        for number in [5, 1 << 52] {
            call.name(By::Digest, Number(number));
            let (last, others) =
                words(&call).split_last().map(|(a, b)| (a.clone(), b.to_vec())).unwrap();
            assert_eq!((last, others), (number.to_string().into_bytes(), before.clone()));
        }
    }

    #[test]
    fn a_call_is_sent_by_digest_and_by_body_in_any_order_with_all_its_arguments() {
        let arguments = |number: u64| {
            [&b"2"[..], b"key", b"ab", b"7", number.to_string().as_bytes()].map(<[u8]>::to_vec)
        };
        let beginning = |by| match by {
            By::Digest => ["EVALSHA", RENEW.digest()],
            By::Body => ["EVAL", RENEW.body()],
        };
        for first in [By::Digest, By::Body] {
            let mut call = Call::new(&RENEW, 2, 0);
            call.bytes(b"key").pieces([b"a", b"b"]).number(7);
            for (number, by) in (1..).zip([first, By::Body, By::Body, By::Digest, first]) {
                call.name(by, Number(number));
                let begin = beginning(by).map(|word| word.as_bytes().to_vec());
                assert_eq!(words(&call), [&begin[..], &arguments(number)].concat());
            }
        }
    }

    #[test]
    fn the_first_key_is_no_other_argument() {
        for (keys, first) in [(0, None), (1, Some(&b"key"[..])), (2, Some(b"key"))] {
            let mut call = Call::new(&RENEW, keys, 0);
            call.bytes(b"key").number(7);
            assert_eq!(call.first_key(), first);
        }
    }

    #[test]
    fn numbers_follow_one_another() {
        for first in [0, Number::HIGHEST - 1, u64::MAX - 1] {
            let numbers = Numbers(AtomicU64::new(first));
            let drawn: Vec<_> = std::iter::repeat_with(|| numbers.next().0).take(4).collect();
            assert!(drawn.iter().all(|number| *number <= Number::HIGHEST));
            assert!(drawn.windows(2).all(|pair| pair[1] == (pair[0] + 1) & Number::HIGHEST));
        }
        assert_eq!(Number(7).rest(b"7 a"), Some(&b" a"[..]));
        assert_eq!(Number(7).rest(b"7"), Some(&b""[..]));
        for answer in ["", " ", "8 a", "77 a", "-7 a", "+7", "18446744073709551623 a", "a 7"] {
            assert_eq!(Number(7).rest(answer.as_bytes()), None, "{answer}");
        }
        assert_ne!(Numbers::new().unwrap().next(), Numbers::new().unwrap().next());
    }
}
