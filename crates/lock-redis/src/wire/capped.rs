//! A bound on one reply.
//!
//! The `redis` crate keeps the part of a reply that it has read until the reply is complete, whatever size the
//! server announces. Without a bound, a server that never completes a reply would use up all memory.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

use super::ended::Kind;
use super::through::writes_through;

/// The most bytes of one reply or message: far more than the replies about locks have. But a foreign value at
/// the key of a lock may be read as a whole, too.
const LARGEST_REPLY: u64 = 64 << 20;

/// The memory of a value besides its bytes, however small it is.
const EACH: u64 = 64;

/// The bytes of a line that matter: a sign, the digits of a length, and the end.
const HEAD: usize = 22;

/// A stream on which no server can send a reply without an end.
pub(super) struct Capped<S> {
    stream: S,
    meter: Meter,
}

impl<S> Capped<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, meter: Meter::new(LARGEST_REPLY) }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Capped<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        Poll::Ready(self.meter.read(&mut buffer.filled_mut()[before..]))
    }
}

writes_through!(Capped);

/// Follows where replies begin and end.
///
/// Accepts lengths as servers write them, and no others. The crate also accepts a sign, or spaces around a
/// length. If the two disagreed on one length, they would disagree on the end of everything after it.
#[derive(Debug)]
struct Meter {
    /// The most bytes of a reply.
    most: u64,
    /// The bytes of the present reply so far.
    taken: u64,
    /// The number of values of the reply that are still to come.
    to_come: u64,
    /// The bytes of the present text that are still to come.
    text: u64,
    /// The beginning of the line that is being read.
    head: Vec<u8>,
    /// The latest byte of that line, if there is one yet.
    last: Option<u8>,
    /// Which kind of push the present reply is, as far as that matters.
    kind: Kind,
}

impl Meter {
    fn new(most: u64) -> Self {
        let (head, kind) = (Vec::new(), Kind::default());
        Self { most, taken: 0, to_come: 0, text: 0, head, last: None, kind }
    }

    /// Reads the bytes that have come, and [renames](Kind::rename) the pushes that the crate would misread.
    fn read(&mut self, mut bytes: &mut [u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let count = if self.text > 0 { self.skip_text(bytes) } else { self.read_line(bytes)? };
            bytes = &mut bytes[count..];
            if self.taken > self.most {
                return Err(invalid("a reply is too long"));
            }
        }
        Ok(())
    }

    fn skip_text(&mut self, bytes: &mut [u8]) -> usize {
        let count = self.text.min(bytes.len() as u64);
        self.kind.rename(&mut bytes[..count as usize]);
        self.text -= count;
        self.taken += count;
        if self.text == 0 {
            self.end_value();
        }
        count as usize
    }

    /// Reads a line, or the part of it that has come. A line ends with two bytes, of which the first may have
    /// come before.
    fn read_line(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let newline = bytes.iter().position(|byte| *byte == b'\n');
        let count = newline.map_or(bytes.len(), |at| at + 1);
        let before = match count {
            2.. => Some(bytes[count - 2]),
            _ => self.last,
        };
        let ends = newline.is_some() && before == Some(b'\r');
        let room = HEAD.saturating_sub(self.head.len());
        self.head.extend_from_slice(&bytes[..count.min(room)]);
        self.last = Some(bytes[count - 1]);
        self.taken += count as u64;
        if ends {
            self.begin_value()?;
            self.head.clear();
            self.last = None;
        }
        Ok(count)
    }

    fn begin_value(&mut self) -> io::Result<()> {
        self.taken += EACH;
        let sign = self.head.first().copied();
        self.kind.begin(&self.head, self.to_come > 0);
        self.to_come = self.to_come.max(1);
        match sign {
            // There is no text, or no array.
            Some(b'$' | b'*') if self.head[1..] == *b"-1\r\n" => self.end_value(),
            Some(b'$' | b'=' | b'!') => self.text = self.length()?.saturating_add(2),
            Some(b'*' | b'~' | b'>') => self.open(self.length()?),
            Some(b'%') => self.open(self.length()?.saturating_mul(2)),
            // An attribute: the value it describes comes after it.
            Some(b'|') => self.open(self.length()?.saturating_mul(2).saturating_add(1)),
            Some(b'+' | b'-' | b':' | b'_' | b',' | b'#' | b'(') => self.end_value(),
            _ => return Err(invalid("a reply of no type")),
        }
        Ok(())
    }

    fn open(&mut self, count: u64) {
        self.to_come = self.to_come.saturating_add(count);
        self.end_value();
    }

    fn end_value(&mut self) {
        self.to_come -= 1;
        if self.to_come == 0 {
            self.taken = 0;
        }
    }

    /// Digits, and the end of the line.
    fn length(&self) -> io::Result<u64> {
        let digits = self.head.get(1..).and_then(|rest| rest.strip_suffix(b"\r\n"));
        let length = digits.filter(|it| it.iter().all(u8::is_ascii_digit)).and_then(|digits| {
            // The crate accepts no greater length either.
            std::str::from_utf8(digits).ok()?.parse::<i64>().ok()
        });
        let length = length.and_then(|length| u64::try_from(length).ok());
        length.ok_or_else(|| invalid("a reply has a length that is none"))
    }
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::ended::ENDED;

    const LITTLE: u64 = 1 << 15;

    /// Whether this many bytes can be read that begin like this and then repeat that.
    fn is_endless(begin: &[u8], more: &[u8]) -> bool {
        let mut meter = Meter::new(LITTLE);
        let mut bytes = [begin, &more.repeat(64)].concat();
        let mut read = 0;
        while read < 3 * LITTLE {
            if meter.read(&mut bytes).is_err() {
                return false;
            }
            read += bytes.len() as u64;
            bytes = more.repeat(64);
        }
        true
    }

    #[test]
    fn a_reply_without_an_end_is_cut() {
        for (begin, more) in [
            ("$4000000000\r\n", "x"),
            ("*4000000000\r\n", ":1\r\n"),
            (">9223372036854775807\r\n", "_\r\n"),
            ("%9223372036854775807\r\n", "$0\r\n\r\n"),
            ("|9223372036854775807\r\n", "$0\r\n\r\n"),
            ("=9223372036854775807\r\n", "+\r\n"),
            ("!4000000000\r\n", "_\r\n"),
            // A line of which only half of the end comes.
            ("+", "a\n"),
            ("+", "a\r"),
            (":1", "\n"),
            ("", "*1\r\n"),
            ("", "|1\r\n+a\r\n+b\r\n"),
            ("+", "OK"),
            ("*3\r\n$7\r\nmessage\r\n", "*2\r\n"),
        ] {
            assert!(!is_endless(begin.as_bytes(), more.as_bytes()), "{begin} {more}");
        }
    }

    /// What the crate accepts as a length, or waits for.
    #[test]
    fn what_is_no_length_ends_the_connection() {
        for sign in "$*%~>|!=".chars() {
            for length in [
                "",
                " ",
                "+4000000000",
                " 4000000000",
                "4000000000 ",
                "\t4",
                "4\n",
                "\u{a0}4",
                "-0",
                "-2",
                "--1",
                "-9223372036854775808",
                "9223372036854775808",
                "18446744073709551615",
                "?",
                "1e9",
                "0x7",
                "00000000000000000000000004000000000",
                "x",
                "-1 ",
                " -1",
                "-01",
            ] {
                let line = format!("{sign}{length}\r\n");
                let error = Meter::new(LITTLE).read(&mut line.as_bytes().to_vec()).unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{line:?}");
                // In pieces of any size.
                let mut meter = Meter::new(LITTLE);
                let outcome =
                    line.as_bytes().chunks(1).try_for_each(|it| meter.read(&mut it.to_vec()));
                assert!(outcome.is_err(), "{line:?}");
            }
            let mut none = format!("{sign}-1\r\n").into_bytes();
            let is_none = Meter::new(LITTLE).read(&mut none).is_ok();
            assert_eq!(is_none, "$*".contains(sign), "{sign}");
        }
        for line in ["\r\n", "x\r\n", "7\r\n", "\n\r\n"] {
            assert!(Meter::new(LITTLE).read(&mut line.as_bytes().to_vec()).is_err(), "{line:?}");
        }
    }

    #[test]
    fn replies_without_an_end_are_read() {
        for reply in [
            "+OK\r\n",
            "-ERR no\r\n",
            ":-7\r\n",
            "_\r\n",
            "$-1\r\n",
            "*-1\r\n",
            "*0\r\n",
            "$3\r\n\r\n\n\r\n",
            "+a\nb\rc\r\n",
            "=7\r\ntxt:a\r\n\r\n",
            ">3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\nb\r\n",
            "%1\r\n$5\r\nproto\r\n:3\r\n",
            "|1\r\n+a\r\n:1\r\n*1\r\n*2\r\n,1.5\r\n#t\r\n",
        ] {
            assert!(is_endless(b"", reply.as_bytes()), "{reply}");
        }
    }

    #[derive(Clone, Debug)]
    enum Value {
        Line(String),
        Text(Vec<u8>),
        Many(char, Vec<Value>),
    }

    impl Value {
        fn write(&self, to: &mut Vec<u8>) {
            match self {
                Self::Line(text) => to.extend_from_slice(format!("+{text}\r\n").as_bytes()),
                Self::Text(text) => {
                    to.extend_from_slice(format!("${}\r\n", text.len()).as_bytes());
                    to.extend_from_slice(text);
                    to.extend_from_slice(b"\r\n");
                }
                Self::Many(sign, values) => {
                    to.extend_from_slice(format!("{sign}{}\r\n", values.len()).as_bytes());
                    values.iter().for_each(|value| value.write(to));
                }
            }
        }
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            "[a-z ]{0,40}".prop_map(Value::Line),
            prop::collection::vec(any::<u8>(), 0..40).prop_map(Value::Text),
        ];
        leaf.prop_recursive(4, 24, 5, |inner| {
            let many = prop::collection::vec(inner, 0..5);
            (prop::sample::select(vec!['*', '~', '>']), many)
                .prop_map(|(sign, values)| Value::Many(sign, values))
        })
    }

    /// The bytes as the crate reads them, if they come in pieces of this size.
    fn handed_on(bytes: &str, piece: usize) -> String {
        let (mut bytes, mut meter) = (bytes.as_bytes().to_vec(), Meter::new(LITTLE));
        bytes.chunks_mut(piece).for_each(|piece| meter.read(piece).unwrap());
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn news_that_a_subscription_has_ended_has_another_name() {
        let said = "$12\r\nsunsubscribe\r\n$1\r\na\r\n:0\r\n";
        let (news, told) = (format!(">3\r\n{said}"), said.replace("sunsubscribe", ENDED));
        for piece in 1..news.len() + 2 {
            for before in ["", "+OK\r\n", "*2\r\n:1\r\n$1\r\na\r\n", &news] {
                let read = handed_on(&format!("{before}{news}:7\r\n"), piece);
                assert_eq!(read, format!("{}>3\r\n{told}:7\r\n", before.replace(said, &told)));
            }
        }
    }

    #[test]
    fn everything_else_keeps_its_name() {
        for other in [
            ">3\r\n$12\r\npunsubscribe\r\n$1\r\na\r\n:0\r\n",
            ">3\r\n$12\r\nsunsubscribd\r\n$12\r\nsunsubscribe\r\n:0\r\n",
            ">3\r\n$7\r\nmessage\r\n$12\r\nsunsubscribe\r\n$12\r\nsunsubscribe\r\n",
            "*3\r\n$12\r\nsunsubscribe\r\n$1\r\na\r\n:0\r\n",
            "*1\r\n>1\r\n$12\r\nsunsubscribe\r\n",
            ">0\r\n$12\r\nsunsubscribe\r\n",
            "$12\r\nsunsubscribe\r\n",
        ] {
            for piece in 1..other.len() + 1 {
                assert_eq!(handed_on(other, piece), other);
            }
        }
    }

    proptest! {
        /// In pieces of any size.
        #[test]
        fn the_end_of_every_reply_is_found(values in prop::collection::vec(values(), 1..5), piece in 1..50_usize) {
            let mut bytes = Vec::new();
            values.iter().for_each(|value| value.write(&mut bytes));
            let mut meter = Meter::new(LITTLE);
            for piece in bytes.chunks_mut(piece) {
                meter.read(piece).unwrap();
            }
            prop_assert_eq!((meter.taken, meter.to_come, meter.text), (0, 0, 0));
            prop_assert!(meter.head.is_empty());
        }

        #[test]
        fn what_is_no_reply_does_no_harm(mut bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let mut meter = Meter::new(LITTLE);
            let _ = meter.read(&mut bytes);
        }
    }
}
