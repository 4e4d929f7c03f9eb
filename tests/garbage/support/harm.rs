//! The harm to the replies of a server.

use lock_tests::Random;

use super::elements;

/// One way to harm a reply or a push. The rest of the server's bytes follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Harm {
    /// It is cut short.
    Cut,
    /// It is cut short, and the connection ends.
    CutOff,
    /// It gets another type.
    Type,
    /// One of its bytes is changed.
    Byte,
    /// One of its digits is changed.
    Digit,
    /// A wrong length is put before it.
    Length,
    /// It is wrapped in more lists than any reader expects.
    Depth,
    /// A message without a subscription is put before it.
    Push,
    /// The message is put into the middle of a list.
    PushInside,
    /// A line without an end is put before it.
    Endless,
    /// Bytes without a meaning are put before it.
    Noise,
    /// Another reply takes its place.
    Other,
    /// It is sent twice.
    Twice,
    /// It is not sent at all.
    Dropped,
}

impl Harm {
    pub(crate) const ALL: [Self; 14] = [
        Self::Cut,
        Self::CutOff,
        Self::Type,
        Self::Byte,
        Self::Digit,
        Self::Length,
        Self::Depth,
        Self::Push,
        Self::PushInside,
        Self::Endless,
        Self::Noise,
        Self::Other,
        Self::Twice,
        Self::Dropped,
    ];

    /// The harmed bytes, and whether anything follows them.
    pub(crate) fn harm(self, frame: &[u8], random: &mut Random) -> (Vec<u8>, bool) {
        let mut frame = frame.to_vec();
        let at = random.below(frame.len());
        let before = |bytes: Vec<u8>, frame: Vec<u8>| ([bytes, frame].concat(), true);
        match self {
            Self::Cut | Self::CutOff => {
                frame.truncate(at);
                (frame, self == Self::Cut)
            }
            Self::Type => {
                frame[0] = *random.pick(b"+-:$*%~>|_,#!=(");
                (frame, true)
            }
            Self::Byte => {
                frame[at] = random.draw() as u8;
                (frame, true)
            }
            Self::Digit => {
                change_a_digit(&mut frame, random);
                (frame, true)
            }
            Self::Length => before(length(random), frame),
            Self::Depth => before(depth(random), frame),
            Self::Push => before(push(random), frame),
            Self::PushInside => {
                let places = elements(&frame);
                let at = if places.is_empty() { at } else { *random.pick(&places) };
                frame.splice(at..at, push(random));
                (frame, true)
            }
            Self::Endless => {
                let kind = *random.pick(b"+-:$*(");
                before([&[kind], &[b'7'; 1 << 18][..]].concat(), frame)
            }
            Self::Noise => before(noise(random), frame),
            Self::Other => (other(random).to_vec(), true),
            Self::Twice => (frame.repeat(2), true),
            Self::Dropped => (Vec::new(), true),
        }
    }
}

fn change_a_digit(frame: &mut [u8], random: &mut Random) {
    let digits: Vec<_> = (0..frame.len()).filter(|&at| frame[at].is_ascii_digit()).collect();
    if !digits.is_empty() {
        frame[*random.pick(&digits)] = b'0' + random.below(10) as u8;
    }
}

/// Arrays within arrays.
fn depth(random: &mut Random) -> Vec<u8> {
    let depth = *random.pick(&[2, 50, 99, 100, 101, 5_000, 100_000]);
    let header = *random.pick(&[&b"*1\r\n"[..], b"~1\r\n", b">1\r\n", b"%1\r\n", b"|1\r\n"]);
    header.repeat(depth)
}

fn noise(random: &mut Random) -> Vec<u8> {
    (0..1 + random.below(40)).map(|_| random.draw() as u8).collect()
}

/// A length, before a value that is shorter.
fn length(random: &mut Random) -> Vec<u8> {
    let kind = char::from(*random.pick(b"$*%~>|!="));
    let number = *random.pick(&[
        "4294967295",
        "2147483647",
        "9223372036854775807",
        "9223372036854775808",
        "18446744073709551615",
        "-2",
        "-9223372036854775808",
        "1000000",
        "?",
        "",
        "1e9",
    ]);
    format!("{kind}{number}\r\n").into_bytes()
}

/// A message of any kind, with any content.
fn push(random: &mut Random) -> Vec<u8> {
    let kinds = [
        "message",
        "pmessage",
        "smessage",
        "invalidate",
        "subscribe",
        "unsubscribe",
        "psubscribe",
        "punsubscribe",
        "ssubscribe",
        "sunsubscribe",
        "odd",
        "",
    ];
    let kind = *random.pick(&kinds);
    let mut push = Vec::new();
    let count = random.below(5);
    let claimed = if random.percent(80) { count + 1 } else { random.below(7) };
    push.extend_from_slice(format!(">{claimed}\r\n${}\r\n{kind}\r\n", kind.len()).as_bytes());
    for _ in 0..count {
        let junk =
            ["lock:{0}", "lock:{0}:released@0", "granted 00 1 2 3 4 5 lock:{0}", "", "released"];
        match random.below(6) {
            0 => push.extend_from_slice(b":1\r\n"),
            1 => push.extend_from_slice(b"_\r\n"),
            2 => push.extend_from_slice(b"*1\r\n$8\r\nlock:{0}\r\n"),
            _ => {
                let junk = *random.pick(&junk);
                push.extend_from_slice(format!("${}\r\n{junk}\r\n", junk.len()).as_bytes());
            }
        }
    }
    push
}

/// A valid reply of a server, in the wrong place. It answers no request.
fn other(random: &mut Random) -> &'static [u8] {
    const SAID: [&[u8]; 33] = [
        b"_\r\n",
        b"$-1\r\n",
        b"*-1\r\n",
        b"*0\r\n",
        b"%0\r\n",
        b"+OK\r\n",
        b"+\r\n",
        b"#t\r\n",
        b",1.5\r\n",
        b",nan\r\n",
        b"(99999999999999999999\r\n",
        b":0\r\n",
        b":-1\r\n",
        b":-9223372036854775808\r\n",
        b":9223372036854775807\r\n",
        b"=7\r\ntxt:odd\r\n",
        b"=3\r\nodd\r\n",
        b"!3\r\nodd\r\n",
        b"$2\r\n\xff\xfe\r\n",
        b"-\r\n",
        b"-ERR odd\r\n",
        b"-NOSCRIPT odd\r\n",
        b"-NOPERM odd permissions to run\r\n",
        b"-ERR unknown command 'ODD'\r\n",
        b"-READONLY odd\r\n",
        b"-MOVED 1 127.0.0.1:1\r\n",
        b"-LOADING odd\r\n",
        b"-\xff\r\n",
        b"-LOCKCLOSED odd\r\n",
        b"-WRONGTYPE odd\r\n",
        b"*2\r\n:0\r\n:-1\r\n",
        b">0\r\n",
        b"|0\r\n:0\r\n",
    ];
    SAID[random.below(SAID.len())]
}
