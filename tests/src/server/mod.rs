//! A `redis-server` for one test.

mod builder;
mod data;
mod stats;
pub(crate) mod supervised;

pub use builder::RedisServerBuilder;
pub use data::DataCopy;
pub use stats::CommandStats;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{fs, io};

use tempfile::TempDir;

use crate::resp::{Client, Value};
use crate::server::supervised::Supervised;
use crate::{LABELS, Port, SOON, eventually_async, process};

/// How long a server may take to start on a loaded machine.
const START_LIMIT: Duration = Duration::from_secs(30);

/// How long the server may take to answer a command of the kit.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(10);

/// The user of the kit itself, whatever happens to the other users.
const KIT_USER: &str = "kit";

/// A `redis-server` process on a free loopback port, with its data in a temporary folder.
///
/// It dies when this value is dropped, and also when the test process is killed. It keeps nothing on disk
/// unless [`append_only`](RedisServerBuilder::append_only) says so.
///
/// All methods take `&self`, so that one task may kill a server that others use.
#[derive(Debug)]
pub struct RedisServer {
    port: Port,
    folder: TempDir,
    options: RedisServerBuilder,
    /// The password of [`KIT_USER`]. Only this server knows it, so another program that got hold of the
    /// port does not accept it.
    secret: String,
    process: Mutex<Option<Supervised>>,
    client: Mutex<Option<Client>>,
}

impl RedisServer {
    /// Starts a server with default options.
    ///
    /// # Panics
    ///
    /// If there is no `redis-server` and none could be fetched, or it does not start.
    pub fn start() -> Self {
        Self::builder().start()
    }

    /// Starts several servers at once, and returns them in the order of their options.
    ///
    /// # Panics
    ///
    /// As [`start`](Self::start).
    pub fn start_all(options: Vec<RedisServerBuilder>) -> Vec<Self> {
        std::thread::scope(|scope| {
            let start = |options: RedisServerBuilder| scope.spawn(move || options.start());
            let starting: Vec<_> = options.into_iter().map(start).collect();
            starting.into_iter().map(|server| server.join().expect("a server")).collect()
        })
    }

    /// Options for a server.
    pub fn builder() -> RedisServerBuilder {
        RedisServerBuilder::default()
    }

    fn launch(options: RedisServerBuilder) -> Result<Self, String> {
        let mut taken = Vec::new();
        loop {
            let folder = TempDir::with_prefix("redis-")
                .map_err(|error| format!("no temporary folder for the server: {error}"))?;
            let name = folder.path().display().to_string();
            let server = Self {
                port: Port::reserve(),
                folder,
                options: options.clone(),
                secret: secret(&name),
                process: Mutex::new(None),
                client: Mutex::new(None),
            };
            match server.run() {
                Ok(()) => return Ok(server),
                // A program without a reservation was faster.
                Err(log) if address_in_use(&log) && taken.len() < 8 => taken.push(server.port),
                Err(log) => return Err(format!("the redis-server did not start; its log:\n{log}")),
            }
        }
    }

    /// Starts the process and waits until it serves; its log if it does not.
    fn run(&self) -> Result<(), String> {
        let config = self.folder.path().join("redis.conf");
        let text = self.options.config_file(&self.port, self.folder.path(), &self.secret);
        fs::write(&config, text).map_err(|error| error.to_string())?;
        let process =
            Supervised::spawn(&self.options, &config).map_err(|error| error.to_string())?;
        let start = Instant::now();
        loop {
            if process.has_exited() {
                return Err(process.log());
            }
            if self.is_ready() {
                *lock(&self.process) = Some(process);
                return Ok(());
            }
            if start.elapsed() > START_LIMIT {
                return Err(format!("{}\nnot ready after {START_LIMIT:?}", process.log()));
            }
            process.wait_for_exit(Duration::from_millis(2));
        }
    }

    /// Whether this server answers, and has loaded its data.
    fn is_ready(&self) -> bool {
        let answer = self.connect().and_then(|mut client| client.command(&["PING"]));
        matches!(answer, Ok(Value::Text(pong)) if pong == b"PONG")
    }

    /// The address, always on the loopback interface.
    pub fn addr(&self) -> SocketAddr {
        self.port.addr()
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// The URL, with the password if there is one.
    pub fn url(&self) -> String {
        self.url_through(self.addr())
    }

    /// The URL for a client that is to go through a [`Proxy`](crate::Proxy) at `addr`.
    pub fn url_through(&self, addr: SocketAddr) -> String {
        match &self.options.password {
            Some(password) => format!("redis://:{password}@{addr}"),
            None => format!("redis://{addr}"),
        }
    }

    /// The URL for a user other than the default one, added by
    /// [`user`](RedisServerBuilder::user) or by `ACL SETUSER`.
    pub fn url_as(&self, user: &str, password: &str) -> String {
        format!("redis://{user}:{password}@{}", self.addr())
    }

    /// The Unix socket on which the server listens too.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("redis.sock")
    }

    /// The folder in which the server works.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The id of the process.
    ///
    /// # Panics
    ///
    /// If the server was killed and not restarted.
    #[track_caller]
    pub fn pid(&self) -> u32 {
        self.running_pid().expect("the redis-server is not running")
    }

    /// The id of the process, if it runs.
    pub fn running_pid(&self) -> Option<u32> {
        lock(&self.process).as_ref().map(|process| process.pid())
    }

    /// What the server has logged since it was last started: its last few hundred lines.
    pub fn log(&self) -> String {
        lock(&self.process).as_ref().map(Supervised::log).unwrap_or_default()
    }

    /// Stops the process (SIGSTOP), and returns once it stands still. Its connections stay open.
    ///
    /// # Panics
    ///
    /// If the server was killed and not restarted.
    #[track_caller]
    pub fn stop(&self) {
        process::stop(self.pid());
    }

    /// Lets a stopped process go on (SIGCONT).
    ///
    /// # Panics
    ///
    /// If the server was killed and not restarted.
    #[track_caller]
    pub fn cont(&self) {
        process::cont(self.pid());
    }

    /// Kills the process (SIGKILL), and returns once it is gone. The port stays reserved.
    ///
    /// No effect on a server that was killed before.
    pub fn kill(&self) {
        *lock(&self.client) = None;
        *lock(&self.process) = None;
    }

    /// Kills the process if it runs, and starts it again on the same port, in the same folder.
    ///
    /// Without [`append_only`](RedisServerBuilder::append_only) it has forgotten everything, unless it was
    /// told to save. [`erase`](Self::erase) and [`restore`](Self::restore) change the data that it starts
    /// with.
    ///
    /// # Panics
    ///
    /// If it does not start.
    pub fn restart(&self) {
        self.kill();
        if let Err(log) = self.run() {
            panic!("the redis-server did not start again; its log:\n{log}");
        }
    }

    /// Runs a command as a user with all rights.
    ///
    /// # Panics
    ///
    /// If the server does not answer. An error reply is a [`Value::Error`].
    #[track_caller]
    pub fn cli<A: AsRef<[u8]>>(&self, args: &[A]) -> Value {
        match self.try_cli(args) {
            Ok(value) => value,
            Err(error) => {
                let name = args.first().map(AsRef::as_ref).unwrap_or_default();
                panic!("the redis-server did not answer {}: {error}", name.escape_ascii())
            }
        }
    }

    /// As above, for a server that may be down. It has ten seconds to answer.
    ///
    /// # Errors
    ///
    /// As [`Client::command`].
    pub fn try_cli<A: AsRef<[u8]>>(&self, args: &[A]) -> io::Result<Value> {
        let mut slot = lock(&self.client);
        // Taken out and put back, because it is of no use after an error.
        if let Some(mut client) = slot.take() {
            match client.command(args) {
                Ok(value) => {
                    *slot = Some(client);
                    return Ok(value);
                }
                // The server was restarted, or closed the connection on command.
                Err(error) if is_closed(&error) => {}
                Err(error) => return Err(error),
            }
        }
        let mut client = self.connect()?;
        let value = client.command(args)?;
        *slot = Some(client);
        Ok(value)
    }

    /// A new connection, as a user with all rights.
    ///
    /// # Errors
    ///
    /// As [`Client::connect`] and [`Client::command`].
    pub fn connect(&self) -> io::Result<Client> {
        let mut client = Client::connect(self.addr(), COMMAND_TIMEOUT)?;
        match client.command(&["AUTH", KIT_USER, &self.secret])? {
            Value::Error(message) => Err(io::Error::new(io::ErrorKind::PermissionDenied, message)),
            _ => Ok(client),
        }
    }

    /// Keeps all replicas from this server, or ends that.
    ///
    /// # Panics
    ///
    /// If the server refuses.
    #[track_caller]
    pub fn keep_from_replicas(&self, keeps: bool) {
        let rules = if keeps { ["-psync", "-sync"] } else { ["+psync", "+sync"] };
        for user in self.cli(&["ACL", "LIST"]).array().iter().map(Value::text) {
            let mut words = user.split(' ').skip(1);
            if let (Some(name), true) = (words.next(), words.any(|word| word == "+@all")) {
                let command = [&["ACL", "SETUSER", name][..], &rules].concat();
                assert_eq!(self.cli(&command).text(), "OK");
            }
        }
        if keeps {
            self.cli(&["CLIENT", "KILL", "TYPE", "replica"]).int();
        }
    }

    /// Deletes everything.
    #[track_caller]
    pub fn flushall(&self) {
        assert_eq!(self.cli(&["FLUSHALL"]).text(), "OK");
    }

    /// Waits until the server keeps this many labels. Each client sends its label a moment after its first request.
    pub async fn until_labels(&self, count: usize) {
        let labels = || self.keys("*").iter().filter(|key| key.contains(LABELS)).count();
        eventually_async("the labels are kept", SOON, async || labels() == count).await;
    }

    /// The keys that match a pattern, in order.
    #[track_caller]
    pub fn keys(&self, pattern: &str) -> Vec<String> {
        let reply = self.cli(&["KEYS", pattern]);
        let mut keys: Vec<String> = reply.array().iter().map(Value::text).collect();
        keys.sort();
        keys
    }

    /// Closes the connections of all clients except the kit's own. Returns their number.
    #[track_caller]
    pub fn client_kill_all(&self) -> i64 {
        ["normal", "pubsub"]
            .iter()
            .map(|kind| self.cli(&["CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes"]).int())
            .sum()
    }

    /// How often each command was called. [`CommandStats::since`] gives the difference.
    #[track_caller]
    pub fn commandstats(&self) -> CommandStats {
        CommandStats::parse(&self.cli(&["INFO", "commandstats"]).text())
    }
}

/// A password that differs from server to server. It keeps strangers apart, not attackers out.
fn secret(folder: &str) -> String {
    use std::hash::{BuildHasher, RandomState};

    format!("{:016x}", RandomState::new().hash_one(folder))
}

fn is_closed(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};

    matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}

fn address_in_use(log: &str) -> bool {
    log.to_ascii_lowercase().contains("address already in use")
}

/// A panic of one task must not keep the others from cleaning up.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
