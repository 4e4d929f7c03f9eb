mod leaving;
mod limits;

use std::collections::HashSet;
use std::num::NonZeroU32;
use std::time::Duration;

use lock_core::document::{Document, Visit};
use lock_core::{
    Acquire, AcquireOutcome, Claim, Convert, Instant, Key, Mode, OwnerToken, Released, Renew,
    Renewal, Ttl,
};

use super::forced::end_all;
use super::plan::{Ask, Held, Known, Placed, Plan, World, plan};
use super::transaction::{Terms, write};
use super::turns::Seen;
use crate::link::Operation;
use crate::member::Member;
use crate::naming::Names;
use crate::news::What;

const NOW: Instant = Instant::from_nanos(1 << 40);

/// The clients and the document of one key.
#[derive(Default)]
struct Stage {
    known: Known,
    over: HashSet<i64>,
}

fn claim(owner: u8) -> Claim {
    Claim::exclusive(Key::new("a").unwrap(), OwnerToken::from_bytes([owner; 16]))
}

fn request(owner: u8) -> Acquire {
    Acquire::new(claim(owner), Ttl::DEFAULT)
}

impl Stage {
    /// Decides a request of the client with this session, and writes the document.
    fn decide<T>(
        &mut self,
        session: Option<i64>,
        ask: Ask<'_>,
        lease: Option<i64>,
        act: impl FnOnce(&mut Document<Member>, &mut Visit<'_, Member>) -> T,
    ) -> Plan<T> {
        let world = World {
            session,
            listens: session.is_some(),
            over: &self.over,
            queue_limit: NonZeroU32::new(1_000).unwrap(),
            number: u32::try_from(self.known.revision).unwrap(),
            wall: 7,
            claim: Duration::from_secs(3),
            now: NOW,
        };
        let decided = plan(&self.known, &ask, &world, lease, act).unwrap();
        let revision = self.known.revision + 1;
        self.known = Known { revision, bytes: decided.bytes.clone() };
        decided
    }

    fn acquire(
        &mut self,
        session: Option<i64>,
        request: &Acquire,
        lease: Option<i64>,
    ) -> Plan<AcquireOutcome> {
        let ask = Ask::of(&request.claim).waiting(request);
        self.decide(session, ask, lease, |document, visit| {
            document.acquire(request, visit).unwrap()
        })
    }

    fn release(&mut self, session: Option<i64>, owner: u8) -> Plan<Released> {
        let claim = claim(owner);
        self.decide(session, Ask::of(&claim), None, |document, visit| {
            document.release(&claim, visit)
        })
    }
}

fn told<T>(plan: &Plan<T>, session: i64) -> Vec<What> {
    plan.told.get(&session).into_iter().flatten().map(|news| news.what.clone()).collect()
}

#[test]
fn a_new_claim_needs_a_lease_and_gives_it_back() {
    let mut stage = Stage::default();
    let without = stage.acquire(None, &request(1), None);
    assert_eq!(without.held, Some(Held { lease: None, seconds: 30, is_old: false }));
    stage.known = Known::default();
    let granted = stage.acquire(None, &request(1), Some(70));
    assert_eq!(granted.held, Some(Held { lease: Some(70), seconds: 30, is_old: false }));
    assert!(granted.is_changed && granted.own.is_empty() && granted.counted.is_empty());
    assert_eq!(granted.placed, None);

    // A repetition keeps the lease, and relies on it. It writes nothing.
    let again = stage.acquire(None, &request(1), None);
    assert_eq!(again.held, Some(Held { lease: Some(70), seconds: 30, is_old: true }));
    assert!(!again.is_changed && again.own.contains(&70) && again.counted.contains(&70));

    let released = stage.release(None, 1);
    assert_eq!(released.answer, Released::Freed { told: 0 });
    assert_eq!((released.freed, released.held), (vec![70], None));
    assert!(released.bell.rings() && released.own.contains(&70));
    assert!(released.document.is_at_rest());
}

/// A writer may get the key between the end of the readers' leases and the change of the document. The readers hear of
/// the end nevertheless.
#[test]
fn a_forced_release_tells_holders_that_a_waiter_has_followed() {
    let mut stage = Stage::default();
    let reader = |owner| {
        let Acquire { claim, ttl, .. } = request(owner);
        Acquire::new(claim.in_mode(Mode::Shared), ttl)
    };
    stage.acquire(None, &reader(1), Some(70));
    let owners = HashSet::from([reader(1).claim.owner]);
    stage.over.insert(70);
    let granted = stage.acquire(None, &request(2), Some(71));
    assert!(matches!(granted.answer, AcquireOutcome::Granted(_)), "{:?}", granted.answer);
    let key = claim(2).key;
    let force = |document: &mut Document<Member>, visit: &mut Visit<'_, Member>| {
        end_all(document, &owners, visit)
    };
    let forced = stage.decide(None, Ask::about(&key), None, force);
    assert_eq!(forced.answer, Some(0));
    assert!(forced.bell.rings(), "the reader does not hear of its end");
    assert!(forced.document.holder(&claim(2)).is_some(), "the writer keeps the key");
}

#[test]
fn a_renewal_for_another_time_needs_another_lease() {
    let mut stage = Stage::default();
    stage.acquire(None, &request(1), Some(70));
    let claim = claim(1);
    let mut renew = |seconds, lease| {
        let ttl = Ttl::new(Duration::from_millis(seconds)).unwrap();
        let request = Renew::new(claim.clone(), ttl);
        let plan = stage.decide(None, Ask::of(&claim), lease, |document, visit| {
            document.renew(&request, visit)
        });
        assert!(matches!(plan.answer, Renewal::Renewed { .. }));
        (plan.held.unwrap(), plan.freed)
    };
    let held = |lease, seconds, is_old| Held { lease, seconds, is_old };
    // The same whole seconds.
    assert_eq!(renew(29_500, None), (held(Some(70), 30, true), vec![]));
    assert_eq!(renew(10_000, Some(71)), (held(Some(71), 10, false), vec![70]));
    assert_eq!(renew(11_000, None), (held(None, 11, true), vec![]));
}

#[test]
fn a_waiter_is_handed_the_key_and_claims_it() {
    let mut stage = Stage::default();
    stage.acquire(Some(8), &request(1), Some(70));
    let queued = stage.acquire(Some(9), &request(2).queued(), None);
    assert!(matches!(queued.answer, AcquireOutcome::Queued { .. }));
    assert_eq!(queued.placed, Some(Placed { number: Some(1), before: vec![70] }));
    // The holder hears that the key is wanted, and both sessions have to live.
    assert_eq!(told(&queued, 8), [What::Contended]);
    assert!(queued.own.contains(&9) && queued.others.contains(&8));
    let again = stage.acquire(Some(9), &request(2).queued(), None);
    assert!(!again.is_changed, "a place that is kept is not written again");
    let second = stage.acquire(Some(10), &request(3).queued(), None);
    assert_eq!(second.placed, Some(Placed { number: Some(3), before: vec![] }));

    let released = stage.release(Some(8), 1);
    assert!(matches!(told(&released, 9)[..], [What::Granted { .. }]));
    let after = Duration::from_secs(3);
    let owner = claim(3).owner;
    assert_eq!(told(&released, 10), [What::Next { owner, after }]);
    assert!(!released.bell.rings(), "the others sleep on");
    assert!(released.others.contains(&9) && released.others.contains(&10));

    let claimed = stage.acquire(Some(9), &request(2).queued(), Some(71));
    assert!(matches!(claimed.answer, AcquireOutcome::Granted(_)));
    assert_eq!(claimed.held, Some(Held { lease: Some(71), seconds: 30, is_old: false }));
    assert!(claimed.own.contains(&9) && claimed.counted.contains(&9));
    assert_eq!((claimed.placed, claimed.freed), (None, vec![]));
}

#[test]
fn who_is_over_is_passed_over() {
    let mut stage = Stage::default();
    stage.acquire(Some(8), &request(1), Some(70));
    stage.acquire(Some(9), &request(2).queued(), None);
    stage.acquire(Some(10), &request(3).queued(), None);
    stage.over.extend([9, 70]);
    let granted = stage.acquire(Some(10), &request(3).queued(), Some(71));
    assert!(matches!(granted.answer, AcquireOutcome::Granted(_)), "{:?}", granted.answer);
    assert_eq!(granted.document.waiters().count(), 0);
    assert!(granted.counted.is_empty() && granted.freed.is_empty());
}

#[test]
fn a_place_ends_alone_and_the_next_in_line_is_told() {
    let mut stage = Stage::default();
    stage.acquire(Some(8), &request(1), Some(70));
    let placed = stage.acquire(Some(9), &request(2).queued(), None).placed;
    stage.acquire(Some(10), &request(3).queued(), None);
    stage.release(Some(8), 1);
    // The waiter has not claimed the grant.
    let (waiting, key) = (claim(2), claim(2).key);
    let ending = placed.and_then(|placed| placed.number).map(|number| (&waiting, number));
    for (session, ends) in [(10, false), (9, true)] {
        let ask = Ask { ending, ..Ask::about(&key) };
        let plan = stage.decide(Some(session), ask, None, |_, _| ());
        assert_eq!(plan.document.holder(&waiting).is_none(), ends, "{session}");
        assert_eq!(plan.is_changed, ends);
        assert_eq!(told(&plan, 10), [What::Expired]);
        assert_eq!(plan.document.waiters().count(), 1, "its turn comes with its next request");
    }
}

#[test]
fn a_first_claim_that_leaves_tells_its_successor() {
    let mut stage = Stage::default();
    stage.acquire(Some(8), &request(1), Some(70));
    for (session, owner) in [(9, 2), (10, 3), (11, 4)] {
        stage.acquire(Some(session), &request(owner).queued(), None);
    }
    // The last claim looks after no lease.
    assert_eq!(told(&stage.release(Some(11), 4), 10), []);
    assert_eq!(told(&stage.release(Some(9), 2), 10), [What::Expired]);
}

/// An upgrade that waits until a reader has gone.
struct Upgrade {
    stage: Stage,
    held: Claim,
    wanted: Claim,
    reader: Claim,
    queued: Plan<AcquireOutcome>,
}

impl Upgrade {
    /// The upgradable claim has lease 70, and the reader has lease 71.
    fn wait() -> Self {
        let mut stage = Stage::default();
        let held = claim(1).in_mode(Mode::Upgradable);
        stage.acquire(Some(8), &Acquire::new(held.clone(), Ttl::DEFAULT), Some(70));
        let reader = claim(2).in_mode(Mode::Shared);
        stage.acquire(Some(9), &Acquire::new(reader.clone(), Ttl::DEFAULT), Some(71));
        let convert = Convert::new(held.clone(), Mode::Exclusive, Ttl::DEFAULT).queued();
        let wanted = convert.request.clone();
        let ask = Ask { former: Some(&held), ..Ask::of(&wanted.claim).waiting(&wanted) };
        let queued = stage.decide(Some(8), ask, None, |document, visit| {
            document.convert(&convert, visit).unwrap()
        });
        Self { stage, held, wanted: wanted.claim, reader, queued }
    }

    /// The reader goes. Says by which lease the upgraded claim holds the key, for how long, and which leases are free.
    fn end(mut self) -> (Option<i64>, Ttl, Vec<i64>) {
        let act = |document: &mut Document<Member>, visit: &mut Visit<'_, Member>| {
            document.release(&self.reader, visit)
        };
        let released = self.stage.decide(Some(9), Ask::of(&self.reader), None, act);
        let (member, ttl) = released.document.holder(&self.wanted).unwrap();
        (member.lease(), ttl, released.freed)
    }
}

#[test]
fn an_upgrade_keeps_the_lease_that_it_waits_with() {
    let upgrade = Upgrade::wait();
    assert!(matches!(upgrade.queued.answer, AcquireOutcome::Queued { .. }));
    assert_eq!(upgrade.queued.placed, Some(Placed { number: None, before: vec![70, 71] }));
    // The claim holds the key by the lease that its owner renews.
    assert_eq!(upgrade.end(), (Some(70), Ttl::DEFAULT, vec![71]));
}

#[test]
fn an_upgrade_follows_its_lease_to_another_one() {
    let mut upgrade = Upgrade::wait();
    // Its owner renews it for longer, which needs another lease of etcd.
    let renew = Renew::new(upgrade.held.clone(), Ttl::new(Duration::from_secs(300)).unwrap());
    let ask = Ask::of(&upgrade.held);
    let renewed = upgrade
        .stage
        .decide(Some(8), ask, Some(72), |document, visit| document.renew(&renew, visit));
    assert_eq!(renewed.freed, [70]);
    assert_eq!(upgrade.end(), (Some(72), renew.ttl, vec![71]));
}

fn seen(known: &Known) -> Seen {
    let mut seen = Seen::default();
    seen.see(known.clone(), 9);
    seen
}

fn terms<'a>(names: &'a Names, unverified: &[i64], taken: &[(i64, bool)]) -> Terms<'a> {
    let unverified = unverified.iter().copied().collect();
    Terms { names, unverified, taken: taken.to_vec(), retention: 5 }
}

#[test]
fn an_uncontended_pair_is_two_small_transactions() {
    let (names, key) = (Names::new("p".to_owned()), claim(1).key);
    let asks = [Ask::about(&key)];
    let mut stage = Stage::default();
    let before = seen(&stage.known);
    let granted = stage.acquire(None, &request(1), Some(70));
    // A new lease: the document, and the key that shows that the lease lives.
    let writing = write(&asks, &[&before], &[granted], &terms(&names, &[], &[(70, false)]));
    assert_eq!(writing.transaction.compare.len(), 1);
    assert_eq!(writing.transaction.success.len(), 2);
    // If the transaction comes to nothing, the lease has no key, and goes to the next one.
    assert_eq!(writing.transaction.failure.len(), 1);
    let document = Operation::put(names.document(&key), stage.known.bytes.clone(), 0);
    assert_eq!(writing.transaction.success[0], document);

    let (before, held) = (seen(&stage.known), stage.known.clone());
    for lives in [true, false] {
        stage.known = held.clone();
        let mut released = stage.release(None, 1);
        released.trust_clock(|id| lives && id == 70);
        assert_eq!(released.counted.contains(&70), !lives);
        // The document, and the bell.
        let writing = write(&asks, &[&before], &[released], &terms(&names, &[], &[]));
        let compared = writing.transaction.compare.len();
        assert_eq!(compared, 2 - usize::from(lives), "the document, and a lease that may be over");
        assert_eq!(writing.transaction.success.len(), 2);
        assert!(writing.later.is_empty());
    }
}

/// The others may be over, and the claims that wait depend on that.
#[test]
fn a_release_trusts_the_clock_for_no_lease_of_another_holder() {
    let mut stage = Stage::default();
    for (session, owner, lease) in [(8, 1, 70), (9, 2, 71)] {
        let reader = Acquire::new(claim(owner).in_mode(Mode::Shared), Ttl::DEFAULT);
        stage.acquire(Some(session), &reader, Some(lease));
    }
    let reader = claim(1).in_mode(Mode::Shared);
    let act = |document: &mut Document<Member>, visit: &mut Visit<'_, Member>| {
        document.release(&reader, visit)
    };
    let mut released = stage.decide(Some(8), Ask::of(&reader), None, act);
    released.trust_clock(|_| true);
    assert_eq!(released.freed, [70]);
    assert!(released.counted.contains(&71) && !released.counted.contains(&70));
}

#[test]
fn what_is_not_changed_is_written_only_after_a_lost_transaction() {
    let (names, key) = (Names::new("p".to_owned()), claim(1).key);
    let asks = [Ask::about(&key)];
    let mut stage = Stage::default();
    stage.acquire(None, &request(1), Some(70));
    let mut before = seen(&stage.known);
    for is_lost in [false, true] {
        if is_lost {
            before.send();
        }
        let busy = stage.acquire(None, &request(2), None);
        stage.known.revision = 1;
        let writing = write(&asks, &[&before], &[busy], &terms(&names, &[70], &[]));
        let document = Operation::put(names.document(&key), stage.known.bytes.clone(), 0);
        let operations: Vec<_> = is_lost.then_some(document).into_iter().collect();
        assert_eq!(writing.transaction.success, operations);
        assert_eq!(writing.transaction.failure.len(), 2, "the document, and the holder's lease");
    }
}
