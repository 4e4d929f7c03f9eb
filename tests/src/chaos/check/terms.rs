//! The facts about a run that its events do not contain.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use lock_core::Instant;

use super::lateness::{SINCE, lateness};
use super::trouble::Trouble;
use super::unrest::Unrest;
use super::{Property, Violation};
use crate::chaos::history::Event;
use crate::chaos::table::{Lasts, Promise, explains, promise};
use crate::chaos::{Deployment, Extent, Fault, Victim};

/// The facts that the checkers need about a run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Terms {
    /// The store of the locks.
    pub deployment: Deployment,
    /// How long leases live.
    pub ttl: Duration,
    /// The longest lease, which is also the quarantine of the nodes of a quorum.
    pub max_ttl: Duration,
    /// The time limit of an operation.
    pub wait_limit: Duration,
    /// How long a request to the store may take until it is answered or given up. This bounds a try, which waits
    /// for nothing else. The memory backend has no time limit, so there it is the length of the longest fault.
    pub request: Duration,
    /// The delay that this machine may add to anything.
    pub slack: Duration,
    /// How long it takes, without an obstacle, until a request that was given up is undone in the store.
    pub undo: Duration,
    /// How long a lock may seem to be held after its release was confirmed.
    pub linger: Duration,
    /// How long a waiter may wait although no task is in the way, while something else is wrong: a timer makes
    /// up for a lost message.
    pub wakeup: Duration,
    /// The same while nothing is wrong: less than any timer, so no timer makes up for anything.
    pub prompt: Duration,
    /// How long after all faults are healed a client may still wait in vain.
    pub recovery: Duration,
    /// Tasks that asked later by less than this may have polled their futures earlier.
    pub margin: Duration,
    /// How often other clients may pass a waiter; `None` if nothing is promised about that.
    pub overtakes: Option<usize>,
    /// The initial number of permits of the semaphores, by name.
    pub limits: BTreeMap<String, u32>,
    /// Locks without an order of tokens and turns: several locks under one name.
    pub unordered: BTreeSet<String>,
    /// Elections: see [`BEGINS_AGAIN`](crate::chaos::table::BEGINS_AGAIN).
    pub elections: BTreeSet<String>,
    /// Stored mutexes.
    pub stored: BTreeSet<String>,
    /// The faults.
    pub troubles: Vec<Trouble>,
    /// When clients stood still, and so could not end what they had begun: name, begin, end.
    pub stood_still: Vec<(String, Instant, Instant)>,
    /// How many grants there must be before the first fault.
    pub traffic: usize,
    /// Until when new connections are opened.
    begun: Instant,
    /// When the machine was late, without a fault, and by how much.
    late: Vec<(Instant, Instant, Duration)>,
}

/// A time in which something is not promised.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) begin: Instant,
    pub(super) end: Instant,
    pub(super) why: &'static str,
    /// The fault behind it; `None` if the machine was late.
    pub(super) fault: Option<Fault>,
}

impl Terms {
    /// The terms of a run without faults, with leases of this length, and with the names of locks in the traffic
    /// of this kit. Every value can be set afterwards.
    pub fn new(deployment: Deployment, ttl: Duration) -> Self {
        let slack = Duration::from_millis(500);
        let limits = [("s0", 3), ("s1", 8), ("l0", 2)];
        // Waiters ask after a third of the time of a place at the latest, and a claim that was granted and does
        // not come may hold them up for the time of a claim.
        let asked = (ttl / 3).max(Duration::from_secs(1)) + ttl.min(Duration::from_secs(1));
        Self {
            deployment,
            ttl,
            max_ttl: ttl,
            wait_limit: Duration::from_secs(10),
            request: Duration::ZERO,
            slack,
            undo: Duration::from_millis(200),
            linger: Duration::from_millis(20),
            wakeup: asked + slack,
            prompt: slack + Duration::from_millis(200),
            recovery: ttl + asked + Duration::from_secs(3),
            margin: Duration::from_millis(30),
            overtakes: None,
            limits: limits.map(|(key, limit)| (key.to_owned(), limit)).into(),
            unordered: BTreeSet::from(["l0".to_owned()]),
            elections: BTreeSet::from(["e0".to_owned()]),
            stored: BTreeSet::from(["v0".to_owned()]),
            troubles: Vec::new(),
            stood_still: Vec::new(),
            traffic: 0,
            begun: Instant::from_nanos(0),
            late: Vec::new(),
        }
    }

    /// How often other clients can pass a waiter if every process releases the lock as soon as another process
    /// waits: each of the earlier tasks in its own client takes a turn, and so does every other client between
    /// two of them.
    pub fn fair_overtakes(clients: usize, tasks: usize) -> usize {
        2 * clients.max(1) * (tasks + 1)
    }

    /// When tasks of a client may be served in another order than that of their requests.
    pub(super) fn disorder(&self, key: &str) -> Unrest {
        let mut windows = self.windows(Property::Order);
        if self.elections.contains(key) {
            windows.extend(self.windows(Property::Errors));
        }
        Unrest::of(windows.iter().map(|window| (window.begin, window.end)).collect())
    }

    /// As above, with the recorded lateness of the machine.
    pub(super) fn hearing(&self, events: &[Event]) -> Self {
        let mut terms = self.clone();
        terms.late = lateness(events, &self.stood_still)
            .map(|(event, late)| (event.at - SINCE - late, event.at + self.undo, late))
            .collect();
        if let Some(first) = events.first() {
            terms.begun = first.at + OPENS;
        }
        terms
    }

    /// The terms for one client, with only those faults that it may see.
    pub(super) fn of_client(&self, client: &str) -> Self {
        let mut terms = self.clone();
        terms.troubles.retain(|trouble| trouble.befalls(client));
        terms
    }

    /// The terms for a machine that was never late.
    pub(super) fn in_time(mut self) -> Self {
        self.late.clear();
        self
    }

    /// How long after the end of the last fault every promise shows again. Promises that never hold again do not
    /// show.
    pub fn settles(&self) -> Duration {
        let last = self.troubles.iter().map(|trouble| trouble.end).max();
        let Some(last) = last.filter(|last| *last < Instant::FAR_FUTURE) else {
            return self.recovery;
        };
        let windows = self.windows(Property::Recovery);
        let ends = windows.iter().map(|window| window.end).filter(|end| *end < Instant::FAR_FUTURE);
        let calm = ends.max().unwrap_or(last).max(last);
        calm.saturating_duration_since(last) + self.recovery + self.slack
    }

    /// The part of the time between these in which the machine was too late to judge the service.
    pub(super) fn share_of_lateness(&self, begin: Instant, end: Instant) -> Duration {
        let late = self.late.iter().filter(|(.., late)| *late >= self.slack / 2);
        let late = late.map(|&(from, until, _)| (from.max(begin), until.min(end)));
        let late = Unrest::of(late.filter(|(from, until)| from < until).collect());
        late.times().iter().map(|(from, until)| until.saturating_duration_since(*from)).sum()
    }

    /// The times in which anything was wrong that may keep a waiter waiting, or in which the machine was too
    /// late.
    pub(super) fn disquiet(&self) -> Unrest {
        let quorum = matches!(self.deployment, Deployment::Quorum(_));
        let lasts = if quorum { Lasts::Quarantine } else { Lasts::Lease };
        let wrong = self.troubles.iter();
        // A client whose subscription was refused tries it again after a while.
        let refused = |trouble: &Trouble| match trouble.fault {
            Fault::RevokeRights => LISTENS_AGAIN,
            _ => Duration::ZERO,
        };
        let wrong = wrong
            .map(|trouble| (trouble.begin, trouble.end + self.after(lasts) + refused(trouble)));
        let late = self.late.iter().filter(|(.., late)| *late >= self.slack / 4);
        let late = late.map(|&(begin, end, _)| (begin, end));
        let windows = self.windows(Property::Wakeups);
        let windows = windows.iter().map(|window| (window.begin, window.end));
        let begin = [(Instant::from_nanos(0), self.begun)];
        Unrest::of(wrong.chain(late).chain(windows).chain(begin).collect())
    }

    /// The excuse of this violation, if there is one.
    ///
    /// Checkers that look for what does *not* happen leave out the times in which it need not happen; their
    /// reports are not excused a second time.
    pub fn excuse(&self, violation: &Violation) -> Option<&'static str> {
        Excuses::new(self).find(violation)
    }

    /// Whether a fault explains a failure of this kind, in an operation of that time.
    pub(super) fn explained(&self, kind: &str, begin: Instant, end: Instant) -> bool {
        let by_fault = self.windows(Property::Errors).iter().any(|window| {
            begin <= window.end
                && window.begin <= end
                && match window.fault {
                    Some(fault) => explains(fault, kind),
                    None => OF_LATENESS.contains(&kind),
                }
        });
        by_fault || OF_LATENESS.contains(&kind) && self.drags(begin, end)
    }

    /// Whether the machine was late by little, but for so much of the time before that it adds up: an answer
    /// passes through several threads, and a lost one is looked for again after a while.
    fn drags(&self, begin: Instant, end: Instant) -> bool {
        const BEFORE: Duration = Duration::from_secs(2);

        let late =
            self.late.iter().filter(|(from, until, _)| begin - BEFORE <= *until && *from <= end);
        late.map(|(.., late)| *late).sum::<Duration>() >= self.slack / 2
    }

    /// The times in which this property is not promised.
    pub(super) fn windows(&self, property: Property) -> Vec<Window> {
        let alone = self
            .troubles
            .iter()
            .filter_map(|trouble| self.window(trouble, trouble.extent, property));
        let mut windows: Vec<_> = alone.chain(self.combined(property)).collect();
        windows.extend(self.set_back(property));
        windows.extend(self.missed(property));
        if let Some(least) = self.least_lateness(property) {
            let late = self.late.iter().filter(|(.., late)| *late >= least);
            let why = "the machine was late";
            windows.extend(late.map(|&(begin, end, _)| Window { begin, end, why, fault: None }));
        }
        windows
    }

    /// Those times, merged so that no two overlap.
    pub(super) fn unrest(&self, property: Property) -> Unrest {
        Unrest::of(self.windows(property).iter().map(|window| (window.begin, window.end)).collect())
    }

    fn window(&self, trouble: &Trouble, extent: Extent, property: Property) -> Option<Window> {
        match promise(self.deployment, trouble.fault, extent, property) {
            Promise::Holds => None,
            Promise::Excluded(why, lasts) => Some(Window {
                begin: trouble.begin,
                end: trouble.end + self.after(lasts),
                why,
                fault: Some(trouble.fault),
            }),
        }
    }

    /// Faults that concern fewer than half of the servers each, and more together.
    fn combined(&self, property: Property) -> Vec<Window> {
        let hits =
            |trouble: &&Trouble| matches!(trouble.fault.victim(), Victim::Server | Victim::Link);
        let all: Vec<(&Trouble, Window)> = self
            .troubles
            .iter()
            .filter(hits)
            .filter_map(|trouble| {
                Some((trouble, self.window(trouble, Extent::Majority, property)?))
            })
            .collect();
        let mut borders: Vec<Instant> =
            all.iter().flat_map(|(_, window)| [window.begin, window.end]).collect();
        borders.sort_unstable();
        borders.dedup();
        let mut windows = Vec::new();
        for pair in borders.windows(2) {
            let (begin, end) = (pair[0], pair[1]);
            let here = all.iter().filter(|(_, w)| w.begin <= begin && end <= w.end);
            let servers: BTreeSet<usize> =
                here.clone().flat_map(|(trouble, _)| trouble.servers.iter().copied()).collect();
            if servers.len() > self.deployment.minority() {
                windows.extend(here.map(|(_, window)| Window { begin, end, ..*window }));
            }
        }
        windows
    }

    /// The lateness from which on the machine may break this property: the lateness that its time limits allow.
    fn least_lateness(&self, property: Property) -> Option<Duration> {
        use Property::{Errors, Order, Overtaking, Recovery, Tries, Wakeups};

        match property {
            Order | Tries => Some(Duration::ZERO),
            // The shortest time limit of any answer.
            Errors => Some(self.slack / 5),
            Overtaking | Recovery | Wakeups => Some(self.slack / 2),
            _ => None,
        }
    }

    fn after(&self, lasts: Lasts) -> Duration {
        lasts.after(self.ttl, self.max_ttl, self.slack)
    }

    /// Until when the store may keep a claim that was given up at that time.
    pub(super) fn undone(&self, at: Instant, unrest: &Unrest) -> Instant {
        let undo = at + self.undo;
        if unrest.touches(at, undo) { at + self.lingers() } else { undo }
    }

    /// How long the store may keep something for a client that has gone, including its lease.
    pub(super) fn lingers(&self) -> Duration {
        self.ttl + self.slack
    }
}

/// How long the first connections of all clients may take at the beginning of a run.
const OPENS: Duration = Duration::from_secs(2);

/// The longest time until a client whose subscription was refused listens again: once for the process and once
/// for each lock, one after the other.
const LISTENS_AGAIN: Duration = Duration::from_secs(10);

/// The errors of requests whose answers come too late.
const OF_LATENESS: &[&str] = &["Timeout", "Unreachable", "NotReady"];

/// The excuses: the windows of each property that was asked for.
pub(super) struct Excuses<'a> {
    terms: &'a Terms,
    windows: HashMap<Property, Vec<Window>>,
}

impl<'a> Excuses<'a> {
    pub(super) fn new(terms: &'a Terms) -> Self {
        Self { terms, windows: HashMap::new() }
    }

    pub(super) fn find(&mut self, violation: &Violation) -> Option<&'static str> {
        use Property::{Errors, Recovery, Tries, Wakeups};

        let property = violation.property;
        if matches!(property, Errors | Recovery | Tries | Wakeups) {
            return None;
        }
        let windows = self.windows.entry(property).or_insert_with(|| self.terms.windows(property));
        // A cause that comes later does not explain it.
        let covers = |window: &&Window| window.begin <= violation.at && violation.at <= window.end;
        windows.iter().find(covers).map(|window| window.why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chaos::history::Deed;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    fn trouble(fault: Fault, servers: &[usize], begin: u64, end: u64) -> Trouble {
        let (begin, end, extent) = (at(begin), at(end), Extent::Minority);
        Trouble { fault, extent, servers: servers.to_vec(), workers: vec![], begin, end }
    }

    fn violation(property: Property, when: u64) -> Violation {
        Violation::new(property, (at(when), at(when)), "m0", String::new())
    }

    #[test]
    fn what_fails_excuses_what_it_breaks_for_as_long_as_it_shows() {
        let mut terms = Terms::new(Deployment::Redis, Duration::from_secs(1));
        terms.troubles = vec![trouble(Fault::Flush, &[0], 5_000, 5_000)];
        let excused = |property, when| terms.excuse(&violation(property, when)).is_some();
        assert!(!excused(Property::Exclusion, 4_999));
        assert!(excused(Property::Exclusion, 5_000) && excused(Property::Exclusion, 6_500));
        assert!(!excused(Property::Exclusion, 9_000));
        assert!(!excused(Property::Order, 5_500));
    }

    #[test]
    fn two_minorities_at_once_may_be_a_majority() {
        let mut terms = Terms::new(Deployment::Quorum(3), Duration::from_secs(1));
        let touched =
            |terms: &Terms, when| terms.unrest(Property::Wakeups).touches(at(when), at(when));
        let links = |second: u64| {
            vec![
                trouble(Fault::Partition, &[0], 5_000, 6_000),
                trouble(Fault::Partition, &[1], second, second + 1_000),
            ]
        };
        terms.troubles = links(5_500);
        assert!(touched(&terms, 6_000) && !touched(&terms, 5_200));
        terms.troubles = links(20_000);
        assert!(!touched(&terms, 6_000) && !touched(&terms, 20_500));
        // The same server a second time.
        terms.troubles = vec![
            trouble(Fault::Partition, &[0], 5_000, 6_000),
            trouble(Fault::Partition, &[0], 5_500, 6_000),
        ];
        assert!(!touched(&terms, 5_700));
    }

    #[test]
    fn tokens_of_a_clock_that_was_ahead_are_above_those_after_they_were_forgotten() {
        let mut terms = Terms::new(Deployment::Redis, Duration::from_secs(1));
        let jump = trouble(Fault::ClockJump, &[0], 5_000, 6_000);
        terms.troubles = vec![jump, trouble(Fault::Flush, &[0], 20_000, 20_000)];
        assert!(terms.excuse(&violation(Property::Tokens, 90_000)).is_some());
        assert!(terms.excuse(&violation(Property::Exclusion, 90_000)).is_none());
        terms.troubles.reverse();
        terms.troubles[0].begin = at(1_000);
        terms.troubles[0].end = at(1_000);
        assert!(terms.excuse(&violation(Property::Tokens, 90_000)).is_none());
    }

    #[test]
    fn a_node_that_sits_out_and_one_that_is_dead_stop_a_quorum_but_do_not_break_it() {
        let mut terms = Terms::new(Deployment::Quorum(3), Duration::from_secs(1));
        terms.max_ttl = Duration::from_secs(10);
        terms.troubles = vec![
            trouble(Fault::KillEmpty, &[0], 5_000, 5_100),
            trouble(Fault::StopServer, &[1], 12_000, 13_000),
        ];
        assert!(terms.unrest(Property::Wakeups).touches(at(12_500), at(12_500)));
        assert!(!terms.unrest(Property::Wakeups).touches(at(0), at(11_500)));
        assert!(terms.excuse(&violation(Property::Exclusion, 12_500)).is_none());
    }

    #[test]
    fn a_fault_of_a_link_or_worker_befalls_its_clients_and_one_of_a_server_befalls_all() {
        let mut partition = trouble(Fault::Partition, &[0], 5_000, 6_000);
        partition.workers = vec![2, 11];
        let seen = ["w2", "w2-3", "w11", "m.2", "w1", "w22", "m.1"].map(|it| partition.befalls(it));
        assert_eq!(seen, [true, true, true, true, false, false, false]);
        assert!(trouble(Fault::Flush, &[0], 1, 2).befalls("w1"));
        let stopped = Trouble { fault: Fault::StopWorker, ..partition.clone() };
        assert!(stopped.befalls("m.1") && !stopped.befalls("w1"));
        let mut terms = Terms::new(Deployment::Redis, Duration::from_secs(1));
        terms.troubles = vec![partition];
        let explained =
            |client| terms.of_client(client).explained("Unreachable", at(5_500), at(5_600));
        assert!(explained("w2") && !explained("w1"));
    }

    #[test]
    fn a_run_lasts_until_what_is_promised_after_the_last_fault_was_seen() {
        let mut terms = Terms::new(Deployment::Quorum(3), Duration::from_secs(1));
        assert_eq!(terms.settles(), terms.recovery);
        terms.troubles = vec![trouble(Fault::StopServer, &[0], 5_000, 6_000)];
        let after_a_minority = terms.settles();
        terms.troubles[0].extent = Extent::Majority;
        assert!(terms.settles() >= after_a_minority + terms.ttl);
        terms.troubles.push(trouble(Fault::ClockJump, &[0, 1], 4_000, 4_000));
        terms.troubles[1].extent = Extent::Majority;
        assert!(terms.settles() < Duration::from_secs(60));
    }

    #[test]
    fn a_machine_that_is_late_explains_what_is_late_and_a_client_that_was_stopped_does_not() {
        let late = |client: &str, millis| {
            let deed = Deed::Late { millis };
            [Event { at: at(5_000), client: client.to_owned(), deed }]
        };
        let mut terms = Terms::new(Deployment::Redis, Duration::from_secs(1));
        let touched =
            |terms: &Terms, property| terms.unrest(property).touches(at(4_950), at(4_960));
        let little = terms.hearing(&late("w1", 60));
        assert!(touched(&little, Property::Order) && !touched(&little, Property::Wakeups));
        assert!(!touched(&little, Property::Exclusion));
        let explained = |terms: &Terms, kind| terms.explained(kind, at(4_950), at(4_960));
        let more = terms.hearing(&late("w1", 120));
        assert!(explained(&more, "Timeout") && !explained(&more, "Denied"));
        assert!(!explained(&little, "Timeout"));
        let often: Vec<_> = (0..6).flat_map(|_| late("w1", 60)).collect();
        assert!(explained(&terms.hearing(&often), "NotReady"));
        assert!(!explained(&terms.hearing(&often), "Protocol"));
        assert!(touched(&terms.hearing(&late("w1", 600)), Property::Wakeups));
        terms.stood_still = vec![("w1".to_owned(), at(4_000), at(4_960))];
        assert!(!touched(&terms.hearing(&late("w1", 600)), Property::Wakeups));
        assert!(!touched(&terms.hearing(&late("w1.2", 600)), Property::Wakeups));
        assert!(touched(&terms.hearing(&late("w1-2", 600)), Property::Wakeups));
    }

    #[test]
    fn only_errors_that_a_fault_explains_are_explained() {
        let mut terms = Terms::new(Deployment::Redis, Duration::from_secs(1));
        terms.troubles = vec![trouble(Fault::RevokeRights, &[0], 5_000, 6_000)];
        assert!(terms.explained("Denied", at(5_500), at(5_600)));
        assert!(!terms.explained("Protocol", at(5_500), at(5_600)));
        assert!(!terms.explained("Denied", at(4_000), at(4_500)));
    }
}
