//! The report of any store.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::fmt;

/// How much a [`Finding`] matters for locks. A later variant matters more.
///
/// [`doctor`](crate::doctor::doctor()) has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Severity {
    /// Good to know. Nothing has to be done.
    Info,
    /// The examination cannot know this. The remedy says what answers it.
    Unknown,
    /// Locks work, but they are less safe, or slower to wait for.
    Warning,
    /// Locks do not work, or the store gives away locks that are held.
    Critical,
}

/// One thing that the examination found at one server, or at the store as a whole.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// for finding in lock_any::doctor::doctor("memory:").await?.findings {
///     println!("{}: {}. What to do: {}", finding.code, finding.finding, finding.remedy);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// A stable name of this kind of finding, in kebab-case. The [table](crate::doctor#findings) lists the names.
    pub code: &'static str,
    /// The server, without credentials. For a finding about a whole store, its hosts or its name.
    pub server: String,
    /// What is so.
    pub finding: Cow<'static, str>,
    /// Why that matters for a lock.
    pub reason: Cow<'static, str>,
    /// What to do about it.
    pub remedy: Cow<'static, str>,
}

impl Finding {
    pub(super) fn new(severity: Severity, code: &'static str, server: impl Into<String>) -> Self {
        let (finding, reason, remedy) = Default::default();
        Self { severity, code, server: server.into(), finding, reason, remedy }
    }

    /// This finding, with what is so, and why that matters.
    pub(super) fn because(
        self,
        finding: impl Into<Cow<'static, str>>,
        reason: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { finding: finding.into(), reason: reason.into(), ..self }
    }

    /// This finding, with what to do.
    pub(super) fn remedy(self, remedy: impl Into<Cow<'static, str>>) -> Self {
        Self { remedy: remedy.into(), ..self }
    }
}

/// One server that was examined, with what it told about itself.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let report = lock_any::doctor::doctor("memory:").await?;
/// assert_eq!(report.servers[0].name, "memory");
/// for fact in &report.servers[0].facts {
///     println!("{}: {}", fact.name, fact.value);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Examined {
    /// The address of the server without credentials, or the name of the store.
    pub name: String,
    /// What the server told. A fact that it did not tell is not there.
    pub facts: Vec<Fact>,
}

impl Examined {
    pub(super) fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), facts: Vec::new() }
    }

    /// This server, with one more fact if it is known.
    #[cfg(feature = "redis")]
    pub(super) fn with(mut self, name: &'static str, value: Option<impl fmt::Display>) -> Self {
        self.facts.extend(value.map(|value| Fact { name, value: value.to_string() }));
        self
    }
}

/// One fact about a server, for example its version.
///
/// The [example](Examined#examples) of an examined server prints its facts.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Fact {
    /// What the fact is about, in kebab-case.
    pub name: &'static str,
    /// The fact, for people.
    pub value: String,
}

/// What [`doctor`](crate::doctor::doctor()) found.
///
/// `Display` prints it for people. With the feature `serde` it is `Serialize`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Report {
    /// The servers that were examined.
    pub servers: Vec<Examined>,
    /// What was found, the most severe findings first.
    pub findings: Vec<Finding>,
}

impl Report {
    pub(super) fn new(servers: Vec<Examined>, findings: Vec<Finding>) -> Self {
        let mut report = Self { servers, findings };
        // Findings of one severity keep their order.
        report.findings.sort_by_key(|finding| Reverse(finding.severity));
        report
    }

    /// The highest severity of all findings; `None` if there are no findings.
    ///
    /// ```
    /// assert_eq!(lock_any::doctor::Report::default().worst(), None);
    /// ```
    pub fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(|finding| finding.severity).max()
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

impl fmt::Display for Examined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        for (index, fact) in self.facts.iter().enumerate() {
            write!(f, "{} {fact}", if index == 0 { ":" } else { "," })?;
        }
        Ok(())
    }
}

impl fmt::Display for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.value)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_finding_comes_first_and_every_part_is_shown() {
        let finding = |severity, code| {
            Finding::new(severity, code, "a:1").because("it is so", "it matters").remedy("act")
        };
        let fact = Fact { name: "version", value: "7.0".to_owned() };
        let server = Examined { name: "a:1".to_owned(), facts: vec![fact.clone(), fact] };
        let found = vec![finding(Severity::Info, "x"), finding(Severity::Critical, "y")];
        let report = Report::new(vec![server], found);
        assert_eq!(report.worst(), Some(Severity::Critical));
        let shown = report.to_string();
        let parts = [
            "a:1: version 7.0, version 7.0\n",
            "\ncritical: y at a:1\n  it is so\n  why: it matters\n  do:  act\n",
            "\ninfo: x at a:1",
            "findings: 2, worst: critical",
        ];
        let places: Vec<_> = parts.iter().map(|part| shown.find(part)).collect();
        assert!(places.is_sorted() && places.iter().all(Option::is_some), "{shown}");
    }
}
