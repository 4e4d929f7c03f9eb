//! A full disk. The size to which the server may write its files is limited, and PostgreSQL treats that as a full disk,
//! which only root could stage otherwise. One limit leaves the log of the database its room, as if it was on another
//! volume. The other limit leaves nothing any room.

use std::time::Duration;

use lock_core::{AcquireOutcome, Backend, Error, ErrorKind, Released, Renew, Renewal};
use lock_postgres::PostgresBackend;
use lock_sync::{Locks, LossReason, MutexGuard, TryLockError};
use lock_tests::{PostgresServer, SOON, soon};
use tokio::task::block_in_place;

use crate::support::{attempt, claim, granted, long, until_ok};

/// More than each file of a new database has. It is no whole number of pages, so the last page is written in part, and
/// the server says that the disk is full.
const ROOM: u64 = (2 << 20) + 4096;

/// Less than any change needs.
const NO_ROOM: u64 = 4096;

/// Adds locks, as if many clients had held them, until the table has no room for one more.
const FILL: &str = "
    DO $$ BEGIN
        FOR n IN 1..1000000 LOOP
            BEGIN
                INSERT INTO lock_v1.key (key) VALUES (convert_to('nfiller' || n, 'UTF8'));
            EXCEPTION WHEN OTHERS THEN
                RETURN;
            END;
        END LOOP;
        RAISE 'the table is not full';
    END $$";

fn fill(server: &PostgresServer) {
    server.limit_files(Some(ROOM));
    server.sql("postgres", FILL);
}

#[track_caller]
fn assert_full(error: &Error) {
    // Some versions of the server tell the limit from a full disk, and have no code for it.
    let is_limit = error.to_string().contains("File too large");
    assert!(is_limit || error.kind() == ErrorKind::NotReady, "{error:?}");
    assert!(is_limit || error.is_retryable(), "{error:?}");
}

/// New locks need room. The locks that are there need none, because each change of a row stays on its page.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_refuses_new_locks_and_keeps_those_that_are_held() {
    let server = PostgresServer::with_small_log();
    server.sql("postgres", &PostgresBackend::schema());
    let open = || PostgresBackend::open(server.url("postgres")).unwrap();
    let (store, rival) = (open(), open());
    let ours = claim("it");
    let grant = granted(&store, &ours, long()).await;
    block_in_place(|| fill(&server));
    for _ in 0..10 {
        assert_full(&attempt(&rival, &claim("new"), long()).await.unwrap_err());
        let renewal = store.renew(&Renew::new(ours.clone(), long())).await;
        assert!(matches!(renewal, Renewal::Renewed { .. }), "{renewal:?}");
        let busy = attempt(&rival, &claim("it"), long()).await.unwrap();
        assert!(matches!(busy, AcquireOutcome::Busy { .. }), "two holders: {busy:?}");
    }
    let freed = store.release(&ours).await.unwrap();
    assert!(matches!(freed, Released::Freed { .. }), "{freed:?}");
    let next = granted(&rival, &claim("it"), long()).await;
    assert!(next.tokens.first() > grant.tokens.last());
    block_in_place(|| server.limit_files(None));
    granted(&rival, &claim("new"), long()).await;
}

/// Without room for its log the server ends, and does not come back. So the lease ends by the clock of its holder.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_room_for_its_log_ends_and_has_no_two_holders() {
    let server = PostgresServer::start();
    server.sql("postgres", &PostgresBackend::schema());
    let open = || PostgresBackend::open(server.url("postgres")).unwrap();
    let ttl = Duration::from_secs(2);
    let [here, there] = [open(), open()].map(|it| Locks::builder(it).ttl(ttl).build().unwrap());
    let (mutex, same) = (here.mutex("it", ()).unwrap(), there.mutex("it", ()).unwrap());
    let guard = soon(mutex.lock()).await.unwrap();
    let lease = MutexGuard::lease(&guard);
    assert!(matches!(soon(same.try_lock()).await, Err(TryLockError::WouldBlock)));
    block_in_place(|| server.limit_files(Some(NO_ROOM)));
    let lost = tokio::time::timeout(ttl + SOON, lease.lost()).await.expect("it is told");
    assert_eq!(lost.reason(), LossReason::Expired);
    match soon(same.try_lock()).await {
        Err(TryLockError::Backend(error)) => assert!(error.is_retryable(), "{error:?}"),
        other => panic!("without a disk: {other:?}"),
    }
    // The operator has made room.
    block_in_place(|| server.restart());
    let store = open();
    let another = until_ok("it answers", async || attempt(&store, &claim("another"), long()).await);
    assert!(matches!(another.await, AcquireOutcome::Granted(_)));
    let next = tokio::time::timeout(SOON * 2, same.lock()).await.expect("it goes on").unwrap();
    assert!(MutexGuard::lease(&next).fencing_token() > lease.fencing_token());
}
