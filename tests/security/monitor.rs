//! The requests to a server, word by word.

use std::collections::BTreeSet;
use std::io;

use lock_tests::RedisServer;
use lock_tests::resp::{Client, Value};

/// Records every command that a server runs, including those of scripts.
pub(crate) struct Monitor<'a> {
    server: &'a RedisServer,
    client: Client,
}

impl<'a> Monitor<'a> {
    pub(crate) fn start(server: &'a RedisServer) -> Self {
        let mut client = server.connect().unwrap();
        assert_eq!(client.command(&["MONITOR"]).unwrap(), Value::Text(b"OK".to_vec()));
        Self { server, client }
    }

    /// The commands until now, each as its words.
    pub(crate) fn commands(mut self) -> Vec<Vec<String>> {
        const END: &str = "that was all";
        self.server.cli(&["ECHO", END]);
        let mut commands = Vec::new();
        loop {
            let line = match self.client.receive() {
                Ok(line) => line.text(),
                Err(error) if error.kind() == io::ErrorKind::InvalidData => continue,
                Err(error) => panic!("the server does not say what it is asked: {error}"),
            };
            let words = words(&line);
            if words.last().is_some_and(|word| word == END) {
                return commands;
            }
            commands.push(words);
        }
    }

    /// The owner tokens and the secrets of groups that were sent.
    pub(crate) fn tokens(self) -> BTreeSet<String> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let commands = self.commands();
        let words = commands.iter().flat_map(|command| command.iter().skip(2));
        let parts = words.flat_map(|word| word.split(|sign: char| !sign.is_ascii_alphanumeric()));
        let parts = parts.map(|part| part.strip_prefix('j').unwrap_or(part));
        let tokens = parts.filter(|part| part.len() == 32 && part.bytes().all(is_digit));
        tokens.map(str::to_owned).collect()
    }
}

/// `1700000000.000000 [0 127.0.0.1:50000] "GET" "a \"b\""`, without the part before the words.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = line;
    while let Some((_, quoted)) = rest.split_once('"') {
        let mut word = String::new();
        let mut signs = quoted.char_indices();
        rest = "";
        while let Some((at, sign)) = signs.next() {
            match sign {
                '\\' => {
                    word.push('\\');
                    word.extend(signs.next().map(|(_, sign)| sign));
                }
                '"' => {
                    rest = &quoted[at + 1..];
                    break;
                }
                sign => word.push(sign),
            }
        }
        words.push(word);
    }
    words
}

#[test]
fn words_are_told_apart() {
    let line = r#"1700000000.000000 [0 lua] "SET" "a \"b\" \\" "" "c\r\n""#;
    assert_eq!(words(line), ["SET", r#"a \"b\" \\"#, "", r"c\r\n"]);
}
