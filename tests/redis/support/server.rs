//! A server from the kit, and a client of another library.

use std::path::Path;

use lock_tests::RedisServer;
use redis::FromRedisValue;

/// A `redis-server` for one test, without persistence.
#[derive(Debug)]
pub(crate) struct Server(RedisServer);

impl Server {
    pub(crate) fn start() -> Self {
        Self(RedisServer::start())
    }

    /// Starts a server with options as on its command line: `--name value…`.
    pub(crate) fn with(arguments: &[&str]) -> Self {
        let mut builder = RedisServer::builder();
        let mut rest = arguments;
        while let [name, tail @ ..] = rest {
            let count = tail.iter().take_while(|word| !word.starts_with("--")).count();
            let (values, next) = tail.split_at(count);
            builder = match (name.trim_start_matches("--"), values) {
                ("requirepass", [password]) => builder.password(*password),
                (name, values) => {
                    let words =
                        values.iter().map(|word| if word.is_empty() { "\"\"" } else { word });
                    builder.config(name, words.collect::<Vec<_>>().join(" "))
                }
            };
            rest = next;
        }
        Self(builder.start())
    }

    pub(crate) fn port(&self) -> u16 {
        self.0.port()
    }

    pub(crate) fn folder(&self) -> &Path {
        self.0.folder()
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port())
    }

    /// The first number of the version of Redis that the server has, or is compatible with.
    pub(crate) fn version(&self) -> u32 {
        let info: String = self.client().command(&["INFO", "server"]);
        let version = info.lines().find_map(|line| line.strip_prefix("redis_version:"));
        version.and_then(|version| version.split('.').next()?.parse().ok()).unwrap()
    }

    /// A client of another library.
    pub(crate) fn client(&self) -> Client {
        Client::open(&self.url())
    }

    /// Kills the server. Its data is gone.
    pub(crate) fn kill(&self) {
        self.0.kill();
    }

    /// Starts the server again, on the same port.
    pub(crate) fn restart(&self) {
        self.0.restart();
    }
}

/// A client of another library, with a connection of its own.
pub(crate) struct Client(redis::Connection);

impl Client {
    pub(crate) fn open(url: &str) -> Self {
        let client = redis::Client::open(url).unwrap();
        Self(client.get_connection().unwrap())
    }

    /// Sends a command that must succeed.
    pub(crate) fn command<T: FromRedisValue>(&mut self, words: &[&str]) -> T {
        self.raw(words)
    }

    pub(crate) fn raw<T: FromRedisValue, W: redis::ToRedisArgs>(&mut self, words: &[W]) -> T {
        let mut command = redis::Cmd::new();
        for word in words {
            command.arg(word);
        }
        command.query(&mut self.0).unwrap()
    }
}
