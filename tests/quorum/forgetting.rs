//! A server that has forgotten a lock does not give it to another client.

use std::time::Instant;

use lock_sync::{OwnedMutexGuard, TryLockError};

use crate::support::{Client, Forgetting, MAX_TTL, Nodes, SLACK, SOON, soon};

/// One server of three is missed by the holder, another by the other client. The third has the votes of
/// both, one after the other, if it forgets.
struct Scene {
    nodes: Nodes,
    holder: Client,
    other: Client,
}

impl Scene {
    const THIRD: usize = 2;

    async fn of(how: Forgetting, quarantine: bool) -> Self {
        let nodes = Nodes::with(3, MAX_TTL, |server| how.options(server)).await;
        let client = async || {
            Client::with(
                &nodes,
                |quorum| if quarantine { quorum } else { quorum.without_quarantine() },
                |locks| locks.renewal(false).ttl(MAX_TTL),
            )
            .await
        };
        let (holder, other) = (client().await, client().await);
        holder.cut_off_from(&[0]);
        other.cut_off_from(&[1]);
        Self { nodes, holder, other }
    }

    /// Has the third forget what has happened since it was prepared.
    fn forget(&self, how: Forgetting) {
        assert_eq!(self.nodes.holding(), [1, 2]);
        how.befall(&self.nodes.servers()[Self::THIRD]);
        assert_eq!(self.nodes.holding(), [1], "the lock is free on a majority");
    }
}

/// No other client gets the lock while the holder has it, and one gets it soon after.
async fn is_quarantined(how: Forgetting) {
    let scene = Scene::of(how, true).await;
    let lonely = Client::idle(&scene.nodes).await;
    lonely.cut_off_from(&[0, 1]);
    how.prepare(&scene.nodes.servers()[Scene::THIRD]);
    let guard = soon(scene.holder.mutex().lock_owned()).await.unwrap();
    scene.forget(how);
    let forgot = Instant::now();

    let mut is_quarantined = false;
    loop {
        let (tried, too) = tokio::join!(scene.other.try_lock(), lonely.try_lock());
        if !OwnedMutexGuard::lease(&guard).is_valid() {
            break;
        }
        assert!(tried.is_err() && too.is_err(), "{how:?}: there are two holders");
        if let Err(TryLockError::Backend(error)) = tried {
            assert!(error.is_retryable(), "{error:?}");
            is_quarantined |= error.to_string().contains(": quarantined for another ");
        }
    }
    assert!(is_quarantined, "{how:?}: a client noticed while it mattered");
    drop(lonely);

    let waiting = scene.other.mutex().lock_owned_timeout(SOON);
    let next = soon(waiting).await.unwrap();
    assert!(forgot.elapsed() < MAX_TTL + SLACK, "{how:?}: {:?}", forgot.elapsed());
    assert!(
        OwnedMutexGuard::lease(&next).fencing_token()
            > OwnedMutexGuard::lease(&guard).fencing_token(),
        "{how:?}"
    );
    assert_eq!(scene.nodes.holding(), [0, 2]);
}

#[tokio::test]
async fn a_server_that_restarts_empty_is_quarantined() {
    is_quarantined(Forgetting::Crash).await;
}

#[tokio::test]
async fn a_server_that_restarts_from_an_old_copy_is_quarantined() {
    is_quarantined(Forgetting::OldCopy).await;
}

#[tokio::test]
async fn a_server_that_lost_the_end_of_its_log_is_quarantined() {
    is_quarantined(Forgetting::TornLog).await;
}

#[tokio::test]
async fn a_server_that_was_flushed_is_quarantined() {
    is_quarantined(Forgetting::Flush).await;
}

/// What the published algorithm warns of.
#[tokio::test]
async fn without_the_quarantine_two_hold_one_lock() {
    let how = Forgetting::Crash;
    let scene = Scene::of(how, false).await;
    let first = soon(scene.holder.mutex().lock_owned()).await.unwrap();
    scene.forget(how);
    let second = soon(scene.other.mutex().lock_owned()).await.unwrap();
    assert!(
        OwnedMutexGuard::lease(&first).is_valid() && OwnedMutexGuard::lease(&second).is_valid()
    );
    // A resource that compares tokens is safe even so.
    assert!(
        OwnedMutexGuard::lease(&second).fencing_token()
            > OwnedMutexGuard::lease(&first).fencing_token()
    );
}
