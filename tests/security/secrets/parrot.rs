//! A server that repeats what a client sends.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

/// The form of the repetition.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Manner {
    /// Unchanged.
    Verbatim,
    /// As an error with such a beginning, followed by the words of the request.
    Error(&'static str),
    Status,
    Bulk,
    /// As a message without a subscription.
    Push,
    /// As a line that is no reply.
    Garbage,
}

pub(crate) const MANNERS: [Manner; 12] = [
    Manner::Verbatim,
    Manner::Error("ERR what is meant by"),
    Manner::Error("ERR unknown command, with args beginning with:"),
    Manner::Error("NOPERM User has no permissions to run"),
    Manner::Error("WRONGPASS invalid:"),
    Manner::Error("NOAUTH"),
    Manner::Error("NOSCRIPT"),
    Manner::Error("MOVED 7"),
    Manner::Status,
    Manner::Bulk,
    Manner::Push,
    Manner::Garbage,
];

/// When the repetition begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum From {
    Greeting,
    /// The server accepts the commands that open a connection, and any user name.
    Requests,
}

/// Starts such a server, which lives as long as the process.
pub(crate) fn start(manner: Manner, from: From) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || talk(stream, manner, from));
        }
    });
    addr
}

fn talk(mut stream: TcpStream, manner: Manner, from: From) -> Option<()> {
    let mut unread = Vec::new();
    let mut bytes = [0; 4096];
    loop {
        let count = stream.read(&mut bytes).ok().filter(|count| *count > 0)?;
        unread.extend_from_slice(&bytes[..count]);
        while let Some((words, len)) = request(&unread) {
            let raw: Vec<u8> = unread.drain(..len).collect();
            let polite = if from == From::Requests { politely(&words) } else { None };
            let reply = polite.unwrap_or_else(|| manner.reply(&words, &raw));
            stream.write_all(&reply).ok()?;
        }
    }
}

/// The words of the first request, if it is complete, and its number of bytes.
fn request(bytes: &[u8]) -> Option<(Vec<String>, usize)> {
    let mut at = 0;
    let number = |at: &mut usize| {
        let line = bytes.get(*at..)?.split(|byte| *byte == b'\n').next()?;
        let end = *at + line.len() + 1;
        let text = std::str::from_utf8(line.get(1..)?).ok()?.trim();
        let number = bytes.get(end - 1).and_then(|_| text.parse::<usize>().ok())?;
        *at = end;
        Some(number)
    };
    let mut words = Vec::new();
    for _ in 0..number(&mut at)? {
        let len = number(&mut at)?;
        words.push(String::from_utf8_lossy(bytes.get(at..at + len)?).into_owned());
        at += len + 2;
    }
    (at <= bytes.len()).then_some((words, at))
}

fn politely(words: &[String]) -> Option<Vec<u8>> {
    let greeting = "%1\r\n$5\r\nproto\r\n:3\r\n".to_owned();
    let digest = format!("$40\r\n{}\r\n", "0".repeat(40));
    let reply = match words.first()?.as_str() {
        "HELLO" if words.get(1)? == "3" => greeting,
        "AUTH" | "CLIENT" | "SELECT" => "+OK\r\n".to_owned(),
        "SCRIPT" => digest,
        _ => return None,
    };
    Some(reply.into_bytes())
}

impl Manner {
    fn reply(self, words: &[String], raw: &[u8]) -> Vec<u8> {
        let said = words.join(" ").replace(['\r', '\n'], " ");
        let reply = match self {
            Self::Verbatim => return raw.to_vec(),
            Self::Error(begin) => format!("-{begin} {said}\r\n"),
            Self::Status => format!("+{said}\r\n"),
            Self::Bulk => format!("${}\r\n{said}\r\n", said.len()),
            Self::Push => {
                let len = said.len();
                format!(">3\r\n$7\r\nmessage\r\n${len}\r\n{said}\r\n${len}\r\n{said}\r\n")
            }
            Self::Garbage => format!("{said}\r\n"),
        };
        reply.into_bytes()
    }
}
