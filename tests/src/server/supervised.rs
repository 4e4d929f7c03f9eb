//! A server process that cannot outlive the test process.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use super::lock;
use crate::{RedisServerBuilder, redis_server};

/// A shell between the test process and the server. It reads a pipe whose other end only the test
/// process holds, and kills the server when the pipe ends: the system closes the pipe even of a
/// killed process. The server first prints its process id, and all later output is its own.
///
/// The processes that a live server has started are killed with it. A process that stands still does not notice that its
/// parent is gone. The server is stopped first, so that it starts no more of them.
///
/// A hang-up must not end it: the system sends one to a group of processes that loses its last tie
/// to the session while one of them is stopped, and that may be the server.
const SUPERVISOR: &str = r#"
trap '' HUP
sh -c 'echo "$$"; exec "$@"' server "$@" </dev/null 2>&1 &
server=$!
exec >/dev/null 2>&1
while read -r _; do :; done
kill -STOP "$server"
children=$(cat "/proc/$server/task/$server/children" || pgrep -P "$server")
kill -9 "$server" $children
wait "$server"
"#;

const LOG_LINES: usize = 300;

#[derive(Debug)]
pub(crate) struct Supervised {
    supervisor: Child,
    pid: u32,
    output: Arc<Output>,
}

/// The output of the server, until its end of the pipe was closed.
#[derive(Debug, Default)]
struct Output {
    state: Mutex<(VecDeque<String>, bool)>,
    ended: Condvar,
}

impl Supervised {
    pub(super) fn spawn(options: &RedisServerBuilder, config: &Path) -> io::Result<Self> {
        let program = options.program.as_deref().unwrap_or_else(|| redis_server());
        let variables = options.variables.iter().map(|(name, value)| format!("{name}={value}"));
        // For the server alone: the shell keeps its environment.
        let mut words: Vec<OsString> = vec!["env".into()];
        words.extend(variables.map(OsString::from));
        words.extend([program.into(), config.into()]);
        words.extend(options.sentinel.then(|| "--sentinel".into()));
        Self::run(&words)
    }

    /// Runs this command, whose process must stay that of the server.
    pub(crate) fn run(words: &[impl AsRef<OsStr>]) -> io::Result<Self> {
        let mut supervisor = Command::new("sh")
            .args(["-c", SUPERVISOR, "supervisor"])
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // Out of reach of a Ctrl-C in the terminal, which would end the shell before the
            // server.
            .process_group(0)
            .spawn()?;
        let Some(stdout) = supervisor.stdout.take() else {
            return Err(io::Error::other("no pipe from the supervisor"));
        };
        let mut lines = BufReader::new(stdout).lines();
        let pid = lines.next().and_then(Result::ok).and_then(|line| line.parse().ok());
        let Some(pid) = pid else {
            drop(supervisor.stdin.take());
            supervisor.wait()?;
            return Err(io::Error::other("the supervisor did not start the server"));
        };
        let output = Arc::<Output>::default();
        let reader = Arc::clone(&output);
        std::thread::Builder::new().name(format!("log of {pid}")).spawn(move || {
            lines.map_while(Result::ok).for_each(|line| reader.push(line));
            reader.end();
        })?;
        Ok(Self { supervisor, pid, output })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    pub(crate) fn has_exited(&self) -> bool {
        lock(&self.output.state).1
    }

    /// Waits until the server has exited, for `limit` at most.
    pub(crate) fn wait_for_exit(&self, limit: Duration) {
        let state = lock(&self.output.state);
        drop(self.output.ended.wait_timeout_while(state, limit, |(_, ended)| !*ended));
    }

    pub(crate) fn log(&self) -> String {
        lock(&self.output.state).0.iter().map(|line| format!("{line}\n")).collect()
    }
}

impl Drop for Supervised {
    /// Ends the pipe, whereupon the supervisor kills the server, and waits until it has done so.
    fn drop(&mut self) {
        drop(self.supervisor.stdin.take());
        _ = self.supervisor.wait();
    }
}

impl Output {
    fn push(&self, line: String) {
        let lines = &mut lock(&self.state).0;
        if lines.len() == LOG_LINES {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    fn end(&self) {
        lock(&self.state).1 = true;
        self.ended.notify_all();
    }
}
