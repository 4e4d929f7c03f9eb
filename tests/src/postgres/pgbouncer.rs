//! A pooler before a PostgreSQL server.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::{PASSWORD, PostgresServer, USER, give, is_root};
use crate::Port;
use crate::install::{Cache, on_path, unpack_packages};
use crate::server::supervised::Supervised;

/// A PgBouncer that gives each transaction a session of the server.
///
/// # Examples
///
/// ```
/// use lock_tests::{PgBouncer, PostgresServer};
///
/// let server = PostgresServer::start();
/// let pooler = PgBouncer::before(&server, "postgres", 2);
/// assert!(pooler.url().starts_with("postgres://"));
/// ```
#[derive(Debug)]
pub struct PgBouncer {
    port: Port,
    /// `*` for all databases of the server.
    database: String,
    folder: TempDir,
    process: Supervised,
}

impl PgBouncer {
    /// A pooler with so many sessions of one database.
    ///
    /// # Panics
    ///
    /// If there is no PgBouncer and none could be fetched, or it does not start.
    #[track_caller]
    pub fn before(server: &PostgresServer, database: &str, sessions: u32) -> Self {
        Self::with(server, database, sessions, "")
    }

    /// A pooler that drops the settings of its clients, where others refuse these clients.
    ///
    /// # Panics
    ///
    /// As [`before`](Self::before).
    #[track_caller]
    pub fn dropping_settings(server: &PostgresServer, database: &str, sessions: u32) -> Self {
        Self::with(server, database, sessions, "ignore_startup_parameters = options\n")
    }

    #[track_caller]
    fn with(server: &PostgresServer, database: &str, sessions: u32, more: &str) -> Self {
        let folder = TempDir::with_prefix("pgbouncer-").expect("a temporary folder");
        let port = Port::reserve();
        let path = folder.path().display();
        let users = folder.path().join("users");
        fs::write(&users, format!("\"{USER}\" \"{PASSWORD}\"\n")).expect("the file of the users");
        let config = folder.path().join("pgbouncer.ini");
        let text = format!(
            "[databases]\n{database} = host=127.0.0.1 port={}\n\
             [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {}\nunix_socket_dir = {path}\n\
             auth_type = scram-sha-256\nauth_file = {path}/users\npool_mode = transaction\n\
             default_pool_size = {sessions}\nmax_client_conn = 1000\n{more}",
            server.addr().port(),
            port.number(),
        );
        fs::write(&config, text).expect("the file of the pooler");
        let mut words = Vec::new();
        if is_root() {
            [folder.path(), &users, &config].into_iter().for_each(give);
            words.extend(super::as_nobody());
        }
        words.push(program().display().to_string());
        words.push(config.display().to_string());
        let process = Supervised::run(&words).expect("a process for the pooler");
        let start = Instant::now();
        while std::net::TcpStream::connect(port.addr()).is_err() {
            let log = process.log();
            assert!(!process.has_exited(), "PgBouncer did not start: {log}");
            assert!(start.elapsed() < super::START_LIMIT, "PgBouncer is not ready: {log}");
            process.wait_for_exit(Duration::from_millis(10));
        }
        Self { port, database: database.to_owned(), folder, process }
    }

    /// A pooler with so many sessions of each database of the server.
    ///
    /// # Panics
    ///
    /// As [`before`](Self::before).
    #[track_caller]
    pub fn before_all(server: &PostgresServer, sessions: u32) -> Self {
        Self::before(server, "*", sessions)
    }

    /// The address, always on the loopback interface.
    pub fn addr(&self) -> std::net::SocketAddr {
        self.port.addr()
    }

    /// The id of the process.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// The folder of its files.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The URL through the pooler, for the superuser.
    pub fn url(&self) -> String {
        let (addr, database) = (self.port.addr(), &self.database);
        format!("postgres://{USER}:{PASSWORD}@{addr}/{database}?sslmode=disable")
    }
}

/// The program: that of the system, or one from the packages that apt offers.
fn program() -> &'static PathBuf {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        let unpacked = || Some(launcher()).filter(|it| it.is_file());
        let system =
            on_path(&["pgbouncer"]).next().or_else(|| Some(PathBuf::from("/usr/sbin/pgbouncer")));
        let system = system.filter(|it| it.is_file());
        if let Some(found) = system.or_else(unpacked) {
            return found;
        }
        let cache =
            Cache::open_for("pgbouncer").unwrap_or_else(|why| panic!("no PgBouncer: {why}"));
        if let Some(found) = unpacked() {
            return found;
        }
        let without = ["perl", "libperl", "postgresql", "python", "debconf"];
        let fetched = cache
            .clean()
            .and_then(|()| unpack_packages(&cache, &["pgbouncer"], &without))
            .and_then(|()| cache.write_launcher("pgbouncer", "usr/sbin/pgbouncer"))
            .and_then(|()| cache.publish_content());
        match fetched {
            Ok(()) => launcher(),
            Err(why) => panic!("there is no PgBouncer, and none could be had: {why}"),
        }
    })
}

fn launcher() -> PathBuf {
    Cache::ready("pgbouncer").join("pgbouncer")
}
