//! An etcd server for tests.

mod cluster;
mod install;
mod page;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tempfile::TempDir;

pub use cluster::EtcdCluster;
pub use install::etcd_programs;

use crate::server::supervised::Supervised;
use crate::{CommandStats, Port, process};

/// How long a server may take to start on a loaded machine.
const START_LIMIT: Duration = Duration::from_secs(60);

/// This URL, with the option that lets clients of the locks accept any version.
fn any_version(url: &str) -> String {
    format!("{url}?allow_unsafe_version=true")
}

/// The password of the user `root`, who may do everything.
const ROOT: &str = "kit";

/// An etcd server on free loopback ports, with its data in a temporary folder.
///
/// It dies when this value is dropped, and also when the test process is killed. It waits for the disk only if it was
/// started [to keep its data](Self::durable).
///
/// # Examples
///
/// ```
/// let server = lock_tests::EtcdServer::start();
/// server.ctl(&["put", "answer", "42"]);
/// assert_eq!(server.ctl(&["get", "answer", "--print-value-only"]), "42\n");
/// ```
#[derive(Debug)]
pub struct EtcdServer {
    name: String,
    client: Port,
    peer: Port,
    /// Serves the health and the figures of the server, always in plain text.
    pages: Port,
    folder: TempDir,
    has_tls: bool,
    options: Vec<String>,
    /// Whether users have to log in.
    has_users: Mutex<bool>,
    process: Mutex<Option<Supervised>>,
}

impl EtcdServer {
    /// Starts a server that does not wait for the disk.
    ///
    /// # Panics
    ///
    /// If there is no etcd and none could be fetched, or it does not start.
    #[track_caller]
    pub fn start() -> Self {
        Self::with(&["--unsafe-no-fsync"])
    }

    /// Starts a server that waits for the disk, as one does by default.
    ///
    /// # Panics
    ///
    /// As [`start`](Self::start).
    #[track_caller]
    pub fn durable() -> Self {
        Self::with(&[])
    }

    /// Starts a server with these options of the command line.
    ///
    /// # Panics
    ///
    /// As [`start`](Self::start).
    #[track_caller]
    pub fn with(options: &[&str]) -> Self {
        Self::new("one", options).started()
    }

    /// Starts a server that serves clients over TLS alone, with a certificate and its key, both in PEM.
    ///
    /// # Panics
    ///
    /// As [`start`](Self::start).
    #[track_caller]
    pub fn with_tls(certificate: &str, key: &str) -> Self {
        let mut server = Self::new("one", &["--unsafe-no-fsync"]);
        server.has_tls = true;
        for (option, name, text) in
            [("--cert-file", "server.crt", certificate), ("--key-file", "server.key", key)]
        {
            let path = server.folder.path().join(name);
            fs::write(&path, text).expect("a file for the certificate");
            server.options.push(format!("{option}={}", path.display()));
        }
        server.started()
    }

    /// A server that does not run yet.
    fn new(name: &str, options: &[&str]) -> Self {
        Self {
            name: name.to_owned(),
            client: Port::reserve(),
            peer: Port::reserve(),
            pages: Port::reserve(),
            folder: TempDir::with_prefix("etcd-").expect("a temporary folder"),
            has_tls: false,
            options: options.iter().map(|&it| it.to_owned()).collect(),
            has_users: Mutex::new(false),
            process: Mutex::new(None),
        }
    }

    /// Starts this server as the only member of its cluster.
    #[track_caller]
    fn started(mut self) -> Self {
        self.options.push(format!("--initial-cluster={}", self.as_member()));
        self.spawn();
        self.wait_until("serve", Self::is_healthy);
        self
    }

    /// How the members of a cluster name this server at their first start.
    fn as_member(&self) -> String {
        format!("{}=http://{}", self.name, self.peer.addr())
    }

    /// Starts the process, and does not wait for it.
    #[track_caller]
    fn spawn(&self) {
        let clients = format!("{}://{}", self.scheme("http"), self.client.addr());
        let peers = format!("http://{}", self.peer.addr());
        let mut words = vec![
            etcd_programs().join("etcd").display().to_string(),
            format!("--name={}", self.name),
            format!("--data-dir={}", self.data().display()),
            format!("--listen-client-urls={clients}"),
            format!("--advertise-client-urls={clients}"),
            format!("--listen-peer-urls={peers}"),
            format!("--initial-advertise-peer-urls={peers}"),
            format!("--listen-metrics-urls=http://{}", self.pages.addr()),
            "--logger=zap".to_owned(),
        ];
        words.extend(self.options.iter().cloned());
        match Supervised::run(&words) {
            Ok(process) => *self.process() = Some(process),
            Err(error) => panic!("etcd did not start: {error}"),
        }
    }

    /// Waits until a new process does what a server does.
    #[track_caller]
    fn wait_until(&self, what: &str, does: impl Fn(&Self) -> bool) {
        let start = Instant::now();
        while !does(self) {
            let process = self.process();
            let process = process.as_ref().expect("the server was killed while it started");
            let log = process.log();
            assert!(!process.has_exited(), "etcd did not start; its log:\n{log}");
            let elapsed = start.elapsed();
            assert!(
                elapsed < START_LIMIT,
                "etcd did not {what} within {elapsed:?}; its log:\n{log}"
            );
            process.wait_for_exit(Duration::from_millis(20));
        }
    }

    fn process(&self) -> MutexGuard<'_, Option<Supervised>> {
        lock(&self.process)
    }

    /// The scheme with this name, or the one with TLS.
    fn scheme(&self, plain: &str) -> String {
        format!("{plain}{}", if self.has_tls { "s" } else { "" })
    }

    /// Whether the process serves at all, be it with a leader or without.
    fn answers(&self) -> bool {
        page::get(self.pages.addr(), "/health").is_ok()
    }

    /// Whether the server serves, with a leader.
    pub fn is_healthy(&self) -> bool {
        page::get(self.pages.addr(), "/health")
            .is_ok_and(|text| text.contains(r#""health":"true""#))
    }

    /// Whether the server says that it is the leader of its cluster.
    pub fn leads(&self) -> bool {
        let figures = page::get(self.pages.addr(), "/metrics");
        figures.is_ok_and(|text| text.lines().any(|line| line == "etcd_server_is_leader 1"))
    }

    /// Makes another member the leader of the cluster that this one leads.
    ///
    /// # Errors
    ///
    /// What `etcdctl` says if it fails.
    pub fn pass_lead(&self, to: &Self) -> Result<(), String> {
        let status = to.try_ctl(&["endpoint", "status", "--write-out=simple"])?;
        let id = status.split(", ").nth(1).ok_or("the member has no id")?;
        self.try_ctl(&["move-leader", id]).map(drop)
    }

    /// The folder of the data.
    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// The address for clients, always on the loopback interface.
    pub fn addr(&self) -> SocketAddr {
        self.client.addr()
    }

    /// The URL.
    pub fn url(&self) -> String {
        self.url_through(self.addr())
    }

    /// The URL for locks of clients that accept any version: no version endangers the leases of a single server.
    pub fn locks(&self) -> String {
        any_version(&self.url())
    }

    /// The URL for a client that is to go through a [`Proxy`](crate::Proxy) at `addr`.
    pub fn url_through(&self, addr: SocketAddr) -> String {
        format!("{}://{addr}", self.scheme("etcd"))
    }

    /// The URL for a user.
    pub fn url_as(&self, user: &str, password: &str) -> String {
        format!("{}://{user}:{password}@{}", self.scheme("etcd"), self.addr())
    }

    /// The version that the program names, for example 3.4.23.
    pub fn version() -> (u32, u32, u32) {
        let output = Command::new(etcd_programs().join("etcd")).arg("--version").output();
        let text = String::from_utf8_lossy(&output.expect("etcd runs").stdout).into_owned();
        let version = text.lines().find_map(|line| line.strip_prefix("etcd Version: "));
        let digits = |part: &str| part.split(|it: char| !it.is_ascii_digit()).next()?.parse().ok();
        let mut parts = version.iter().flat_map(|it| it.split('.')).filter_map(digits);
        let parts = [(); 3].map(|()| parts.next());
        let [Some(major), Some(minor), Some(patch)] = parts else { panic!("no version in {text}") };
        (major, minor, patch)
    }

    /// Whether this version lacks the fix of etcd #15247: a leader whose disk stalls may revoke leases that were renewed
    /// meanwhile.
    pub fn is_unsafe((major, minor, patch): (u32, u32, u32)) -> bool {
        match (major, minor) {
            (..3, _) | (3, ..4) => true,
            (3, 4) => patch < 31,
            (3, 5) => patch < 13,
            _ => false,
        }
    }

    /// The id of the process.
    ///
    /// # Panics
    ///
    /// If the server was killed and not restarted.
    #[track_caller]
    pub fn pid(&self) -> u32 {
        self.process().as_ref().expect("the server does not run").pid()
    }

    /// Whether the process runs and does not stand still.
    pub fn is_running(&self) -> bool {
        self.process().as_ref().is_some_and(|it| !process::is_stopped(it.pid()))
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

    /// Kills the process (SIGKILL), and returns once it is gone. The ports stay reserved.
    ///
    /// No effect on a server that was killed before.
    pub fn kill(&self) {
        *self.process() = None;
    }

    /// Kills the server if it runs, and starts it again with its data on the same ports. Returns once it serves; a
    /// member of a cluster may have no leader then.
    ///
    /// # Panics
    ///
    /// If it does not start.
    #[track_caller]
    pub fn restart(&self) {
        self.kill();
        self.spawn();
        self.wait_until("answer", Self::answers);
    }

    /// A copy of the data of a server that does not run.
    ///
    /// # Panics
    ///
    /// If the server runs, or there is no room.
    pub fn copy_data(&self) -> PathBuf {
        assert!(self.process().is_none(), "the data of a running server change");
        let copy = self.folder.path().join("copy");
        let status = Command::new("cp").arg("-a").arg(self.data()).arg(&copy).status();
        assert!(status.is_ok_and(|it| it.success()), "the data could not be copied");
        copy
    }

    /// Puts a copy in place of the data of a server that does not run.
    ///
    /// # Panics
    ///
    /// If the server runs, or there is no such copy.
    pub fn restore_data(&self, copy: PathBuf) {
        self.erase();
        fs::rename(copy, self.data()).expect("the copy can be moved");
    }

    /// Takes a snapshot of the data of the running server, as its operator does.
    ///
    /// # Panics
    ///
    /// If the server refuses.
    #[track_caller]
    pub fn snapshot(&self) -> PathBuf {
        let file = self.folder.path().join("snapshot");
        self.ctl(&["snapshot", "save", &file.display().to_string()]);
        file
    }

    /// Kills the server if it runs, makes its data from a snapshot, as its operator does, and starts it again on the
    /// same ports. The server has the name and the number of before, and another log.
    ///
    /// # Panics
    ///
    /// If there is no such snapshot, or the server does not start.
    #[track_caller]
    pub fn restore(&self, snapshot: &Path) {
        self.kill();
        self.erase();
        let (peers, member) = (format!("http://{}", self.peer.addr()), self.as_member());
        self.ctl(&[
            "snapshot",
            "restore",
            &snapshot.display().to_string(),
            &format!("--data-dir={}", self.data().display()),
            &format!("--name={}", self.name),
            &format!("--initial-cluster={member}"),
            &format!("--initial-advertise-peer-urls={peers}"),
        ]);
        self.restart();
    }

    /// Removes the data of a server that does not run.
    ///
    /// # Panics
    ///
    /// If the server runs.
    pub fn erase(&self) {
        assert!(self.process().is_none(), "the data of a running server change");
        fs::remove_dir_all(self.data()).expect("the data can be removed");
    }

    /// Runs `etcdctl` with this server, as a user who may do everything. Returns what it prints.
    ///
    /// # Panics
    ///
    /// If it fails.
    #[track_caller]
    pub fn ctl(&self, words: &[&str]) -> String {
        match self.try_ctl(words) {
            Ok(text) => text,
            Err(why) => panic!("etcdctl {}: {why}", words.join(" ")),
        }
    }

    /// As above. The server has ten seconds to answer.
    ///
    /// # Errors
    ///
    /// What `etcdctl` says if it fails.
    pub fn try_ctl(&self, words: &[&str]) -> Result<String, String> {
        let mut command = Command::new(etcd_programs().join("etcdctl"));
        command.env_clear().env("ETCDCTL_API", "3").stdin(Stdio::null());
        command.args(["--dial-timeout=10s", "--command-timeout=10s"]);
        command.arg(format!("--endpoints={}://{}", self.scheme("http"), self.addr()));
        if self.has_tls {
            command.arg("--insecure-skip-tls-verify");
        }
        if *lock(&self.has_users) {
            command.arg(format!("--user=root:{ROOT}"));
        }
        let output = command.args(words).output().map_err(|error| error.to_string())?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() {
            return Ok(text(&output.stdout));
        }
        Err(text(&output.stdout) + &text(&output.stderr))
    }

    /// Adds users, each with a password and the right to all keys with a prefix, and lets no other user in.
    ///
    /// # Panics
    ///
    /// If the server refuses.
    #[track_caller]
    pub fn require_users(&self, users: &[(&str, &str, &str)]) {
        self.ctl(&["user", "add", &format!("root:{ROOT}")]);
        for (user, password, prefix) in users {
            self.ctl(&["role", "add", user]);
            self.ctl(&["role", "grant-permission", user, "--prefix=true", "readwrite", prefix]);
            self.ctl(&["user", "add", &format!("{user}:{password}")]);
            self.ctl(&["user", "grant-role", user, user]);
        }
        self.ctl(&["auth", "enable"]);
        *lock(&self.has_users) = true;
    }

    /// The keys with this prefix, in order.
    #[track_caller]
    pub fn keys(&self, prefix: &str) -> Vec<String> {
        let text = self.ctl(&["get", "--prefix", "--keys-only", "--", prefix]);
        text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
    }

    /// The ids of all leases.
    #[track_caller]
    pub fn leases(&self) -> Vec<String> {
        // The first line has their number.
        self.ctl(&["lease", "list"]).lines().skip(1).map(str::to_owned).collect()
    }

    /// The ids of the leases to which keys with this prefix are attached, each once.
    #[track_caller]
    pub fn leases_of(&self, prefix: &str) -> Vec<String> {
        let ids = self.lease_of_each(prefix).into_iter().filter(|id| *id != 0);
        // As `etcdctl` writes them: with zeros in front.
        let mut ids: Vec<String> = ids.map(|id| format!("{id:016x}")).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// How many keys with this prefix are attached to no lease.
    #[track_caller]
    pub fn keys_without_lease(&self, prefix: &str) -> usize {
        self.lease_of_each(prefix).into_iter().filter(|id| *id == 0).count()
    }

    /// How many keys with this prefix are attached to one lease, at most.
    #[track_caller]
    pub fn most_keys_of_a_lease(&self, prefix: &str) -> usize {
        let leases = self.lease_of_each(prefix);
        let mut counts = std::collections::HashMap::<i64, usize>::new();
        leases.into_iter().filter(|id| *id != 0).for_each(|id| *counts.entry(id).or_default() += 1);
        counts.into_values().max().unwrap_or(0)
    }

    fn lease_of_each(&self, prefix: &str) -> Vec<i64> {
        let text = self.ctl(&["get", "--prefix", "--write-out=fields", "--", prefix]);
        let lines = text.lines().filter_map(|line| line.strip_prefix("\"Lease\" : "));
        lines.filter_map(|line| line.parse().ok()).collect()
    }

    /// Removes all keys with this prefix, and the leases to which they are attached: as if the disk was new for the
    /// clients that have this prefix.
    #[track_caller]
    pub fn forget(&self, prefix: &str) {
        for lease in self.leases_of(prefix) {
            // It may have ended by itself.
            _ = self.try_ctl(&["lease", "revoke", &lease]);
        }
        self.ctl(&["del", "--prefix", "--", prefix]);
    }

    /// Ends a lease, and with it the keys that are attached to it.
    #[track_caller]
    pub fn revoke(&self, lease: &str) {
        self.ctl(&["lease", "revoke", lease]);
    }

    /// Forgets the history of all keys up to now.
    #[track_caller]
    pub fn compact(&self) {
        let revision = self.revision().to_string();
        self.ctl(&["compaction", &revision, "--physical=true"]);
    }

    /// Writes until the store has as much as its option `--quota-backend-bytes` allows, which should be little: then it
    /// raises the alarm `NOSPACE`, and refuses whatever needs room.
    ///
    /// # Panics
    ///
    /// If the store is not full after a while.
    #[track_caller]
    pub fn fill(&self) {
        let filler = "x".repeat(100_000);
        let is_full = (0..1_000).any(|_| self.try_ctl(&["put", "filler", &filler]).is_err());
        let alarms = self.ctl(&["alarm", "list"]);
        assert!(is_full && alarms.contains("NOSPACE"), "the store is not full: {alarms}");
    }

    /// Makes room in a store that is full, and ends the alarm, as its operator does.
    ///
    /// # Panics
    ///
    /// If the server refuses.
    #[track_caller]
    pub fn make_room(&self) {
        self.compact();
        self.ctl(&["defrag"]);
        self.ctl(&["alarm", "disarm"]);
    }

    /// How many changes the store has seen, and one more.
    #[track_caller]
    pub fn revision(&self) -> u64 {
        self.field(&["get", "--write-out=fields", "any"], "Revision")
    }

    /// A number from a line such as `"Revision" : 2`.
    #[track_caller]
    fn field(&self, words: &[&str], name: &str) -> u64 {
        let text = self.ctl(words);
        let start = format!("\"{name}\" : ");
        let number = text.lines().find_map(|line| line.strip_prefix(&start)?.parse().ok());
        number.unwrap_or_else(|| panic!("no {name} in {text}"))
    }

    /// How many changes the server has proposed to its cluster that the cluster has not carried out yet.
    ///
    /// # Panics
    ///
    /// If the server does not answer.
    #[track_caller]
    pub fn pending(&self) -> u64 {
        let text = page::get(self.pages.addr(), "/metrics").expect("the server has figures");
        let figure = |line: &str| line.strip_prefix("etcd_server_proposals_pending ")?.parse().ok();
        text.lines().find_map(figure).expect("the server counts its proposals")
    }

    /// How many messages the server has received for each method: a request of one answer is one message, and so is
    /// each message of a stream. [`CommandStats::since`] gives the difference.
    ///
    /// # Panics
    ///
    /// If the server does not answer.
    #[track_caller]
    pub fn received(&self) -> CommandStats {
        let text = page::get(self.pages.addr(), "/metrics").expect("the server has figures");
        page::received(&text)
    }
}

/// A panic of one task must not keep the others from cleaning up.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
