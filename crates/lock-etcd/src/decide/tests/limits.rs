//! What etcd takes in one transaction.

use lock_core::document::{Document, Visit};
use lock_core::{
    Acquire, AcquireOutcome, Cell, Claim, ErrorKind, FencingToken, Key, Mode, Renew, Renewal, Ttl,
};

use super::{Stage, claim, request, seen, terms};
use crate::decide::plan::{Ask, check_room};
use crate::decide::transaction::{ETCD, NEWS, most, write};
use crate::decide::turns::Seen;
use crate::member::Member;
use crate::naming::Names;

#[test]
fn a_transaction_for_many_waiters_stays_within_the_limits_of_etcd() {
    let (names, key) = (Names::new("p".to_owned()), claim(1).key);
    let mut stage = Stage::default();
    stage.acquire(Some(8), &request(1), Some(70));
    for owner in 2..200 {
        let reader = Acquire::new(claim(owner).in_mode(Mode::Shared), Ttl::DEFAULT).queued();
        stage.acquire(Some(1000 + i64::from(owner)), &reader, None);
    }
    let before = seen(&stage.known);
    let released = stage.release(Some(8), 1);
    assert_eq!((released.told.len(), released.document.holders().count()), (198, 198));
    let unverified: Vec<i64> = (0..i64::try_from(most(1)).unwrap()).collect();
    let terms = terms(&names, &unverified, &[(71, false)]);
    let writing = write(&[Ask::about(&key)], &[&before], &[released], &terms);
    let transaction = &writing.transaction;
    assert!(transaction.compare.len() <= ETCD, "{}", transaction.compare.len());
    assert!(transaction.success.len() <= ETCD && transaction.failure.len() <= ETCD);
    assert_eq!(writing.later.len(), 198 - 48);
}

/// As many keys as one step takes. Behind each holder, which has a lease already, many clients wait.
#[test]
fn a_transaction_about_many_keys_stays_within_the_limits_of_etcd() {
    let names = Names::new("p".to_owned());
    let keys: Vec<Key> = (0..24).map(|index| Key::new(format!("key {index}")).unwrap()).collect();
    let (mut asks, mut seen, mut plans, mut taken) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (index, key) in (0..).zip(&keys) {
        let on = |owner| Claim::exclusive(key.clone(), claim(owner).owner);
        let mut stage = Stage::default();
        stage.acquire(Some(8), &Acquire::new(on(1), Ttl::DEFAULT), Some(100 + index));
        for owner in 2..10 {
            let reader = Acquire::new(on(owner).in_mode(Mode::Shared), Ttl::DEFAULT).queued();
            stage.acquire(Some(1000 + 10 * index + i64::from(owner)), &reader, None);
        }
        asks.push(Ask::about(key));
        seen.push(super::seen(&stage.known));
        let (claim, lease) = (on(1), 200 + index);
        let ask = Ask::of(&claim);
        let release = |document: &mut Document<Member>, visit: &mut Visit<'_, Member>| {
            document.release(&claim, visit)
        };
        plans.push(stage.decide(Some(8), ask, Some(lease), release));
        taken.push((lease, index % 2 == 0));
    }
    let unverified: Vec<i64> = (0..i64::try_from(most(24)).unwrap()).collect();
    let before: Vec<&Seen> = seen.iter().collect();
    let writing = write(&asks, &before, &plans, &terms(&names, &unverified, &taken));
    let transaction = &writing.transaction;
    assert!(transaction.compare.len() <= ETCD, "{}", transaction.compare.len());
    assert!(transaction.success.len() <= ETCD && transaction.failure.len() <= ETCD);
    assert_eq!(writing.later.len(), 24 * 8 - most(24));
}

#[test]
fn a_holder_renews_and_stores_by_its_own_lease_alone() {
    let mut stage = Stage::default();
    let permit = |owner| claim(owner).in_mode(Mode::Permits { take: 1, of: 100 });
    for owner in 1..=100 {
        stage.acquire(None, &Acquire::new(permit(owner), Ttl::DEFAULT), Some(i64::from(owner)));
    }
    let (claim, renew) = (permit(7), Renew::new(permit(7), Ttl::DEFAULT));
    let plan = stage.decide(None, Ask::of_holder(&claim), None, |document, visit| {
        document.renew(&renew, visit)
    });
    assert!(matches!(plan.answer, Renewal::Renewed { .. }));
    assert_eq!(plan.counted.into_iter().collect::<Vec<_>>(), [7]);
    // A further permit depends on all of them.
    let busy = stage.acquire(None, &Acquire::new(permit(101), Ttl::DEFAULT), Some(101));
    assert_eq!((busy.counted.len(), busy.is_changed), (100, false));
}

#[test]
fn a_document_without_room_takes_no_newcomer_and_loses_no_holder() {
    const LONGEST: usize = 500;
    let mut stage = Stage::default();
    stage.acquire(Some(8), &request(1), Some(70));
    let mut owner = 1;
    let refused = loop {
        owner += 1;
        let plan = stage.acquire(Some(i64::from(owner)), &request(owner).queued(), None);
        if let Err(error) = check_room(&[plan], LONGEST) {
            break error;
        }
    };
    assert_eq!(refused.kind(), ErrorKind::QueueFull);
    assert!(owner > 5);

    let (holder, value) = (claim(1), [7; LONGEST]);
    let token = FencingToken::new(u64::MAX);
    let store = |document: &mut Document<Member>, visit: &mut Visit<'_, Member>| {
        document.store(&holder, token, Some(&value), visit)
    };
    let plan = stage.decide(Some(8), Ask::of_holder(&holder), None, store);
    assert!(plan.bytes.len() > 2 * LONGEST && check_room(&[plan], LONGEST).is_ok());
    let renew = Renew::new(claim(1), Ttl::DEFAULT);
    let plan = stage.decide(Some(8), Ask::of_holder(&holder), None, |document, visit| {
        document.renew(&renew, visit)
    });
    assert!(check_room(&[plan], LONGEST).is_ok());
    // The first waiter becomes the holder, and claims its grant.
    assert!(check_room(&[stage.release(Some(8), 1)], LONGEST).is_ok());
    let claimed = stage.acquire(Some(2), &request(2).queued(), Some(71));
    assert!(matches!(claimed.answer, AcquireOutcome::Granted(_)));
    assert!(claimed.is_changed && check_room(&[claimed], LONGEST).is_ok());
}

#[test]
fn documents_that_are_too_long_together_are_not_written_together() {
    let [one, other] = [(); 2].map(|()| Stage::default().acquire(None, &request(1), Some(70)));
    let len = one.bytes.len();
    assert!(check_room(std::slice::from_ref(&one), len).is_ok());
    assert!(check_room(&[one, other], len).is_err());
}

/// Each piece of the news brings the value.
#[test]
fn news_for_which_a_transaction_is_too_short_follow_it() {
    let (names, key) = (Names::new("p".to_owned()), claim(1).key);
    let (holder, value) = (claim(1), vec![7; Cell::MAX_LEN]);
    let mut stage = Stage::default();
    stage.acquire(Some(8), &request(1), Some(70));
    let token = FencingToken::new(u64::MAX);
    stage.decide(Some(8), Ask::of_holder(&holder), None, |document, visit| {
        document.store(&holder, token, Some(&value), visit)
    });
    for owner in 2..42 {
        let reader = Acquire::new(claim(owner).in_mode(Mode::Shared), Ttl::DEFAULT);
        stage.acquire(Some(i64::from(9 + owner % 2)), &reader.queued().with_value(), None);
    }
    let before = seen(&stage.known);
    let released = stage.release(Some(8), 1);
    let writing = write(&[Ask::about(&key)], &[&before], &[released], &terms(&names, &[], &[]));
    let values = writing.transaction.success.iter().map(prost::Message::encoded_len);
    let bytes: usize = values.sum();
    assert!(bytes < Cell::MAX_LEN + NEWS + 10_000, "{bytes}");
    assert_eq!(writing.later.values().map(Vec::len).sum::<usize>(), 40 - 3);
}

#[test]
fn a_renewal_in_a_full_store_writes_nothing() {
    let mut stage = Stage::default();
    let permit = |owner| claim(owner).in_mode(Mode::Permits { take: 1, of: 100 });
    for owner in 1..=2 {
        stage.acquire(Some(8), &Acquire::new(permit(owner), Ttl::DEFAULT), Some(i64::from(owner)));
    }
    // The other holder is known to be dead, and the session of this client is another one by now.
    stage.over.insert(2);
    let (claim, renew) = (permit(1), Renew::new(permit(1), Ttl::DEFAULT));
    for writes_nothing in [true, false] {
        let (ask, before) = (Ask { writes_nothing, ..Ask::of_holder(&claim) }, stage.known.clone());
        let renewed =
            stage.decide(Some(9), ask, None, |document, visit| document.renew(&renew, visit));
        assert!(matches!(renewed.answer, Renewal::Renewed { .. }));
        assert_eq!(renewed.is_changed, !writes_nothing);
        assert_eq!(renewed.held.and_then(|held| held.lease), Some(1), "it is kept alive");
        stage.known = before;
    }
}
