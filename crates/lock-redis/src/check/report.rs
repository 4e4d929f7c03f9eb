//! The report, as users see it.

use std::borrow::Cow;
use std::fmt;

/// How much a [`Finding`] matters for locks. A later variant matters more.
///
/// [`RedisBackend::check`](crate::RedisBackend::check) has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Severity {
    /// Good to know. Nothing has to be done.
    Info,
    /// The check cannot know this. The remedy says which right or which question answers it.
    Unknown,
    /// Locks work, but they are less safe, or slower to wait for.
    Warning,
    /// Locks do not work, or the server gives away locks that are held.
    Critical,
}

/// One thing that the check found at one server, or in a deployment as a whole.
///
/// [`RedisBackend::check`](crate::RedisBackend::check) has an example.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// A stable name of this kind of finding, in kebab-case. The [table](crate::check#findings) lists all names.
    pub code: &'static str,
    /// The server: its address and database, without credentials. For a finding about a whole deployment, its hosts.
    pub server: String,
    /// What is so.
    pub finding: Cow<'static, str>,
    /// Why that matters for a lock.
    pub reason: Cow<'static, str>,
    /// What to do about it.
    pub remedy: Cow<'static, str>,
}

/// What one server told about itself. A value is `None` if the server did not tell it.
///
/// [`RedisBackend::check`](crate::RedisBackend::check) has an example.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Server {
    /// The address and the database, without credentials.
    pub address: String,
    /// The version of Redis or Valkey.
    pub version: Option<String>,
    /// Whether it is a master or a replica.
    pub role: Option<Role>,
    /// The deployment that the server is a part of.
    pub topology: Option<Topology>,
    /// How many replicas are connected to it.
    pub replicas: Option<u64>,
    /// The eviction policy. Locks need `noeviction`.
    pub eviction_policy: Option<String>,
    /// The setting `notify-keyspace-events`.
    pub notifications: Option<String>,
    /// How far its clock is ahead of the clock of this machine.
    pub clock: Option<ClockOffset>,
}

/// The role of a server in replication.
///
/// [`RedisBackend::check`](crate::RedisBackend::check) has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Role {
    /// It takes writes.
    Master,
    /// It repeats the writes of a master.
    Replica,
}

/// The deployment that a server is a part of, as the server tells it.
///
/// [`RedisBackend::check`](crate::RedisBackend::check) has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Topology {
    /// One server, without replicas.
    Standalone,
    /// A master with replicas. The server knows of no Sentinel.
    Replicated,
    /// A master with replicas, which Sentinels monitor.
    Sentinel,
    /// A node of a cluster.
    Cluster,
}

/// How far the clock of a server is ahead of the wall clock of this machine.
///
/// The true difference lies between `micros - uncertainty_micros` and `micros + uncertainty_micros`, if neither
/// clock was set during the request.
///
/// [`RedisBackend::check`](crate::RedisBackend::check) has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct ClockOffset {
    /// The difference in microseconds, negative if the server is behind.
    pub micros: i64,
    /// Half of the round trip of the request, in microseconds.
    pub uncertainty_micros: u64,
}

impl ClockOffset {
    pub(super) fn new(micros: i64, uncertainty_micros: u64) -> Self {
        Self { micros, uncertainty_micros }
    }
}

/// What [`RedisBackend::check`](crate::RedisBackend::check) found.
///
/// `Display` prints it for people. With the feature `serde` it is `Serialize`, for example for `serde_json`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Report {
    /// The servers that were examined.
    pub servers: Vec<Server>,
    /// What was found, the most severe findings first.
    pub findings: Vec<Finding>,
}

impl Report {
    pub(super) fn new(servers: Vec<Server>, findings: Vec<Finding>) -> Self {
        let mut report = Self { servers, findings };
        report.sort();
        report
    }

    /// The highest severity of all findings; `None` if there are no findings.
    ///
    /// ```no_run
    /// # async fn run(backend: lock_redis::RedisBackend) -> Result<(), lock_core::Error> {
    /// use lock_redis::check::Severity;
    ///
    /// let report = backend.check().await?;
    /// assert!(report.worst() < Some(Severity::Critical), "{report}");
    /// # Ok(())
    /// # }
    /// ```
    pub fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(|finding| finding.severity).max()
    }

    /// The findings with this code, one for each server that has it.
    ///
    /// ```
    /// let report = lock_redis::check::Report::default();
    /// assert_eq!(report.with_code("no-persistence").count(), 0);
    /// ```
    pub fn with_code(&self, code: &str) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(move |finding| finding.code == code)
    }

    /// Adds what was found at other servers.
    ///
    /// ```
    /// use lock_redis::check::Report;
    ///
    /// let mut report = Report::default();
    /// report.append(Report::default());
    /// assert_eq!(report.worst(), None);
    /// ```
    pub fn append(&mut self, other: Self) {
        self.servers.extend(other.servers);
        self.findings.extend(other.findings);
        self.sort();
    }

    /// Findings of one severity keep their order.
    fn sort(&mut self) {
        self.findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Info => "info",
            Self::Unknown => "unknown",
            Self::Warning => "warning",
            Self::Critical => "critical",
        })
    }
}

/// One line for each server, and a paragraph for each finding.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for server in &self.servers {
            writeln!(f, "{server}")?;
        }
        for finding in &self.findings {
            writeln!(f, "\n{finding}")?;
        }
        match self.worst() {
            Some(worst) => write!(f, "\nfindings: {}, worst: {worst}", self.findings.len()),
            None => write!(f, "\nfindings: 0"),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {} at {}", self.severity, self.code, self.server)?;
        writeln!(f, "  {}", self.finding)?;
        writeln!(f, "  why: {}", self.reason)?;
        write!(f, "  do:  {}", self.remedy)
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let or_unknown = |value: &Option<String>| value.clone().unwrap_or_else(|| "unknown".into());
        write!(f, "{}: version {}", self.address, or_unknown(&self.version))?;
        write!(f, ", role {}", role(self.role))?;
        write!(f, ", topology {}", topology(self.topology))?;
        let replicas = self.replicas.map(|count| count.to_string());
        write!(f, ", replicas {}", or_unknown(&replicas))?;
        write!(f, ", eviction policy {}", or_unknown(&self.eviction_policy))?;
        let events = self.notifications.as_ref().map(|flags| format!("{flags:?}"));
        write!(f, ", notify-keyspace-events {}", or_unknown(&events))?;
        let clock = self.clock.map(|clock| clock.to_string());
        write!(f, ", clock {}", or_unknown(&clock))
    }
}

impl fmt::Display for ClockOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = |micros: u64| micros as f64 / 1_000.0;
        let side = if self.micros < 0 { "behind" } else { "ahead" };
        let (difference, half) =
            (millis(self.micros.unsigned_abs()), millis(self.uncertainty_micros));
        write!(f, "{difference:.2} ms {side} (± {half:.2} ms)")
    }
}

fn role(role: Option<Role>) -> &'static str {
    match role {
        Some(Role::Master) => "master",
        Some(Role::Replica) => "replica",
        None => "unknown",
    }
}

fn topology(topology: Option<Topology>) -> &'static str {
    match topology {
        Some(Topology::Standalone) => "standalone",
        Some(Topology::Replicated) => "replicated",
        Some(Topology::Sentinel) => "sentinel",
        Some(Topology::Cluster) => "cluster",
        None => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(severity: Severity, code: &'static str, server: &str) -> Finding {
        let (finding, reason, remedy) = ("it is so".into(), "it matters".into(), "act".into());
        Finding { severity, code, server: server.into(), finding, reason, remedy }
    }

    fn report(address: &str, findings: Vec<Finding>) -> Report {
        Report::new(vec![Server { address: address.into(), ..Server::default() }], findings)
    }

    #[test]
    fn the_worst_comes_first_in_the_report_of_several_servers_too() {
        let mut both = report(
            "a:1/0",
            vec![finding(Severity::Info, "x", "a:1/0"), finding(Severity::Warning, "y", "a:1/0")],
        );
        assert_eq!(both.worst(), Some(Severity::Warning));
        both.append(report("b:1/0", vec![finding(Severity::Unknown, "x", "b:1/0")]));
        let codes: Vec<_> = both.findings.iter().map(|it| (it.code, &*it.server)).collect();
        assert_eq!(codes, [("y", "a:1/0"), ("x", "b:1/0"), ("x", "a:1/0")]);
        assert_eq!((both.servers.len(), both.with_code("x").count()), (2, 2));
        assert_eq!(report("a:1/0", Vec::new()).worst(), None);
    }

    #[test]
    fn people_read_every_part_of_a_finding() {
        let shown = report("a:1/0", vec![finding(Severity::Unknown, "x", "a:1/0")]).to_string();
        for part in ["a:1/0: version unknown", "unknown: x at a:1/0", "it is so", "it matters"] {
            assert!(shown.contains(part), "{shown}");
        }
        assert!(report("a:1/0", Vec::new()).to_string().ends_with("findings: 0"));
    }

    #[test]
    fn an_offset_is_shown_with_its_uncertainty() {
        assert_eq!(ClockOffset::new(-1_500, 240).to_string(), "1.50 ms behind (± 0.24 ms)");
        assert_eq!(ClockOffset::new(90_000, 1_000).to_string(), "90.00 ms ahead (± 1.00 ms)");
    }
}
