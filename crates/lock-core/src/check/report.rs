//! The report, as users see it.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::fmt;

/// How much a [`Finding`] matters for locks. A later variant matters more.
///
/// The [example](Report#examples) of a report has a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Severity {
    /// Good to know. There is nothing to do.
    Info,
    /// The check cannot know this. The remedy says which right or which question answers it.
    Unknown,
    /// Locks work, but they are less safe, or slower to wait for.
    Warning,
    /// Locks do not work, or the store gives away locks that are held.
    Critical,
}

/// One thing that a check found at one server, or at a store as a whole.
///
/// The [example](Report#examples) of a report has one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Finding {
    /// How much the finding matters.
    pub severity: Severity,
    /// A stable name of this kind of finding, in kebab-case. The docs of each check list its names.
    pub code: &'static str,
    /// The server, without credentials. For a finding about a whole store, its hosts or its name.
    pub server: String,
    /// What the examination found.
    pub finding: Cow<'static, str>,
    /// Why the finding matters for a lock.
    pub reason: Cow<'static, str>,
    /// What to do about the finding.
    pub remedy: Cow<'static, str>,
}

impl Finding {
    /// A finding of this kind at this server, without words. [`because`](Self::because) and [`remedy`](Self::remedy)
    /// add them.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_core::check::{Finding, Severity};
    ///
    /// let finding = Finding::new(Severity::Info, "memory", "memory")
    ///     .because("the store is the memory of this process", "no other process sees its locks")
    ///     .remedy("name a server if several processes are to share the locks");
    /// assert!(finding.to_string().starts_with("info: memory at memory\n"));
    /// ```
    pub fn new(severity: Severity, code: &'static str, server: impl Into<String>) -> Self {
        let (finding, reason, remedy) = Default::default();
        Self { severity, code, server: server.into(), finding, reason, remedy }
    }

    /// This finding, with what the examination found, and why that matters.
    #[must_use]
    pub fn because(
        self,
        finding: impl Into<Cow<'static, str>>,
        reason: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { finding: finding.into(), reason: reason.into(), ..self }
    }

    /// This finding, with another reason why it matters. The [example](super::Rehearsal::judge) of a judgement gives
    /// one.
    #[must_use]
    pub fn why(self, reason: impl Into<Cow<'static, str>>) -> Self {
        Self { reason: reason.into(), ..self }
    }

    /// This finding, with what to do.
    #[must_use]
    pub fn remedy(self, remedy: impl Into<Cow<'static, str>>) -> Self {
        Self { remedy: remedy.into(), ..self }
    }
}

/// The findings at one server, while they are collected.
///
/// The [example](Report#examples) of a report collects one.
#[derive(Clone, Debug)]
pub struct Findings<'a> {
    server: &'a str,
    list: Vec<Finding>,
}

impl<'a> Findings<'a> {
    /// No findings yet, at this server.
    pub fn at(server: &'a str) -> Self {
        Self { server, list: Vec::new() }
    }

    /// Adds a finding: what is so, why it matters, and what to do.
    pub fn add(
        &mut self,
        severity: Severity,
        code: &'static str,
        finding: impl Into<Cow<'static, str>>,
        reason: impl Into<Cow<'static, str>>,
        remedy: impl Into<Cow<'static, str>>,
    ) {
        let new = Finding::new(severity, code, self.server);
        self.list.push(new.because(finding, reason).remedy(remedy));
    }

    /// Where these findings were made.
    pub(super) fn server(&self) -> &'a str {
        self.server
    }

    /// The findings, in the order in which they were added.
    pub fn into_list(self) -> Vec<Finding> {
        self.list
    }
}

impl Extend<Finding> for Findings<'_> {
    fn extend<I: IntoIterator<Item = Finding>>(&mut self, more: I) {
        self.list.extend(more);
    }
}

/// One server that was examined, with what it told about itself.
///
/// The [example](Report#examples) of a report has one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Examined {
    /// The address of the server without credentials, or the name of the store.
    pub name: String,
    /// The facts that the server told.
    pub facts: Vec<Fact>,
}

impl Examined {
    /// A server that has told nothing yet.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), facts: Vec::new() }
    }

    /// This server, with one more fact if it is known.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: Option<impl fmt::Display>) -> Self {
        self.facts.extend(value.map(|value| Fact::new(name, value)));
        self
    }
}

/// One fact about a server or a store, for example its version.
///
/// The [example](Report#examples) of a report has one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Fact {
    /// What the fact is about, in kebab-case.
    pub name: &'static str,
    /// The fact, for people.
    pub value: String,
}

impl Fact {
    /// A fact.
    pub fn new(name: &'static str, value: impl fmt::Display) -> Self {
        Self { name, value: value.to_string() }
    }
}

/// What a check found. `S` is what the check tells of each server.
///
/// `Display` prints it for people. With the feature `serde` it is `Serialize`.
///
/// # Examples
///
/// ```
/// use lock_core::check::{Examined, Findings, Report, Severity};
///
/// let mut found = Findings::at("db.example:5432");
/// found.add(
///     Severity::Warning,
///     "fsync-off",
///     "the server does not wait for its disk",
///     "a crash of the machine forgets leases",
///     "set `fsync = on`",
/// );
/// let server = Examined::new("db.example:5432").with("version", Some("15.4"));
/// let report: Report = Report::new(vec![server], found.into_list());
/// assert_eq!(report.worst(), Some(Severity::Warning));
/// assert!(report.to_string().starts_with("db.example:5432: version 15.4\n"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Report<S = Examined> {
    /// The servers that were examined.
    pub servers: Vec<S>,
    /// What the store promises: its limits, and what it can do. Empty unless the check [names it](Self::promising).
    pub store: Vec<Fact>,
    /// What was found, the most severe findings first.
    pub findings: Vec<Finding>,
}

impl<S> Report<S> {
    /// A report of these servers. It puts the most severe findings first.
    pub fn new(servers: Vec<S>, findings: Vec<Finding>) -> Self {
        let mut report = Self { servers, store: Vec::new(), findings };
        report.sort();
        report
    }

    /// The highest severity of all findings; `None` if there are no findings.
    ///
    /// ```
    /// use lock_core::check::Report;
    ///
    /// assert_eq!(Report::<&str>::default().worst(), None);
    /// ```
    pub fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(|finding| finding.severity).max()
    }

    /// The findings with this code, one for each server that has it.
    ///
    /// ```
    /// use lock_core::check::Report;
    ///
    /// assert_eq!(Report::<&str>::default().with_code("fsync-off").count(), 0);
    /// ```
    pub fn with_code(&self, code: &str) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(move |finding| finding.code == code)
    }

    /// Adds what was found at other servers of the store.
    ///
    /// ```
    /// use lock_core::check::Report;
    ///
    /// let mut report = Report::new(vec!["a"], Vec::new());
    /// report.append(Report::new(vec!["b"], Vec::new()));
    /// assert_eq!(report.servers, ["a", "b"]);
    /// ```
    pub fn append(&mut self, other: Self) {
        self.servers.extend(other.servers);
        self.findings.extend(other.findings);
        self.sort();
    }

    /// This report, with another form of what it tells of each server.
    ///
    /// ```
    /// use lock_core::check::{Examined, Report};
    ///
    /// let report = Report::new(vec!["a"], Vec::new()).map(Examined::new);
    /// assert_eq!(report.servers[0].name, "a");
    /// ```
    #[must_use]
    pub fn map<T>(self, convert: impl FnMut(S) -> T) -> Report<T> {
        let servers = self.servers.into_iter().map(convert).collect();
        Report { servers, store: self.store, findings: self.findings }
    }

    /// Findings of one severity keep their order.
    pub(super) fn sort(&mut self) {
        self.findings.sort_by_key(|finding| Reverse(finding.severity));
    }
}

impl<S> Default for Report<S> {
    fn default() -> Self {
        Self::new(Vec::new(), Vec::new())
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

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {} at {}", self.severity, self.code, self.server)?;
        writeln!(f, "  {}", self.finding)?;
        writeln!(f, "  why: {}", self.reason)?;
        write!(f, "  do:  {}", self.remedy)
    }
}

/// Facts in one line, after a name.
fn line(name: &str, facts: &[Fact]) -> String {
    let facts: Vec<_> = facts.iter().map(Fact::to_string).collect();
    if facts.is_empty() { name.to_owned() } else { format!("{name}: {}", facts.join(", ")) }
}

impl fmt::Display for Examined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&line(&self.name, &self.facts))
    }
}

impl fmt::Display for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.value)
    }
}

impl<S: fmt::Display> Report<S> {
    /// The part of `Display` before the findings, for programs that print the findings in their own way.
    ///
    /// ```
    /// use lock_core::check::Report;
    ///
    /// assert_eq!(Report::new(vec!["a"], Vec::new()).head(), "a\n");
    /// ```
    pub fn head(&self) -> String {
        let mut head: String = self.servers.iter().map(|server| format!("{server}\n")).collect();
        if !self.store.is_empty() {
            head += &line("the store", &self.store);
            head.push('\n');
        }
        head
    }
}

/// One line for each server, one for the store, and a paragraph for each finding.
impl<S: fmt::Display> fmt::Display for Report<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.head())?;
        for finding in &self.findings {
            writeln!(f, "\n{finding}")?;
        }
        match self.worst() {
            Some(worst) => write!(f, "\nfindings: {}, worst: {worst}", self.findings.len()),
            None => write!(f, "\nfindings: 0"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(severity: Severity, code: &'static str, server: &str) -> Finding {
        Finding::new(severity, code, server).because("it is so", "it matters").remedy("act")
    }

    fn report(address: &'static str, findings: Vec<Finding>) -> Report<&'static str> {
        Report::new(vec![address], findings)
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
    fn every_part_is_shown() {
        let server =
            Examined::new("a:1").with("version", Some("7.0")).with("role", Some("primary"));
        let server = server.with("standbys", None::<u32>);
        let found =
            vec![finding(Severity::Info, "x", "a:1"), finding(Severity::Critical, "y", "a:1")];
        let report =
            Report { store: vec![Fact::new("step", "1ms")], ..Report::new(vec![server], found) };
        let shown = report.to_string();
        let parts = [
            "a:1: version 7.0, role primary\n",
            "the store: step 1ms\n",
            "\ncritical: y at a:1\n  it is so\n  why: it matters\n  do:  act\n",
            "\ninfo: x at a:1",
            "findings: 2, worst: critical",
        ];
        let places: Vec<_> = parts.iter().map(|part| shown.find(part)).collect();
        assert!(places.is_sorted() && places.iter().all(Option::is_some), "{shown}");
        assert!(Report::<Examined>::default().to_string().ends_with("findings: 0"));
    }
}
