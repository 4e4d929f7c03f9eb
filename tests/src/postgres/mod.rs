//! A PostgreSQL server for tests.

mod install;
mod pgbouncer;
mod sql;

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tempfile::TempDir;

pub use install::postgres_programs;
pub use pgbouncer::PgBouncer;

use crate::server::supervised::Supervised;
use crate::{Port, process};

/// How long a server may take to start on a loaded machine.
const START_LIMIT: Duration = Duration::from_secs(60);

/// The superuser of each server, and its password.
const USER: &str = "kit";
const PASSWORD: &str = "kit";

/// The user that runs the servers if the tests run as root, because PostgreSQL refuses root. It owns nothing.
const NOBODY: u32 = 65_534;

/// A PostgreSQL server on a free loopback port, with its data in a temporary folder.
///
/// It dies when this value is dropped, and also when the test process is killed. It writes to disk as a server of an
/// app does only if it was started [to keep its data](Self::durable).
///
/// # Examples
///
/// ```
/// let server = lock_tests::PostgresServer::start();
/// assert_eq!(server.sql("postgres", "SELECT 6 * 7"), "42\n");
/// ```
#[derive(Debug)]
pub struct PostgresServer {
    port: Port,
    folder: TempDir,
    programs: &'static Path,
    options: Vec<String>,
    process: Mutex<Option<Supervised>>,
    databases: AtomicU32,
}

impl PostgresServer {
    /// Starts a server that does not wait for the disk.
    ///
    /// # Panics
    ///
    /// If there is no PostgreSQL and none could be fetched, or it does not start.
    #[track_caller]
    pub fn start() -> Self {
        Self::with(&["fsync=off", "full_page_writes=off"])
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

    /// Starts a server with these settings, each as `name=value`.
    ///
    /// # Panics
    ///
    /// As [`start`](Self::start).
    #[track_caller]
    pub fn with(settings: &[&str]) -> Self {
        Self::built(settings, |server| server.make_data(&[]))
    }

    /// Starts a server that does not wait for the disk, and writes its log in files of a megabyte. So a test can
    /// [limit its files](Self::limit_files) to a few megabytes without harm to the log.
    ///
    /// # Panics
    ///
    /// As [`start`](Self::start).
    #[track_caller]
    pub fn with_small_log() -> Self {
        let settings = ["fsync=off", "full_page_writes=off", "autovacuum=off"];
        Self::built(&settings, |server| server.make_data(&["--wal-segsize=1"]))
    }

    /// Starts a server that waits for its disk, and serves TLS with this certificate and its key, both in PEM.
    ///
    /// # Panics
    ///
    /// As [`start`](Self::start).
    #[track_caller]
    pub fn with_tls(certificate: &str, key: &str) -> Self {
        Self::built(&["ssl=on"], |server| {
            server.make_data(&[]);
            for (name, text) in [("server.crt", certificate), ("server.key", key)] {
                let path = server.data().join(name);
                fs::write(&path, text).expect("a file in the folder of the data");
                fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("its mode");
                if is_root() {
                    give(&path);
                }
            }
        })
    }

    /// Starts a standby of this server, which follows it from now on. [`promote`](Self::promote) makes it a primary.
    ///
    /// # Panics
    ///
    /// As [`start`](Self::start).
    #[track_caller]
    pub fn standby(&self) -> Self {
        Self::built(&[], |standby| {
            self.back_up_to(standby, &standby.data(), &["-R", "-X", "stream"])
        })
    }

    /// Makes a standby a primary, and returns when it is one.
    ///
    /// # Panics
    ///
    /// If this is no standby.
    #[track_caller]
    pub fn promote(&self) {
        assert_eq!(self.sql("postgres", "SELECT pg_promote()"), "t\n", "it was not promoted");
    }

    /// Lets commits wait for a standby from now on. Returns when one follows.
    ///
    /// # Panics
    ///
    /// If none follows in time.
    #[track_caller]
    pub fn commit_on_standbys(&self) {
        self.sql("postgres", "ALTER SYSTEM SET synchronous_standby_names = '*'");
        self.sql("postgres", "SET synchronous_commit = off; SELECT pg_reload_conf()");
        let follows = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'";
        crate::eventually("a standby follows", START_LIMIT, || {
            self.sql("postgres", follows) == "1\n"
        });
    }

    /// A copy of the data of the running server, as operators make backups, for [`restore_data`](Self::restore_data).
    ///
    /// # Panics
    ///
    /// If the server does not run, or there is no room.
    #[track_caller]
    pub fn back_up(&self) -> PathBuf {
        let copy = self.folder.path().join("backup");
        self.back_up_to(self, &copy, &["-X", "fetch"]);
        copy
    }

    #[track_caller]
    fn back_up_to(&self, of: &Self, folder: &Path, options: &[&str]) {
        if is_root() {
            give(of.folder.path());
        }
        let mut command = of.command("pg_basebackup");
        command.args(["-c", "fast", "-d", &self.url("postgres"), "-D"]).arg(folder);
        let output = command.args(options).output().expect("pg_basebackup runs");
        assert!(output.status.success(), "there is no backup: {}", text(&output));
    }

    /// Starts a server whose data this makes.
    #[track_caller]
    fn built(settings: &[&str], make_data: impl FnOnce(&Self)) -> Self {
        let folder = TempDir::with_prefix("postgres-").expect("a temporary folder");
        let server = Self {
            port: Port::reserve(),
            folder,
            programs: postgres_programs(),
            options: settings.iter().map(|&it| it.to_owned()).collect(),
            process: Mutex::new(None),
            databases: AtomicU32::new(0),
        };
        make_data(&server);
        if let Err(why) = server.run() {
            panic!("PostgreSQL did not start: {why}");
        }
        server
    }

    /// Creates the data, as a user who is not root.
    fn make_data(&self, options: &[&str]) {
        let password = self.folder.path().join("password");
        fs::write(&password, PASSWORD).expect("the file of the password");
        if is_root() {
            give(self.folder.path());
            give(&password);
        }
        let data = self.data();
        let output = self
            .command("initdb")
            .args(["-U", USER, "-A", "scram-sha-256", "-E", "UTF8", "--no-locale", "-N"])
            .arg(format!("--pwfile={}", password.display()))
            .arg("-D")
            .arg(&data)
            .args(options)
            .output();
        let output = output.expect("initdb runs");
        assert!(output.status.success(), "initdb failed: {}", text(&output));
    }

    /// A program of PostgreSQL, for the user that owns the data.
    fn command(&self, program: &str) -> Command {
        self.as_owner(Command::new(self.programs.join(program)))
    }

    /// This command, for the user that owns the data.
    fn as_owner(&self, mut command: Command) -> Command {
        use std::os::unix::process::CommandExt;

        command.env("LC_ALL", "C").current_dir(self.folder.path()).stdin(Stdio::null());
        if let Some(libraries) = install::libraries(self.programs) {
            command.env("LD_LIBRARY_PATH", libraries);
        }
        if is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }

    fn run(&self) -> Result<(), String> {
        let port = self.port.number().to_string();
        let folder = self.folder.path().display().to_string();
        let mut words: Vec<String> = Vec::new();
        if is_root() {
            words.extend(as_nobody());
        }
        let mut variables = vec!["LC_ALL=C".to_owned()];
        variables
            .extend(install::libraries(self.programs).map(|it| format!("LD_LIBRARY_PATH={it}")));
        words.push("env".to_owned());
        words.extend(variables);
        words.push(self.programs.join("postgres").display().to_string());
        words.extend(["-D".to_owned(), self.data().display().to_string()]);
        words.extend(["-k".to_owned(), folder, "-p".to_owned(), port]);
        let usual = [
            "listen_addresses=127.0.0.1",
            "max_connections=400",
            "shared_buffers=32MB",
            "jit=off",
            // In the folder of the data: a server that is killed leaves nothing elsewhere.
            "dynamic_shared_memory_type=mmap",
        ];
        for setting in usual.iter().map(|&it| it.to_owned()).chain(self.options.iter().cloned()) {
            words.extend(["-c".to_owned(), setting]);
        }
        let process = Supervised::run(&words).map_err(|error| error.to_string())?;
        let start = Instant::now();
        loop {
            if process.has_exited() {
                return Err(process.log());
            }
            if self.try_sql("postgres", "SELECT 1").is_ok() {
                *self.process() = Some(process);
                return Ok(());
            }
            if start.elapsed() > START_LIMIT {
                return Err(format!("{}\nnot ready after {START_LIMIT:?}", process.log()));
            }
            process.wait_for_exit(Duration::from_millis(20));
        }
    }

    fn process(&self) -> MutexGuard<'_, Option<Supervised>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The folder of the data.
    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// The address, always on the loopback interface.
    pub fn addr(&self) -> SocketAddr {
        self.port.addr()
    }

    /// The id of the process that the others are children of.
    ///
    /// # Panics
    ///
    /// If the server was killed and not restarted.
    #[track_caller]
    pub fn pid(&self) -> u32 {
        self.process().as_ref().expect("the server does not run").pid()
    }

    /// The URL of a database, for the superuser.
    pub fn url(&self, database: &str) -> String {
        self.url_through(self.addr(), database)
    }

    /// The same through a proxy or a pooler at `addr`.
    pub fn url_through(&self, addr: SocketAddr, database: &str) -> String {
        format!("postgres://{USER}:{PASSWORD}@{addr}/{database}?sslmode=disable")
    }

    /// The URL of a database on this server or on another one, whichever takes writes, for the superuser.
    pub fn url_with(&self, other: &Self, database: &str) -> String {
        let hosts = format!("{},{}", self.addr(), other.addr());
        format!(
            "postgres://{USER}:{PASSWORD}@{hosts}/{database}?sslmode=disable&target_session_attrs=read-write"
        )
    }

    /// The URL of a database, for another role.
    pub fn url_as(&self, role: &str, password: &str, database: &str) -> String {
        format!("postgres://{role}:{password}@{}/{database}?sslmode=disable", self.addr())
    }

    /// Creates an empty database. Locks, roles aside, are things of one database.
    pub fn database(&self) -> String {
        self.copy("template0")
    }

    /// Creates a database with the schema of the locks, and returns its URL for the superuser.
    pub fn locks(&self) -> String {
        let database = self.database();
        self.sql(&database, &lock_postgres::PostgresBackend::schema());
        self.url(&database)
    }

    /// Creates a database with all that is in another one.
    pub fn copy(&self, template: &str) -> String {
        let name = format!("d{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.sql("postgres", &format!("CREATE DATABASE {name} TEMPLATE {template}"));
        name
    }

    /// Runs statements as the superuser, and returns what they select: a line for a row, with `|` between the columns.
    ///
    /// # Panics
    ///
    /// If one fails.
    #[track_caller]
    pub fn sql(&self, database: &str, statements: &str) -> String {
        match self.try_sql(database, statements) {
            Ok(text) => text,
            Err(why) => panic!("{statements}: {why}"),
        }
    }

    /// As [`sql`](Self::sql).
    ///
    /// # Errors
    ///
    /// What the server says if a statement fails.
    pub fn try_sql(&self, database: &str, statements: &str) -> Result<String, String> {
        sql::run(&self.url(database), statements)
    }

    /// Kills all processes of the server (SIGKILL, to the first one), and returns once they are gone.
    pub fn kill(&self) {
        let Some(process) = self.process().take() else { return };
        let children = process::children(process.pid());
        drop(process);
        // A child notices that its parent is gone, and ends, but not at once.
        children.into_iter().for_each(process::kill);
    }

    /// Stops all processes of the server (SIGSTOP). Its connections stay open.
    ///
    /// # Panics
    ///
    /// If the server was killed and not restarted.
    #[track_caller]
    pub fn stop(&self) {
        let first = self.pid();
        // From here on there are no new ones.
        process::stop(first);
        process::children(first)
            .into_iter()
            .filter(|pid| process::is_alive(*pid))
            .for_each(process::stop);
    }

    /// Lets the processes of a stopped server go on (SIGCONT).
    ///
    /// # Panics
    ///
    /// If the server was killed and not restarted.
    #[track_caller]
    pub fn cont(&self) {
        let first = self.pid();
        let children = process::children(first).into_iter();
        children.filter(|pid| process::is_stopped(*pid)).for_each(process::cont);
        process::cont(first);
    }

    /// Lets no process of the server write to a file behind so many bytes (`ulimit -f`), until it restarts or there is
    /// no limit any more. PostgreSQL treats that as a full disk.
    ///
    /// # Panics
    ///
    /// If the server does not run.
    #[track_caller]
    pub fn limit_files(&self, bytes: Option<u64>) {
        let limit = bytes.map_or("unlimited".to_owned(), |bytes| bytes.to_string());
        let first = self.pid();
        // The first process passes its limit on to those that it starts from here on.
        self.limit_of(first, &limit);
        for pid in process::children(first).into_iter().filter(|pid| process::is_alive(*pid)) {
            self.limit_of(pid, &limit);
        }
    }

    /// By the user of the server, who needs no more rights for it.
    fn limit_of(&self, pid: u32, limit: &str) {
        let mut prlimit = self.as_owner(Command::new("prlimit"));
        prlimit.arg(format!("--pid={pid}")).arg(format!("--fsize={limit}:"));
        let output = prlimit.output().expect("prlimit runs");
        // A process may have ended meanwhile.
        assert!(output.status.success() || !process::is_alive(pid), "{}", text(&output));
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
        assert!(self.process().is_none(), "the data of a running server change");
        fs::remove_dir_all(self.data()).expect("the data can be removed");
        fs::rename(copy, self.data()).expect("the copy can be moved");
    }

    /// Kills the server if it runs, and starts it again with its data on the same port.
    ///
    /// # Panics
    ///
    /// If it does not start.
    #[track_caller]
    pub fn restart(&self) {
        self.kill();
        if let Err(why) = self.run() {
            panic!("PostgreSQL did not start again: {why}");
        }
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The words before a command that is to run without the rights of root, in its own process.
fn as_nobody() -> [String; 4] {
    let ids = [format!("--reuid={NOBODY}"), format!("--regid={NOBODY}")];
    let [user, group] = ids;
    ["setpriv".to_owned(), user, group, "--clear-groups".to_owned()]
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Makes the path one of the user that runs the servers.
fn give(path: &Path) {
    std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).expect("root may give files away");
    let mode = if path.is_dir() { 0o700 } else { 0o600 };
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("the mode of a file");
}

fn text(output: &Output) -> String {
    let parts = [&output.stdout, &output.stderr].map(|it| String::from_utf8_lossy(it).into_owned());
    parts.concat()
}
