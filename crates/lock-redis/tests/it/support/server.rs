//! A redis-server of the test's own.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use redis::FromRedisValue;

/// A redis-server in a folder of its own, on a port of its own, without persistence. It is killed
/// when it is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    process: Option<Child>,
    port: u16,
    folder: PathBuf,
    arguments: Vec<String>,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::with(&[])
    }

    /// Starts a server with more arguments.
    pub(crate) fn with(arguments: &[&str]) -> Self {
        let folder = new_folder();
        let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        let mut server = Self { process: None, port: 0, folder, arguments };
        for _ in 0..10 {
            server.port = free_port();
            if server.spawn() {
                return server;
            }
        }
        panic!("redis-server does not start: is it installed?");
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// A client of another library.
    pub(crate) fn client(&self) -> Client {
        Client::open(&self.url())
    }

    /// Kills the server. Its data is gone.
    pub(crate) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            // It may be dead already.
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Starts the server again, on the same port.
    pub(crate) fn restart(&mut self) {
        self.kill();
        assert!(self.spawn(), "redis-server does not start again");
    }

    /// Returns whether the server came up.
    fn spawn(&mut self) -> bool {
        let executable =
            std::env::var_os("REDIS_SERVER").unwrap_or_else(|| OsString::from("redis-server"));
        let mut process = Command::new(executable)
            .args(["--port", &self.port.to_string()])
            .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .args(&self.arguments)
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("redis-server cannot be run");
        let output = process.stdout.take().expect("the output is piped");
        self.process = Some(process);
        let mut lines = BufReader::new(output).lines().map_while(Result::ok);
        if lines.any(|line| line.contains("Ready to accept connections")) {
            // A server whose output nobody reads would block one day.
            thread::spawn(move || lines.for_each(drop));
            return true;
        }
        self.kill();
        false
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        let _ = fs::remove_dir_all(&self.folder);
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

pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).unwrap().port()
}

fn new_folder() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("lock-redis-test-{}-{number}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    fs::create_dir_all(&folder).unwrap();
    folder
}
