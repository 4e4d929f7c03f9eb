//! The server's own account of its work.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use lock_tests::CommandStats;
use lock_tests::resp::{Client, Value};

use crate::{Failure, ServerLoad, cpu};

/// How long a server may take to answer, however busy it is.
const PATIENCE: Duration = Duration::from_secs(30);

/// How the URL of a process begins. The id of the process follows.
const PROCESS: &str = "process:";

/// A source of the account of a server.
///
/// A Redis server is asked over a connection of its own. It reports its processor time to the microsecond. Each report
/// takes processor time too: about 0.1 ms for everything, and 0.02 ms for the processor time alone.
///
/// The kernel is asked for the processor time of the processes of any other server. That account has no commands.
#[derive(Debug)]
pub struct Meter(Source);

#[derive(Debug)]
enum Source {
    Redis(Client),
    Process(u32),
}

impl Meter {
    /// The meter of this URL: that of a Redis server, which must need no password, or that of
    /// [processes](Self::of_process).
    ///
    /// # Errors
    ///
    /// If the URL has more than an address, or no server answers there.
    pub fn at(url: &str) -> Result<Self, Failure> {
        if let Some(pid) = url.strip_prefix(PROCESS) {
            return Ok(Self(Source::Process(pid.parse()?)));
        }
        let addr = url.strip_prefix("redis://").ok_or_else(|| format!("not a server: {url}"))?;
        let addr: SocketAddr = addr.trim_end_matches('/').parse()?;
        Ok(Self(Source::Redis(Client::connect(addr, PATIENCE)?)))
    }

    /// The URL of the meter of a process and its children.
    pub fn of_process(pid: u32) -> String {
        format!("{PROCESS}{pid}")
    }

    /// The whole account.
    ///
    /// # Errors
    ///
    /// If the server does not answer.
    pub fn account(&mut self) -> Result<Account, Failure> {
        match &mut self.0 {
            Source::Redis(client) => Ok(Account::parse(&info(client, "everything")?)),
            Source::Process(pid) => {
                let cpu = cpu::of_process(*pid)?;
                Ok(Account {
                    load: ServerLoad { cpu, ..ServerLoad::default() },
                    ..Account::default()
                })
            }
        }
    }

    /// The processor time of the server's threads since it began.
    ///
    /// # Errors
    ///
    /// If the server does not answer.
    pub fn cpu(&mut self) -> Result<Duration, Failure> {
        match &mut self.0 {
            Source::Redis(client) => Ok(ServerLoad::parse(&info(client, "cpu")?).cpu),
            Source::Process(pid) => cpu::of_process(*pid),
        }
    }
}

fn info(client: &mut Client, section: &str) -> Result<String, Failure> {
    match client.command(&["INFO", section])? {
        Value::Text(info) => Ok(String::from_utf8_lossy(&info).into_owned()),
        other => Err(format!("INFO was answered by {other:?}").into()),
    }
}

/// The meters of all servers of a store.
#[derive(Debug)]
pub struct Meters(Vec<Meter>);

impl Meters {
    /// The meters of these URLs.
    ///
    /// # Errors
    ///
    /// Those of [`Meter::at`].
    pub fn at(urls: &[String]) -> Result<Self, Failure> {
        Ok(Self(urls.iter().map(|url| Meter::at(url)).collect::<Result<_, _>>()?))
    }

    /// The whole account of each server.
    ///
    /// # Errors
    ///
    /// If a server does not answer.
    pub fn accounts(&mut self) -> Result<Vec<Account>, Failure> {
        self.0.iter_mut().map(Meter::account).collect()
    }

    /// The processor time of all servers together.
    ///
    /// # Errors
    ///
    /// If a server does not answer.
    pub fn cpu(&mut self) -> Result<Duration, Failure> {
        self.0.iter_mut().map(Meter::cpu).sum()
    }
}

/// The difference between the accounts of two moments: the commands, by what `sent` says of each server, and the
/// processor time.
pub(crate) fn spent(
    before: &[Account],
    after: &[Account],
    sent: impl Fn(&Account) -> u64,
) -> (u64, Duration) {
    let more = after.iter().zip(before).map(|(after, before)| after.since(before));
    more.fold((0, Duration::ZERO), |(commands, cpu), it| (commands + sent(&it), cpu + it.load.cpu))
}

/// The account of a server at one moment, or the difference between two moments.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Account {
    /// The processor time, and the part of it for scripts.
    pub load: ServerLoad,
    /// How often each command was called.
    pub stats: CommandStats,
    /// How many bytes the server has allocated. In a difference, the value of the later moment.
    pub memory: u64,
    /// For how long the server ran each command, by its name in lower case.
    busy: BTreeMap<String, Duration>,
}

impl Account {
    /// The difference to `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let before = |name: &str| earlier.busy.get(name).copied().unwrap_or_default();
        let busy = self.busy.iter();
        Self {
            load: self.load.since(earlier.load),
            stats: self.stats.since(&earlier.stats),
            memory: self.memory,
            busy: busy.map(|(name, it)| (name.clone(), it.saturating_sub(before(name)))).collect(),
        }
    }

    /// How many commands came over the network, if scripts call only `inner`.
    pub fn sent(&self, inner_commands: &[&str]) -> u64 {
        let sent = self.stats.iter().filter(|(name, _)| !inner_commands.contains(name));
        sent.map(|(_, calls)| calls).sum()
    }

    /// For how long the server ran the commands from the network, including the commands that their scripts called.
    pub fn busy(&self, inner_commands: &[&str]) -> Duration {
        let sent = self.stats.iter().filter(|(name, _)| !inner_commands.contains(name));
        sent.filter_map(|(name, _)| self.busy.get(name)).sum()
    }

    fn parse(info: &str) -> Self {
        let (mut busy, mut memory) = (BTreeMap::new(), 0);
        for (name, figure) in info.lines().filter_map(|line| line.split_once(':')) {
            if name == "used_memory" {
                memory = figure.trim().parse().unwrap_or(0);
            } else if let Some(name) = name.strip_prefix("cmdstat_") {
                let usec = figure.split(',').find_map(|it| it.strip_prefix("usec="));
                let usec = usec.and_then(|usec| usec.parse().ok()).unwrap_or(0);
                busy.insert(name.to_ascii_lowercase(), Duration::from_micros(usec));
            }
        }
        Self { load: ServerLoad::parse(info), stats: CommandStats::parse(info), memory, busy }
    }
}

#[cfg(test)]
mod tests {
    use lock_tests::RedisServer;

    use super::*;

    const INFO: &str = "# CPU\r\nused_cpu_sys:1.5\r\nused_memory:1000\r\nused_memory_rss:9\r\n\
         cmdstat_evalsha:calls=12,usec=90,usec_per_call=7.50\r\ncmdstat_get:calls=1,usec=4\r\n";

    #[test]
    fn the_account_is_read() {
        let account = Account::parse(INFO);
        assert_eq!((account.memory, account.sent(&["get"])), (1000, 12));
        assert_eq!(account.busy(&["get"]), Duration::from_micros(90));
        assert_eq!(account.busy(&[]), Duration::from_micros(94));
        let later = Account::parse(&INFO.replace("calls=12,usec=90", "calls=15,usec=100"));
        let more = later.since(&account);
        assert_eq!((more.sent(&[]), more.busy(&[])), (3, Duration::from_micros(10)));
    }

    #[test]
    fn a_server_is_asked() {
        let server = RedisServer::start();
        let mut meter = Meter::at(&server.url()).unwrap();
        let before = meter.account().unwrap();
        server.cli(&["SET", "a", "b"]);
        let more = meter.account().unwrap().since(&before);
        assert_eq!(more.sent(&[]), 1);
        assert!(more.memory > 0 && meter.cpu().unwrap() > before.load.cpu);
        assert!(Meter::at("somewhere").is_err());
    }

    #[test]
    fn the_kernel_and_the_server_agree() {
        let server = RedisServer::start();
        let mut meters =
            [server.url(), Meter::of_process(server.pid())].map(|it| Meter::at(&it).unwrap());
        let before = meters.each_mut().map(|it| it.cpu().unwrap());
        server.cli(&["EVAL", "for i = 1, 10000000 do end", "0"]);
        let [told, seen] = meters.each_mut().map(|it| it.account().unwrap().load.cpu);
        let (told, seen) = (told - before[0], seen - before[1]);
        assert!(seen > Duration::from_millis(5), "{seen:?}");
        assert!(seen < told * 2 && told < seen * 2, "{told:?} {seen:?}");
    }
}
