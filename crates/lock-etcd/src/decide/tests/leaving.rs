//! What a client makes of a document that dead parties have left.

use super::{Stage, claim, request, seen, terms};
use crate::decide::plan::{Ask, Known, Plan};
use crate::decide::transaction::write;
use crate::link::{Compare, Operation};
use crate::naming::Names;

/// What the client would write, beside what it compares.
fn leave(stage: &mut Stage) -> (Plan<()>, Vec<Compare>, Vec<Operation>) {
    let (names, key) = (Names::new("p".to_owned()), claim(1).key);
    let before = stage.known.clone();
    let asks = [Ask { leaves: true, ..Ask::about(&key) }];
    let mut plan = stage.decide(None, asks[0], None, |_, _| ());
    plan.leave(&before);
    let plans = [plan];
    let transaction = write(&asks, &[&seen(&before)], &plans, &terms(&names, &[], &[])).transaction;
    let [plan] = plans;
    (plan, transaction.compare, transaction.success)
}

/// One holder, and one claim that waits.
fn used() -> Stage {
    let mut stage = Stage::default();
    stage.acquire(Some(8), &request(1), Some(70));
    stage.acquire(Some(9), &request(2).queued(), None);
    stage
}

#[test]
fn a_document_of_the_dead_goes_with_a_lease() {
    let names = Names::new("p".to_owned());
    let mut stage = used();
    stage.over.extend([70, 9]);
    let document = names.document(&claim(1).key);
    for revision in [2, 3] {
        // The second time, it has no dead parties any more.
        assert_eq!(stage.known.revision, revision);
        let (plan, compared, written) = leave(&mut stage);
        assert!(plan.document.is_at_rest());
        assert_eq!(compared, [Compare::unchanged(document.clone(), revision)]);
        // With the lease for documents at rest.
        assert_eq!(written, [Operation::put(document.clone(), plan.bytes, 5)]);
    }
}

#[test]
fn a_document_in_use_is_not_written() {
    for over in [vec![], vec![70], vec![9]] {
        let mut stage = used();
        stage.over.extend(over);
        let (_, _, written) = leave(&mut stage);
        assert_eq!(written, []);
    }
    let mut stage = Stage { known: Known::default(), ..Stage::default() };
    let (_, _, written) = leave(&mut stage);
    assert_eq!(written, [], "there is none");
}
