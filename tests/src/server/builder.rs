//! The options of a server.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use super::KIT_USER;
use crate::{Port, RedisServer};

/// Options for a [`RedisServer`].
///
/// # Examples
///
/// ```
/// use lock_tests::RedisServer;
///
/// let server = RedisServer::builder()
///     .config("notify-keyspace-events", "Kgxe")
///     .user("reader", "on >secret ~* +get")
///     .start();
/// assert_eq!(server.cli(&["ACL", "WHOAMI"]).text(), "kit");
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct RedisServerBuilder {
    pub(super) program: Option<PathBuf>,
    pub(super) sentinel: bool,
    pub(super) password: Option<String>,
    append_only: bool,
    pub(super) variables: Vec<(String, String)>,
    users: Vec<(String, String)>,
    config: Vec<(String, String)>,
}

impl RedisServerBuilder {
    /// Starts this program instead of the one that [`redis_server`](crate::redis_server) finds.
    pub fn program(mut self, path: impl Into<PathBuf>) -> Self {
        self.program = Some(path.into());
        self
    }

    /// Starts the program as a sentinel.
    pub(crate) fn sentinel(mut self) -> Self {
        self.sentinel = true;
        self
    }

    /// Starts the program with this variable in its environment.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.variables.push((name.into(), value.into()));
        self
    }

    /// Requires a password of all users. [`RedisServer::url`] contains it.
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.password = Some(password.into());
        self
    }

    /// Adds a user, with rules in the form of `ACL SETUSER`.
    pub fn user(mut self, name: impl Into<String>, rules: impl Into<String>) -> Self {
        self.users.push((name.into(), rules.into()));
        self
    }

    /// Keeps the data in an append-only file, so that it survives [`RedisServer::restart`].
    pub fn append_only(mut self) -> Self {
        self.append_only = true;
        self
    }

    pub(super) fn is_append_only(&self) -> bool {
        self.append_only
    }

    /// Adds a line to the configuration file; the value is written as the file wants it, with
    /// quotes where it needs some. A later line overrides an earlier one.
    pub fn config(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.config.push((name.into(), value.into()));
        self
    }

    /// Starts the server.
    ///
    /// # Panics
    ///
    /// If there is no `redis-server` and none could be fetched, or it does not start.
    #[track_caller]
    pub fn start(self) -> RedisServer {
        self.try_start().unwrap_or_else(|why| panic!("{why}"))
    }

    /// As above, for a program that can do without a server of its own.
    ///
    /// # Errors
    ///
    /// If the server does not start: its log.
    ///
    /// # Panics
    ///
    /// If no [`program`](Self::program) is named, there is none, and none could be fetched.
    pub fn try_start(self) -> Result<RedisServer, String> {
        RedisServer::launch(self)
    }

    /// The text of the configuration file.
    pub(super) fn config_file(&self, port: &Port, folder: &Path, secret: &str) -> String {
        let folder = folder.display();
        let mut text = format!(
            "bind 127.0.0.1\n\
             port {port}\n\
             dir \"{folder}\"\n\
             unixsocket \"{folder}/redis.sock\"\n\
             save \"\"\n\
             appendonly {append_only}\n\
             user {KIT_USER} on >{secret} allkeys allchannels allcommands\n",
            port = port.number(),
            append_only = if self.append_only { "yes" } else { "no" },
        );
        if let Some(password) = &self.password {
            _ = writeln!(text, "requirepass \"{password}\"");
        }
        for (name, rules) in &self.users {
            _ = writeln!(text, "user {name} {rules}");
        }
        for (name, value) in &self.config {
            _ = writeln!(text, "{name} {value}");
        }
        text
    }
}
