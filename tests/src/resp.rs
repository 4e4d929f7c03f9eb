//! A small blocking client, so that tests can ask a server without the library under test.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A connection that speaks RESP2, one command at a time.
#[derive(Debug)]
pub struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    /// Connects; `timeout` bounds that, and each read and write from then on.
    ///
    /// # Errors
    ///
    /// As of [`TcpStream::connect_timeout`].
    pub fn connect(addr: SocketAddr, timeout: Duration) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&addr, timeout)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// Sends a command and reads its reply. An error reply is a [`Value::Error`].
    ///
    /// # Errors
    ///
    /// If the connection breaks, the server is silent for the timeout, or the reply is no RESP. The
    /// connection is of no further use then.
    pub fn command<A: AsRef<[u8]>>(&mut self, args: &[A]) -> io::Result<Value> {
        self.send(args)?;
        self.receive()
    }

    /// Sends a command without waiting for its reply.
    ///
    /// # Errors
    ///
    /// If the connection breaks, or the server does not take the bytes within the timeout.
    pub fn send<A: AsRef<[u8]>>(&mut self, args: &[A]) -> io::Result<()> {
        let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
        for arg in args {
            let arg = arg.as_ref();
            write!(bytes, "${}\r\n", arg.len())?;
            bytes.extend_from_slice(arg);
            bytes.extend_from_slice(b"\r\n");
        }
        self.stream.get_mut().write_all(&bytes)
    }

    /// Reads the next reply, or the next message of a subscription.
    ///
    /// # Errors
    ///
    /// As [`command`](Self::command).
    pub fn receive(&mut self) -> io::Result<Value> {
        let mut line = Vec::new();
        self.stream.read_until(b'\n', &mut line)?;
        let (kind, rest) = match line.strip_suffix(b"\r\n").and_then(<[u8]>::split_first) {
            Some(parts) => parts,
            None if line.is_empty() => return Err(io::ErrorKind::UnexpectedEof.into()),
            None => return Err(malformed(&line)),
        };
        let number = || std::str::from_utf8(rest).ok()?.parse::<i64>().ok();
        let number = || number().ok_or_else(|| malformed(&line));
        match kind {
            b'+' => Ok(Value::Text(rest.to_vec())),
            b'-' => Ok(Value::Error(String::from_utf8_lossy(rest).into_owned())),
            b':' => Ok(Value::Int(number()?)),
            b'$' => match usize::try_from(number()?) {
                Ok(len) => self.bulk(len),
                Err(_) => Ok(Value::Nil),
            },
            b'*' => match usize::try_from(number()?) {
                Ok(len) => {
                    (0..len).map(|_| self.receive()).collect::<io::Result<_>>().map(Value::Array)
                }
                Err(_) => Ok(Value::Nil),
            },
            _ => Err(malformed(&line)),
        }
    }

    fn bulk(&mut self, len: usize) -> io::Result<Value> {
        let mut bytes = vec![0; len + 2];
        self.stream.read_exact(&mut bytes)?;
        bytes.truncate(len);
        Ok(Value::Text(bytes))
    }
}

fn malformed(line: &[u8]) -> io::Error {
    let text = format!("not a reply: \"{}\"", line.escape_ascii());
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// A reply.
///
/// The methods that take it apart panic on a reply of another kind, and show it.
#[derive(Clone, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "the protocol has no more")]
pub enum Value {
    /// No value.
    Nil,
    /// A number.
    Int(i64),
    /// A status or a string, of any bytes.
    Text(Vec<u8>),
    /// An error reply, with its code.
    Error(String),
    /// Several values.
    Array(Vec<Value>),
}

impl Value {
    /// The number.
    #[track_caller]
    pub fn int(&self) -> i64 {
        match self {
            Self::Int(number) => *number,
            other => panic!("not a number: {other:?}"),
        }
    }

    /// The string; bytes that are not UTF-8 are replaced.
    #[track_caller]
    pub fn text(&self) -> String {
        match self {
            Self::Text(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            other => panic!("not a string: {other:?}"),
        }
    }

    /// The message of an error reply.
    #[track_caller]
    pub fn error(&self) -> &str {
        match self {
            Self::Error(message) => message,
            other => panic!("not an error: {other:?}"),
        }
    }

    /// The elements.
    #[track_caller]
    pub fn array(&self) -> &[Value] {
        match self {
            Self::Array(values) => values,
            other => panic!("not an array: {other:?}"),
        }
    }

    /// Whether there is no value.
    pub fn is_nil(&self) -> bool {
        *self == Self::Nil
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nil => f.write_str("nil"),
            Self::Int(number) => number.fmt(f),
            Self::Text(bytes) => write!(f, "\"{}\"", bytes.escape_ascii()),
            Self::Error(message) => write!(f, "error {message:?}"),
            Self::Array(values) => values.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// What the client makes of these bytes, and what it had sent.
    fn exchange(reply: &'static [u8]) -> (io::Result<Value>, Vec<u8>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut sent = vec![0; 64];
            let len = stream.read(&mut sent).unwrap();
            stream.write_all(reply).unwrap();
            sent[..len].to_vec()
        });
        let mut client = Client::connect(addr, Duration::from_secs(10)).unwrap();
        let value = client.command(&[&b"GET"[..], b"\0\r\n"]);
        (value, server.join().unwrap())
    }

    #[test]
    fn a_command_is_sent_as_it_is() {
        let (_, sent) = exchange(b":1\r\n");
        assert_eq!(sent, b"*2\r\n$3\r\nGET\r\n$3\r\n\0\r\n\r\n");
    }

    #[test]
    fn every_kind_of_reply_is_understood() {
        let reply = b"*6\r\n+OK\r\n-ERR no\r\n:-7\r\n$3\r\na\r\n\r\n$-1\r\n*-1\r\n";
        let expected = Value::Array(vec![
            Value::Text(b"OK".to_vec()),
            Value::Error("ERR no".to_owned()),
            Value::Int(-7),
            Value::Text(b"a\r\n".to_vec()),
            Value::Nil,
            Value::Nil,
        ]);
        assert_eq!(exchange(reply).0.unwrap(), expected);
    }

    #[test]
    fn what_is_no_reply_is_an_error() {
        assert_eq!(exchange(b"").0.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        for reply in [&b"HTTP/1.1 200 OK\r\n"[..], b":x\r\n", b"\r\n", b"+OK"] {
            assert_eq!(exchange(reply).0.unwrap_err().kind(), io::ErrorKind::InvalidData);
        }
    }
}
