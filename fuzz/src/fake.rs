//! A server whose answers are those of the fuzzer.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What stands between one answer and the next in an input.
const BETWEEN: &[u8] = b"\x00\xff";

/// What a server says, one answer for each request that matters.
#[derive(Debug)]
pub struct Conversation<'a> {
    answers: Vec<&'a [u8]>,
    /// Whether it speaks RESP3.
    pub is_new: bool,
    /// Whether its greeting makes sense, and other answers on which nothing depends.
    pub is_polite: bool,
}

impl<'a> Conversation<'a> {
    /// Reads an input: a byte of how, and the answers.
    pub fn read(input: &'a [u8]) -> Self {
        let (how, rest) = input.split_first().map_or((0, input), |(how, rest)| (*how, rest));
        let mut answers = vec![];
        let mut rest = rest;
        while let Some(at) = rest.windows(BETWEEN.len()).position(|it| it == BETWEEN) {
            answers.push(&rest[..at]);
            rest = &rest[at + BETWEEN.len()..];
        }
        answers.push(rest);
        Self { answers, is_new: how & 1 == 0, is_polite: how & 2 == 0 }
    }

    /// Whether these bytes are anywhere in what it says.
    pub fn has(&self, bytes: &[u8]) -> bool {
        self.answers.iter().any(|answer| answer.windows(bytes.len()).any(|it| it == bytes))
    }
}

/// Where the server listens.
#[derive(Debug)]
pub struct Place {
    listener: TcpListener,
    addr: SocketAddr,
}

impl Place {
    /// A port of its own, in the context of a runtime. Not a Unix socket: to write to one that was closed is
    /// a signal, which ends a fuzzer.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub async fn open() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let addr = listener.local_addr()?;
        Ok(Self { listener, addr })
    }

    /// The URL for a client.
    pub fn url(&self) -> String {
        format!("redis://{}", self.addr)
    }

    /// Has the conversation with each client that connects, one after another. The answers go on where they were
    /// with the one before.
    pub async fn serve(&self, conversation: &Conversation<'_>) {
        let mut next = 0;
        loop {
            let Ok((stream, _)) = self.listener.accept().await else { continue };
            // Thousands of connections in a minute would leave no port free.
            let _ = stream.set_zero_linger();
            let _ = talk(stream, conversation, &mut next).await;
        }
    }
}

/// Until one of both has nothing more to say.
async fn talk(mut stream: TcpStream, it: &Conversation<'_>, next: &mut usize) -> io::Result<()> {
    let (mut bytes, mut buffer) = (Vec::new(), vec![0; 16 * 1024]);
    loop {
        while let Some((words, length)) = command(&bytes) {
            let usual = it.is_polite.then(|| usual(&words, it.is_new)).flatten();
            match usual {
                Some(answer) => stream.write_all(&answer).await?,
                None => {
                    let Some(answer) = it.answers.get(*next) else { return Ok(()) };
                    *next += 1;
                    stream.write_all(answer).await?;
                }
            }
            bytes.drain(..length);
        }
        let count = stream.read(&mut buffer).await?;
        if count == 0 {
            return Ok(());
        }
        bytes.extend_from_slice(&buffer[..count]);
    }
}

/// What any server answers to this, if nothing depends on it.
fn usual(words: &[Vec<u8>], is_new: bool) -> Option<Vec<u8>> {
    let name = words.first()?.to_ascii_uppercase();
    Some(match name.as_slice() {
        b"HELLO" if is_new => b"%1\r\n$5\r\nproto\r\n:3\r\n".to_vec(),
        b"HELLO" => b"-NOPROTO unsupported protocol version\r\n".to_vec(),
        b"CLIENT" | b"SELECT" => b"+OK\r\n".to_vec(),
        b"SCRIPT" => b"$40\r\n0123456789012345678901234567890123456789\r\n".to_vec(),
        b"SUBSCRIBE" | b"UNSUBSCRIBE" => {
            let kind = String::from_utf8_lossy(&name).to_lowercase();
            let mut answer = Vec::new();
            for channel in &words[1..] {
                let first = if is_new { '>' } else { '*' };
                let head =
                    format!("{first}3\r\n${}\r\n{kind}\r\n${}\r\n", kind.len(), channel.len());
                answer.extend_from_slice(head.as_bytes());
                answer.extend_from_slice(channel);
                answer.extend_from_slice(b"\r\n:1\r\n");
            }
            answer
        }
        _ => return None,
    })
}

/// The first command of what a client has sent, if it is complete, and how long it is.
fn command(bytes: &[u8]) -> Option<(Vec<Vec<u8>>, usize)> {
    let mut at = 0;
    let count = header(bytes, b'*', &mut at)?;
    let mut words = Vec::new();
    for _ in 0..count {
        let length = header(bytes, b'$', &mut at)?;
        words.push(bytes.get(at..at + length)?.to_vec());
        at += length + 2;
    }
    (at <= bytes.len()).then_some((words, at))
}

fn header(bytes: &[u8], kind: u8, at: &mut usize) -> Option<usize> {
    let rest = bytes.get(*at..)?.strip_prefix(&[kind])?;
    let end = rest.windows(2).position(|pair| pair == b"\r\n")?;
    *at += end + 3;
    std::str::from_utf8(&rest[..end]).ok()?.parse().ok()
}
