//! A server that sends bytes without end.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

/// The repeated bytes, for a client with these channels, with a new number each time.
pub(super) type Junk = fn(channels: &[String], number: u64) -> Vec<u8>;

/// A server that answers correctly until a watch has begun, and then sends only junk.
pub(super) struct Flooder {
    pub(super) addr: SocketAddr,
    speech: Arc<Speech>,
}

/// The junk to send.
pub(super) struct Speech {
    pub(super) junk: Junk,
    /// The last request of a client before its watch has begun.
    pub(super) after: &'static str,
    /// The number of bytes of junk.
    pub(super) most: u64,
    pub(super) said: AtomicU64,
    /// Whether the client has hung up.
    pub(super) hung_up: AtomicBool,
}

impl Flooder {
    pub(super) fn start(junk: Junk, after: &'static str, most: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let (said, hung_up) = (AtomicU64::new(0), AtomicBool::new(false));
        let speech = Arc::new(Speech { junk, after, most, said, hung_up });
        let flooder = Self { addr, speech: Arc::clone(&speech) };
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let speech = Arc::clone(&speech);
                thread::spawn(move || speech.give(stream));
            }
        });
        flooder
    }

    /// Whether all the junk was sent, or the client listens no more.
    pub(super) fn is_over(&self) -> bool {
        self.speech.said.load(Ordering::Relaxed) >= self.speech.most || self.is_hung_up()
    }

    pub(super) fn is_hung_up(&self) -> bool {
        self.speech.hung_up.load(Ordering::Relaxed)
    }
}

impl Speech {
    fn give(&self, stream: TcpStream) -> Option<()> {
        let mut output = stream.try_clone().ok()?;
        let mut input = BufReader::new(stream);
        let (mut channels, mut sign) = (Vec::new(), '*');
        while let Some(words) = request(&mut input) {
            match words[0].as_str() {
                "HELLO" => sign = '>',
                "SUBSCRIBE" => channels.extend(words[1..].iter().cloned()),
                _ => {}
            }
            output.write_all(politely(&words, sign).as_bytes()).ok()?;
            if words[0] == self.after && channels.iter().any(|it| it.contains("{flood}")) {
                self.go_on(&mut output, &channels);
            }
        }
        Some(())
    }

    fn go_on(&self, output: &mut TcpStream, channels: &[String]) {
        let mut number = 0;
        while self.said.load(Ordering::Relaxed) < self.most {
            let mut batch = Vec::with_capacity(1 << 17);
            while batch.len() < 1 << 16 {
                number += 1;
                batch.extend((self.junk)(channels, number));
            }
            if output.write_all(&batch).is_err() {
                return self.hung_up.store(true, Ordering::Relaxed);
            }
            self.said.fetch_add(batch.len() as u64, Ordering::Relaxed);
        }
    }
}

fn politely(words: &[String], sign: char) -> String {
    match words[0].as_str() {
        "HELLO" => "%1\r\n$5\r\nproto\r\n:3\r\n".to_owned(),
        "SCRIPT" => format!("$40\r\n{}\r\n", "0".repeat(40)),
        // The watched key is absent. The last word is the number of the request.
        "EVALSHA" => {
            let number = words.last().map_or("", String::as_str);
            format!("*2\r\n${}\r\n{number}\r\n$-1\r\n", number.len())
        }
        "SUBSCRIBE" => {
            let confirm = |(at, it): (usize, &String)| {
                let len = it.len();
                format!("{sign}3\r\n$9\r\nsubscribe\r\n${len}\r\n{it}\r\n:{}\r\n", at + 1)
            };
            words[1..].iter().enumerate().map(confirm).collect()
        }
        _ => "+OK\r\n".to_owned(),
    }
}

fn request(input: &mut impl BufRead) -> Option<Vec<String>> {
    let number = |input: &mut dyn BufRead| {
        let mut line = String::new();
        input.read_line(&mut line).ok()?;
        line.trim().get(1..)?.parse::<usize>().ok()
    };
    let count = number(input)?;
    let mut words = Vec::new();
    for _ in 0..count {
        let mut word = vec![0; number(input)? + 2];
        input.read_exact(&mut word).ok()?;
        word.truncate(word.len() - 2);
        words.push(String::from_utf8_lossy(&word).into_owned());
    }
    Some(words)
}
