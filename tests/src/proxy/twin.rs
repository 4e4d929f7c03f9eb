//! A second connection to the server, on which requests arrive again.

use std::io;
use std::net::SocketAddr;

use tokio::net::TcpStream;

use super::frames::{reply_len, words};

/// The introduction of a connection, so that another can repeat it.
#[derive(Debug, Default)]
pub(super) struct Introduction(Vec<Vec<u8>>);

impl Introduction {
    /// Looks at a request that goes to the server.
    pub(super) fn hear(&mut self, request: &[u8]) {
        let words = words(request);
        let is = |at: usize, word: &str| {
            words.get(at).is_some_and(|it| it.eq_ignore_ascii_case(word.as_bytes()))
        };
        let client = is(0, "CLIENT") && (is(1, "TRACKING") || is(1, "SETNAME"));
        if is(0, "HELLO") || is(0, "AUTH") || is(0, "SELECT") || client {
            self.0.push(request.to_owned());
        }
    }
}

/// Whether a request can be sent a second time on a connection of its own: not if it concerns the messages
/// that the connection receives.
pub(super) fn can_be_repeated(request: &[u8]) -> bool {
    let words = words(request);
    words.first().is_some_and(|name| !name.to_ascii_uppercase().ends_with(b"SUBSCRIBE"))
}

/// The second connection. The server takes it for the same client.
#[derive(Debug)]
pub(super) struct Twin {
    pub(super) stream: TcpStream,
    received: Vec<u8>,
}

impl Twin {
    /// Connects, and repeats the introduction of the first connection.
    pub(super) async fn connect(server: SocketAddr, as_: &Introduction) -> io::Result<Self> {
        let stream = TcpStream::connect(server).await?;
        stream.set_nodelay(true)?;
        let mut twin = Self { stream, received: Vec::new() };
        for request in &as_.0 {
            twin.send(request).await?;
            twin.reply().await?;
        }
        Ok(twin)
    }

    async fn send(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            self.stream.writable().await?;
            match self.stream.try_write(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Waits for a reply, and drops it, with all messages before it.
    pub(super) async fn reply(&mut self) -> io::Result<()> {
        loop {
            match reply_len(&self.received) {
                Ok(Some((len, is_reply))) => {
                    self.received.drain(..len);
                    if is_reply {
                        return Ok(());
                    }
                }
                Ok(None) => self.receive().await?,
                Err(_) => return Err(io::ErrorKind::InvalidData.into()),
            }
        }
    }

    async fn receive(&mut self) -> io::Result<()> {
        let mut buffer = [0; 4096];
        self.stream.readable().await?;
        match self.stream.try_read(&mut buffer) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                self.received.extend_from_slice(&buffer[..count]);
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(words: &[&str]) -> Vec<u8> {
        let strings = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
        format!("*{}\r\n{}", words.len(), strings.collect::<String>()).into_bytes()
    }

    #[test]
    fn an_introduction_is_what_sets_the_identity_of_a_connection() {
        let mut introduction = Introduction::default();
        let heard = [
            (true, request(&["hello", "3", "AUTH", "me", "hunter2"])),
            (true, request(&["SELECT", "3"])),
            (true, request(&["client", "tracking", "on"])),
            (false, request(&["CLIENT", "CACHING", "yes"])),
            (false, request(&["GET", "HELLO"])),
        ];
        for (_, request) in &heard {
            introduction.hear(request);
        }
        let kept: Vec<_> = heard.iter().filter(|(kept, _)| *kept).map(|(_, it)| it).collect();
        assert_eq!(introduction.0.iter().collect::<Vec<_>>(), kept);
    }

    #[test]
    fn what_is_about_messages_is_not_repeated() {
        assert!(can_be_repeated(&request(&["EVALSHA", "SUBSCRIBE"])));
        for name in ["subscribe", "UNSUBSCRIBE", "psubscribe", "SSUBSCRIBE"] {
            assert!(!can_be_repeated(&request(&[name, "news"])), "{name}");
        }
    }
}
