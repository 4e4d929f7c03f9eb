//! The record of a node of a quorum, and how it changes. Pure.

use std::time::Duration;

use lock_core::{Ending, Membership, Quarantine, Server, Standing, Terms, Ttl};

/// One run of a cluster: from the election of a leader to the next one. A cluster that has restarted has another
/// leader, and so has one that was forced to go on with fewer members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// The number of the cluster. Clusters that were set up alike have one number.
    pub(super) cluster: u64,
    pub(super) term: u64,
}

/// What a node of a quorum remembers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// The run in which the record was made. In another one it has no meaning.
    pub(super) run: Run,
    /// How many entries of the log had changed no key, at least. In one cluster, this number never falls: an entry
    /// raises the revision by one at most. It falls with a restore from a snapshot, which keeps the revision and begins
    /// another log.
    pub(super) spare: i64,
    /// Tells this run from those of other clusters.
    seed: String,
    quarantine: String,
    /// The longest lease for which a client has vouched. `None` in quarantine.
    most: Option<Ttl>,
    membership: Membership,
    /// The longest lease that any client named in the quarantine.
    longest: Ttl,
    /// Whether the timer of etcd may end the quarantine.
    by_clock: bool,
}

/// What a client wants of a record beside looking at it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change<'a> {
    Nothing,
    /// To replace this membership.
    Reassign(&'a Membership),
    /// To begin a quarantine anew.
    Admit,
}

/// A record as it is to be, and the timer that has to be set.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Next {
    pub(super) record: Record,
    pub(super) timer: Option<Duration>,
}

/// What was found beside the record.
#[derive(Clone, Copy, Debug)]
pub(super) struct World<'a> {
    pub(super) run: Run,
    pub(super) spare: i64,
    /// The quarantine whose timer runs.
    pub(super) timed: Option<&'a str>,
    /// A name that was never given.
    pub(super) name: &'a str,
}

impl Record {
    /// The record that begins a quarantine.
    fn new(world: &World<'_>, terms: &Terms) -> Self {
        Self {
            run: world.run,
            spare: world.spare,
            seed: world.name.to_owned(),
            quarantine: world.name.to_owned(),
            most: None,
            membership: terms.membership.clone(),
            longest: terms.max_ttl,
            by_clock: true,
        }
    }

    /// The text that is stored, and compared.
    pub(super) fn text(&self) -> String {
        let Self { run, spare, seed, quarantine, membership, longest, .. } = self;
        let most = self.most.map_or("-".to_owned(), |ttl| ttl.as_millis().to_string());
        let clock = if self.by_clock { 'c' } else { '-' };
        let (members, longest) = (membership.as_str(), longest.as_millis());
        let Run { cluster, term } = run;
        format!("{cluster:x} {term} {spare} {seed} {quarantine} {most} {members} {longest} {clock}")
    }

    pub(super) fn from_text(text: &str) -> Option<Self> {
        let words: Vec<_> = text.split(' ').collect();
        let [cluster, term, spare, seed, quarantine, most, members, longest, clock] = words[..]
        else {
            return None;
        };
        let ttl = |millis: &str| Ttl::new(Duration::from_millis(millis.parse().ok()?)).ok();
        Some(Self {
            run: Run { cluster: u64::from_str_radix(cluster, 16).ok()?, term: term.parse().ok()? },
            spare: spare.parse().ok()?,
            seed: seed.to_owned(),
            quarantine: quarantine.to_owned(),
            most: if most == "-" { None } else { Some(ttl(most)?) },
            membership: Membership::from_text(members)?,
            longest: ttl(longest)?,
            by_clock: match clock {
                "c" => true,
                "-" => false,
                _ => return None,
            },
        })
    }

    pub(super) fn standing(&self) -> Standing {
        let Run { cluster, term } = self.run;
        let server = Server::new(format!("{cluster:x}-{term}-{}", self.seed));
        let quarantine = Quarantine::new(self.quarantine.clone());
        Standing::new(server, quarantine, self.most, self.membership.clone(), self.text())
    }

    /// The record after a vouch. `None` if another quarantine has begun since.
    pub(super) fn vouched(mut self, quarantine: &Quarantine, max_ttl: Ttl) -> Option<Self> {
        if self.quarantine != quarantine.as_str() {
            return None;
        }
        self.most = self.most.max(Some(max_ttl));
        self.longest = self.longest.max(max_ttl);
        Some(self)
    }
}

/// The record that a client with these terms leaves. `present` is the record of this run, and `former` one of an
/// earlier run.
pub(super) fn stand(
    present: Option<Record>,
    former: Option<Record>,
    world: &World<'_>,
    terms: &Terms,
    change: Change<'_>,
) -> Next {
    let is_new = present.is_none() || matches!(change, Change::Admit);
    let mut record = match (present, former) {
        (Some(record), _) if !is_new => record,
        (Some(record), _) => Record { seed: record.seed, ..Record::new(world, terms) },
        // A restart ends no membership.
        (None, Some(Record { membership, longest, .. })) if !matches!(change, Change::Admit) => {
            let record = Record::new(world, terms);
            Record { membership, longest: longest.max(record.longest), ..record }
        }
        (None, _) => Record::new(world, terms),
    };
    let timer = agree(&mut record, is_new, world, terms);
    if let Change::Reassign(from) = change
        && record.membership == *from
    {
        record.membership = terms.membership.clone();
    }
    Next { record, timer }
}

/// Takes the terms of one more client into account, and ends a quarantine whose time is over. Returns the timer to set.
fn agree(record: &mut Record, is_new: bool, world: &World<'_>, terms: &Terms) -> Option<Duration> {
    if record.most.is_some() {
        return None;
    }
    let is_longer = record.longest < terms.max_ttl;
    record.longest = record.longest.max(terms.max_ttl);
    record.by_clock &= terms.ending != Ending::Never;
    if !record.by_clock {
        return None;
    }
    if is_new || is_longer {
        return Some(2 * record.longest.duration());
    }
    let is_over = world.timed != Some(&*record.quarantine);
    if is_over && terms.ending == Ending::ByClock {
        record.most = Some(record.longest);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: Run = Run { cluster: 0xab, term: 7 };

    fn ttl(seconds: u64) -> Ttl {
        Ttl::new(Duration::from_secs(seconds)).unwrap()
    }

    fn terms(last: &str, seconds: u64) -> Terms {
        Terms::new(Membership::of(["a", "b", last]), ttl(seconds))
    }

    fn world<'a>(timed: Option<&'a str>, name: &'a str) -> World<'a> {
        World { run: RUN, spare: -3, timed, name }
    }

    fn begun(terms: &Terms) -> Record {
        let next = stand(None, None, &world(None, "n1"), terms, Change::Nothing);
        assert_eq!(next.timer, Some(2 * terms.max_ttl.duration()));
        next.record
    }

    fn look(record: &Record, timed: Option<&str>, terms: &Terms) -> Next {
        stand(Some(record.clone()), None, &world(timed, "n2"), terms, Change::Nothing)
    }

    #[test]
    fn records_come_back() {
        let out = begun(&terms("c", 30));
        let never = look(&out, None, &terms("c", 30).ending(Ending::Never)).record;
        let back = out.clone().vouched(&Quarantine::new("n1"), ttl(60)).unwrap();
        for record in [out, never, back] {
            assert_eq!(Record::from_text(&record.text()), Some(record));
        }
        for text in ["", "ab 7 0 s q - ? 1 c", "ab 7 0 s q 0 - 9 c", "ab 7 0 s q - - 9 d"] {
            assert_eq!(Record::from_text(text), None, "{text}");
        }
    }

    #[test]
    fn the_timer_ends_a_quarantine_for_the_longest_lease_that_was_named() {
        let (short, long) = (terms("c", 30), terms("c", 60));
        let out = begun(&short);
        assert_eq!(look(&out, Some("n1"), &short), Next { record: out.clone(), timer: None });
        let longer = look(&out, None, &long);
        assert_eq!((longer.record.most, longer.timer), (None, Some(Duration::from_secs(120))));
        let later = look(&longer.record, None, &short.clone().ending(Ending::Later));
        assert_eq!(later, Next { record: longer.record.clone(), timer: None });
        assert_eq!(look(&longer.record, None, &short).record.most, Some(ttl(60)));
        // The timer of another quarantine counts for nothing.
        assert_eq!(look(&out, Some("n0"), &short).record.most, Some(ttl(30)));
    }

    #[test]
    fn a_client_that_rules_a_clock_out_does_so_for_all() {
        let usual = terms("c", 30);
        let strict = usual.clone().ending(Ending::Never);
        let first = stand(None, None, &world(None, "n1"), &strict, Change::Nothing);
        assert_eq!(first.timer, None);
        for record in [first.record, look(&begun(&usual), None, &strict).record] {
            assert_eq!(look(&record, None, &usual), Next { record: record.clone(), timer: None });
        }
    }

    #[test]
    fn another_run_begins_a_quarantine_and_keeps_the_membership() {
        let voting = begun(&terms("c", 60)).vouched(&Quarantine::new("n1"), ttl(60)).unwrap();
        let next =
            stand(None, Some(voting.clone()), &world(None, "n2"), &terms("d", 30), Change::Nothing);
        let record = next.record;
        assert_eq!((record.most, record.longest), (None, ttl(60)));
        assert_eq!(record.membership, voting.membership);
        assert_ne!(record.standing().server, voting.standing().server);
        assert_ne!(record.standing().quarantine, voting.standing().quarantine);
    }

    #[test]
    fn admitting_begins_a_quarantine_of_this_run() {
        let voting = begun(&terms("c", 60)).vouched(&Quarantine::new("n1"), ttl(60)).unwrap();
        let new = terms("d", 30);
        let next = stand(Some(voting.clone()), None, &world(None, "n2"), &new, Change::Admit);
        let (before, after) = (voting.standing(), next.record.standing());
        assert_eq!((after.max_ttl, after.membership), (None, new.membership));
        assert_eq!(after.server, before.server);
        assert_ne!(after.quarantine, before.quarantine);
    }

    #[test]
    fn only_the_named_membership_is_replaced() {
        let (old, new) = (terms("c", 30), terms("d", 30));
        let record = begun(&old);
        let reassign = |from: &Membership| {
            let world = world(Some("n1"), "n2");
            let change = Change::Reassign(from);
            stand(Some(record.clone()), None, &world, &new, change).record.membership
        };
        assert_eq!(reassign(&old.membership), new.membership);
        assert_eq!(reassign(&Membership::none()), old.membership);
    }

    #[test]
    fn a_vouch_for_another_quarantine_counts_for_nothing_and_a_shorter_one_shortens_nothing() {
        let out = begun(&terms("c", 30));
        assert_eq!(out.clone().vouched(&Quarantine::new("n0"), ttl(60)), None);
        let vouch = |record: Record, seconds| record.vouched(&Quarantine::new("n1"), ttl(seconds));
        let voting = vouch(out, 60).unwrap();
        assert_eq!(vouch(voting, 30).unwrap().most, Some(ttl(60)));
    }
}
