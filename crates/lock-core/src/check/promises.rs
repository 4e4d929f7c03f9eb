//! What a store promises, out of its limits and its capabilities.

use super::{Examined, Fact, Finding, Report, Severity};
use crate::{Backend, Capabilities, Capability, Limits, Ttl};

/// Every capability, with the word for it, and what an app lacks without it.
const ALL: [(Capability, &str, &str); 8] = [
    (Capability::Watch, "wake-ups", "waiters ask again at intervals, and are not served in order"),
    (
        Capability::Queue,
        "queue",
        "processes are not served in the order in which they came, and no inspection shows waiters",
    ),
    (Capability::Share, "readers", "`RwLock` fails"),
    (Capability::Convert, "conversions", "upgradable reads fail"),
    (
        Capability::Join,
        "joint holders",
        "an owner enters a reentrant mutex in its own process only",
    ),
    (Capability::Count, "permits", "`Semaphore` fails"),
    (Capability::Keep, "values", "`StoredMutex`, `OnceCell`, `Election` and `Barrier` fail"),
    (Capability::Inspect, "inspection", "no operator sees who holds a lock, or ends a lease"),
];

impl<S> Report<S> {
    /// This report, with what the store promises: its [limits](Backend::limits) and its
    /// [capabilities](Backend::capabilities). What it lacks becomes a finding:
    ///
    /// | code | severity | finding |
    /// | --- | --- | --- |
    /// | `lacks-capabilities` | info | the store cannot serve some primitives |
    /// | `no-wake-ups` | warning | this client hears of no release |
    /// | `coarse-leases` | info | the store counts leases in long steps, or only long ones |
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_core::check::Report;
    /// use lock_core::memory::MemoryBackend;
    ///
    /// let report: Report = Report::default().promising("memory", &MemoryBackend::new());
    /// assert_eq!(report.worst(), None);
    /// assert_eq!(report.store[0].to_string(),
    ///     "serves wake-ups, queue, readers, conversions, joint holders, permits, values, inspection");
    /// ```
    #[must_use]
    pub fn promising(mut self, name: &str, store: &dyn Backend) -> Self {
        let (limits, capabilities) = (store.limits(), store.capabilities());
        self.store = facts(limits, &capabilities);
        self.findings.extend(lacking(name, &capabilities));
        self.findings.extend(coarse(name, limits));
        self.sort();
        self
    }
}

/// What an inspection of this store cannot show, in sentences for people. Empty if an inspection shows all.
///
/// # Examples
///
/// ```
/// use lock_core::check::unseen;
/// use lock_core::memory::MemoryBackend;
/// use lock_core::{AnyBackend, Capabilities};
///
/// let store = MemoryBackend::new();
/// assert!(unseen(&store).is_empty());
/// let store = AnyBackend::describing(store, |store| Capabilities::none().inspecting(store).without_queue());
/// assert!(unseen(&store)[0].starts_with("the store has no queue"));
/// ```
pub fn unseen(store: &dyn Backend) -> Vec<String> {
    hidden(store.limits(), &store.capabilities())
}

fn hidden(limits: Limits, capabilities: &Capabilities<'_>) -> Vec<String> {
    let mut unseen = Vec::new();
    if !capabilities.queues() {
        unseen.push("the store has no queue, so no waiter is shown".to_owned());
    } else if !capabilities.watches() {
        unseen.push(
            "waiters that connect in the manner of this client have no place in the queue, and are not shown".to_owned(),
        );
    }
    if limits.lag > Limits::default().lag {
        let lag = limits.lag;
        unseen.push(format!("the store may show a lease or a place for {lag:?} after its end"));
    }
    unseen
}

fn facts(limits: Limits, capabilities: &Capabilities<'_>) -> Vec<Fact> {
    let served: Vec<_> = ALL
        .iter()
        .filter(|(it, _, _)| capabilities.require(*it).is_ok())
        .map(|(_, word, _)| *word)
        .collect();
    let served = if served.is_empty() { "mutexes alone".to_owned() } else { served.join(", ") };
    Examined::new("")
        .with("serves", Some(served))
        .with("shortest-lease", Some(format!("{:?}", limits.min_ttl.duration())))
        .with("lease-step", Some(format!("{:?}", limits.step)))
        .with("claim-within", Some(format!("{:?}", limits.claim.duration())))
        .with("lag", Some(format!("{:?}", limits.lag)))
        .facts
}

fn lacking(name: &str, capabilities: &Capabilities<'_>) -> Vec<Finding> {
    let lacks = |it: &Capability| capabilities.require(*it).is_err();
    let mut findings = Vec::new();
    if lacks(&Capability::Watch) {
        findings.push(
            Finding::new(Severity::Warning, "no-wake-ups", name)
                .because("this client hears of no release and has no place in a queue", ALL[0].2)
                .remedy("give the client a connection that leads to the server itself"),
        );
    }
    let lacked: Vec<_> = ALL[1..].iter().filter(|(it, _, _)| lacks(it)).collect();
    if !lacked.is_empty() {
        let words: Vec<_> = lacked.iter().map(|(_, word, _)| *word).collect();
        let reasons: Vec<_> = lacked.iter().map(|(_, _, so)| *so).collect();
        findings.push(
            Finding::new(Severity::Info, "lacks-capabilities", name)
                .because(format!("the store has no {}", words.join(", no ")), reasons.join("; "))
                .remedy(
                    "nothing, unless the app needs these primitives: then choose another store",
                ),
        );
    }
    findings
}

/// Above these, apps have to know that leases last for longer than they asked.
fn coarse(name: &str, limits: Limits) -> Option<Finding> {
    let (least, step) = (limits.min_ttl.duration(), limits.step);
    if limits.min_ttl <= Ttl::DEFAULT.for_grant() && step <= Ttl::DEFAULT.for_grant().duration() / 2
    {
        return None;
    }
    let what =
        format!("the store counts no lease below {least:?}, and leases in steps of {step:?}");
    let why = "after a holder has died, its key becomes free later than its ttl says";
    Some(Finding::new(Severity::Info, "coarse-leases", name).because(what, why).remedy(
        "nothing: shorter leases are rounded up; choose another store if locks must become free sooner",
    ))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn each_capability_that_is_lacking_is_named_with_what_fails() {
        let found = lacking("a", &Capabilities::none().without_watch().without_queue());
        let codes: Vec<_> = found.iter().map(|it| (it.code, it.severity)).collect();
        assert_eq!(
            codes,
            [("no-wake-ups", Severity::Warning), ("lacks-capabilities", Severity::Info)]
        );
        for (_, word, so) in &ALL[1..] {
            assert!(found[1].finding.contains(word) && found[1].reason.contains(so), "{word}");
        }
        assert_eq!(
            facts(Limits::default(), &Capabilities::none().without_watch().without_queue())[0]
                .value,
            "mutexes alone"
        );
    }

    #[test]
    fn an_inspection_hides_what_the_store_does_not_know_or_knows_late() {
        let (usual, all) = (Limits::default(), Capabilities::none());
        let of = |limits, capabilities| hidden(limits, &capabilities).join("; ");
        assert_eq!(of(usual, all), "");
        assert!(of(usual, all.without_queue().without_watch()).contains("no waiter is shown"));
        assert!(of(usual, all.without_watch()).contains("no place in the queue"));
        let late = usual.with_lag(Duration::from_secs(4));
        assert_eq!(of(late, all), "the store may show a lease or a place for 4s after its end");
    }

    #[test]
    fn long_leases_are_a_finding_and_the_usual_ones_are_none() {
        assert_eq!(coarse("a", Limits::default()), None);
        let seconds = |it| Ttl::new(Duration::from_secs(it)).unwrap();
        let limits = Limits::default().with_min_ttl(seconds(2)).with_step(Duration::from_secs(1));
        assert_eq!(coarse("a", limits).unwrap().code, "coarse-leases");
    }
}
