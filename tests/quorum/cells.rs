//! A value that has reached a minority becomes the value for all clients, or for none.
//!
//! Here the servers are memory, so that each request can be told where it fails.

use std::pin::Pin;
use std::time::Duration;

use futures::StreamExt;
use futures::future::poll_fn;
use lock_core::memory::{MemoryBackend, Verb};
use lock_core::{CellBackend, ErrorKind, InspectBackend, Key};
use lock_redlock::Redlock;
use lock_sync::{CommitError, Locks, OnceCell, SetError};
use tokio::runtime::Handle;

const TTL: Duration = Duration::from_secs(10);

/// Three servers.
struct Servers(Vec<MemoryBackend>);

/// A process, and its ways to the servers.
struct Process {
    ways: Vec<MemoryBackend>,
    locks: Locks<Redlock<MemoryBackend>>,
}

impl Servers {
    async fn begin() -> Self {
        let servers = Self((0..3).map(|_| MemoryBackend::new()).collect());
        servers.quorum().await.0.init().await.unwrap();
        servers
    }

    async fn quorum(&self) -> (Redlock<MemoryBackend>, Vec<MemoryBackend>) {
        let ways: Vec<_> = self.0.iter().map(MemoryBackend::client).collect();
        let builder = Redlock::builder().nodes(ways.clone()).on_runtime(Handle::current());
        (builder.build().await.unwrap(), ways)
    }

    /// A process that is cut off from this server, if it is from one.
    async fn process(&self, cut_off_from: Option<usize>) -> Process {
        let (quorum, ways) = self.quorum().await;
        let locks = Locks::builder(quorum).ttl(TTL).on_runtime(Handle::current());
        cut_off_from.into_iter().for_each(|node| ways[node].faults().cut());
        Process { ways, locks: locks.build().unwrap() }
    }

    /// Which of them have something beside this lock.
    async fn knowing(&self, name: &str) -> Vec<usize> {
        let key = Key::new(name).unwrap();
        let mut knowing = Vec::new();
        for (node, server) in self.0.iter().enumerate() {
            knowing.extend(server.load(&key).await.unwrap().map(|_| node));
        }
        knowing
    }

    fn leases(&self) -> usize {
        self.0.iter().map(MemoryBackend::live_leases).sum()
    }

    /// Lets a client fail that has stored 1 on the first server alone.
    async fn fails_on_the_first(&self, name: &str) {
        let failing = self.process(None).await;
        let cell = failing.cell(name);
        let stored = cell.get_or_init(async || {
            failing.store_on_first_alone();
            1
        });
        assert!(stored.await.is_err() && cell.get().is_none());
        failing.ways.iter().for_each(|way| way.faults().heal());
        self.until_free().await;
    }

    async fn until_free(&self) {
        while self.leases() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

impl Process {
    fn cell(&self, name: &str) -> OnceCell<u32> {
        self.locks.once_cell(name).unwrap()
    }

    fn store_on_first_alone(&self) {
        for way in &self.ways[1..] {
            way.faults().on(Verb::Cell).fail(ErrorKind::Denied);
        }
    }
}

/// A way in which the value comes out.
#[derive(Clone, Copy, Debug)]
enum By {
    Init,
    Load,
    Wait,
    Set,
}

impl By {
    const ALL: [Self; 4] = [Self::Init, Self::Load, Self::Wait, Self::Set];

    /// What a client gets that would make a 2.
    async fn get(self, cell: &OnceCell<u32>) -> Option<u32> {
        match self {
            Self::Init => Some(*cell.get_or_init(async || 2).await.unwrap()),
            Self::Load => cell.load().await.unwrap().copied(),
            Self::Wait => Some(*cell.wait().await.unwrap()),
            Self::Set => match cell.set(2).await {
                Err(SetError::AlreadyInitializedError(2)) => cell.get().copied(),
                other => panic!("{other:?}"),
            },
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_value_that_one_client_reads_from_a_minority_is_read_everywhere() {
    for by in By::ALL {
        let servers = Servers::begin().await;
        servers.fails_on_the_first("it").await;
        assert_eq!(servers.knowing("it").await, [0], "{by:?}");
        let one = servers.process(Some(2)).await;
        assert_eq!(by.get(&one.cell("it")).await, Some(1), "{by:?}");
        assert!(servers.knowing("it").await.starts_with(&[0, 1]), "{by:?}");
        servers.until_free().await;
        let other = servers.process(Some(0)).await;
        let value = *other.cell("it").get_or_init(async || 3).await.unwrap();
        assert_eq!(value, 1, "{by:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_value_that_no_client_has_read_may_be_made_anew() {
    for by in By::ALL {
        let servers = Servers::begin().await;
        servers.fails_on_the_first("it").await;
        let other = servers.process(Some(0)).await;
        let value = *other.cell("it").get_or_init(async || 3).await.unwrap();
        servers.until_free().await;
        let one = servers.process(Some(2)).await;
        assert_eq!((by.get(&one.cell("it")).await, value), (Some(3), 3), "{by:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_does_not_see_the_value_of_a_minority() {
    let servers = Servers::begin().await;
    let (failing, one) = (servers.process(None).await, servers.process(Some(2)).await);
    let (cell, seen) = (failing.cell("it"), one.cell("it"));
    let storing = cell.get_or_init(async || {
        // Until its lease ends.
        for way in &failing.ways[1..] {
            way.faults().cut();
        }
        1
    });
    let (stored, seen) = tokio::join!(storing, seen.wait());
    assert!(stored.is_err());
    assert_eq!(seen.unwrap(), &1);
    let other = servers.process(Some(0)).await;
    assert_eq!(other.cell("it").get_or_init(async || 3).await.unwrap(), &1);
}

#[tokio::test(start_paused = true)]
async fn a_reader_during_a_store_leaves_the_storing_to_the_writer() {
    let servers = Servers::begin().await;
    let (writer, reader) = (servers.process(None).await, servers.process(None).await);
    let cell = writer.cell("it");
    let mut gates = Vec::new();
    let storing = cell.get_or_init(async || {
        let late = |way: &MemoryBackend| way.faults().on(Verb::Cell).hold_requests();
        gates.extend(writer.ways[1..].iter().map(late));
        1
    });
    let mut storing = Box::pin(storing);
    while servers.knowing("it").await.is_empty() {
        let () = poll_fn(|context| {
            assert!(storing.as_mut().poll(context).is_pending());
            std::task::Poll::Ready(())
        })
        .await;
        tokio::task::yield_now().await;
    }
    let asked = |verb: fn(&MemoryBackend) -> u64| reader.ways.iter().map(verb).sum::<u64>();
    let seen = reader.cell("it");
    let read = seen.load();
    let finish = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        writer.ways[1..].iter().for_each(|way| way.faults().heal());
        *storing.await.unwrap()
    };
    let (read, stored) = tokio::join!(read, finish);
    assert_eq!((read.unwrap(), stored), (Some(&1), 1));
    assert_eq!(asked(|way| way.stats().votes), 0, "it was not in the writer's way");
}

#[tokio::test(start_paused = true)]
async fn a_failed_reset_holds_for_all_clients_or_for_none() {
    let servers = Servers::begin().await;
    let failing = servers.process(None).await;
    let mut cell = failing.cell("it");
    cell.get_or_init(async || 1).await.unwrap();
    servers.until_free().await;
    failing.store_on_first_alone();
    cell.reset().await.unwrap_err();
    servers.until_free().await;
    let seen = servers.process(None).await.cell("it").load().await.unwrap().copied();
    servers.until_free().await;
    for missing in 0..3 {
        let later = servers.process(Some(missing)).await;
        assert_eq!(later.cell("it").load().await.unwrap().copied(), seen, "without {missing}");
    }
}

/// Drops a reader after its k-th poll, for every k.
#[tokio::test(start_paused = true)]
async fn a_reader_that_gives_up_while_the_value_is_settled_changes_nothing() {
    for polls in 0.. {
        let servers = Servers::begin().await;
        servers.fails_on_the_first("it").await;
        let given_up = servers.process(Some(2)).await;
        for faults in given_up.ways.iter().map(MemoryBackend::faults) {
            faults.delay_requests(Duration::from_millis(1));
            faults.delay_replies(Duration::from_millis(1));
        }
        let cell = given_up.cell("it");
        let mut reading = Box::pin(cell.load());
        let is_done = poll_times(reading.as_mut(), polls).await;
        drop(reading);
        servers.until_free().await;
        let one = servers.process(Some(1)).await;
        let value = *one.cell("it").get_or_init(async || 2).await.unwrap();
        servers.until_free().await;
        let other = servers.process(Some(0)).await;
        assert_eq!(*other.cell("it").get_or_init(async || 3).await.unwrap(), value);
        assert_eq!(value, 1, "a client that asks the first server sees it");
        if is_done {
            assert!(polls > 8, "it was done after {polls} polls");
            return;
        }
    }
}

/// Whether the future is ready within so many polls, between which all others go on.
async fn poll_times<F: Future>(mut future: Pin<&mut F>, polls: u32) -> bool {
    for _ in 0..polls {
        let polled =
            poll_fn(|context| std::task::Poll::Ready(future.as_mut().poll(context).is_ready()));
        if polled.await {
            return true;
        }
        tokio::time::sleep(Duration::from_micros(500)).await;
    }
    false
}

/// A quorum that loses the lease of its holder on all servers but the first, or on all.
async fn commits_after_a_loss(lost: std::ops::Range<usize>) -> (Servers, CommitError<u32>) {
    let servers = Servers::begin().await;
    let writer = servers.process(None).await;
    let stored = writer.locks.stored_mutex("it", 1_u32).unwrap();
    let mut guard = stored.lock().await.unwrap();
    for server in &servers.0[lost] {
        let ended = server.force_release(&Key::new("it").unwrap()).await.unwrap();
        assert_eq!(ended, 1);
    }
    *guard = 2;
    let Err(error) = guard.commit().await else { panic!("its lease is lost") };
    servers.until_free().await;
    (servers, error)
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_reached_one_server_is_not_said_to_be_lost() {
    let (servers, error) = commits_after_a_loss(1..3).await;
    assert!(matches!(error, CommitError::Unknown { value: 2, .. }), "{error:?}");
    // A later holder finds the value.
    assert_eq!(servers.knowing("it").await, [0]);
    let next = servers.process(Some(2)).await;
    let mutex = next.locks.stored_mutex("it", 1_u32).unwrap();
    assert_eq!(*mutex.lock().await.unwrap(), 2);
}

/// One server takes the value, and the others deny it.
#[tokio::test(start_paused = true)]
async fn a_commit_that_reached_one_server_is_not_said_to_be_refused() {
    let servers = Servers::begin().await;
    let writer = servers.process(None).await;
    let stored = writer.locks.stored_mutex("it", 1_u32).unwrap();
    let mut guard = stored.lock().await.unwrap();
    *guard = 2;
    writer.store_on_first_alone();
    let Err(error) = guard.commit().await else { panic!("too few servers have it") };
    assert!(matches!(error, CommitError::Unknown { value: 2, .. }), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_all_servers_deny_is_refused_at_once() {
    let servers = Servers::begin().await;
    let writer = servers.process(None).await;
    let stored = writer.locks.stored_mutex("it", 1_u32).unwrap();
    let mut guard = stored.lock().await.unwrap();
    *guard = 2;
    for way in &writer.ways {
        way.faults().on(Verb::Cell).fail(ErrorKind::Denied);
    }
    let begin = tokio::time::Instant::now();
    let Err(CommitError::Refused { guard, source }) = guard.commit().await else { panic!() };
    assert_eq!((source.kind(), **guard), (ErrorKind::Denied, 2));
    assert_eq!(begin.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_all_servers_refuse_is_lost() {
    let (servers, error) = commits_after_a_loss(0..3).await;
    assert!(matches!(error, CommitError::Lost { value: 2, .. }), "{error:?}");
    assert!(servers.knowing("it").await.is_empty());
}

/// The servers refuse what arrives after the release, and a few may have taken it before.
#[tokio::test(start_paused = true)]
async fn a_commit_that_no_majority_has_answered_is_unknown() {
    let servers = Servers::begin().await;
    let writer = servers.process(None).await;
    let stored = writer.locks.stored_mutex("it", 1_u32).unwrap();
    let mut guard = stored.lock().await.unwrap();
    *guard = 2;
    for way in &writer.ways[1..] {
        way.faults().on(Verb::Cell).fail(ErrorKind::Unreachable);
        way.faults().on(Verb::Renew).fail(ErrorKind::Unreachable);
    }
    let turns = async {
        // The lease is over. The client asks the servers that do not have the value.
        tokio::time::sleep(TTL + TTL / 100).await;
        writer.ways[0].faults().cut();
        writer.ways[1..].iter().for_each(|way| way.faults().heal());
    };
    let (committed, ()) = tokio::join!(guard.commit(), turns);
    let Err(error) = committed else { panic!("one server has it") };
    assert!(matches!(error, CommitError::Unknown { value: 2, .. }), "{error:?}");
    servers.until_free().await;
    assert_eq!(servers.knowing("it").await, [0]);
    let next = servers.process(Some(2)).await;
    let mutex = next.locks.stored_mutex("it", 1_u32).unwrap();
    assert_eq!(*mutex.lock().await.unwrap(), 2);
}

/// Two servers know the value, and the reader can reach one of them.
#[tokio::test(start_paused = true)]
async fn a_stream_ends_at_a_version_that_one_server_tells_of() {
    let servers = Servers::begin().await;
    let writer = servers.process(Some(1)).await;
    let stored = writer.locks.stored_mutex("it", 1_u32).unwrap();
    stored.update(|value| *value = 2).await.unwrap();
    assert_eq!(servers.knowing("it").await, [0, 2]);
    servers.until_free().await;
    let reader = servers.process(Some(2)).await;
    let mut versions = reader.locks.stored_mutex("it", 1_u32).unwrap().subscribe();
    let item = tokio::time::timeout(3 * TTL, versions.next()).await.expect("it is stored");
    assert_eq!(item.unwrap().unwrap().value, 2);
    assert_eq!(servers.knowing("it").await, [0, 1, 2]);
}

/// All servers have the value, but another client may have held the lock, and read the earlier value, before one of them
/// got it.
#[tokio::test(start_paused = true)]
async fn a_commit_that_a_majority_answers_only_after_the_lease_is_unknown() {
    let late = Duration::from_millis(800);
    for (is_late, before) in [(false, 2 * late), (true, late / 2)] {
        let servers = Servers::begin().await;
        let writer = servers.process(None).await;
        let stored = writer.locks.stored_mutex("it", 1_u32).unwrap();
        let mut guard = stored.lock().await.unwrap();
        *guard = 2;
        for way in &writer.ways {
            way.faults().on(Verb::Renew).fail(ErrorKind::Unreachable);
            way.faults().on(Verb::Cell).delay_replies(late);
        }
        tokio::time::sleep(TTL - before).await;
        match guard.commit().await {
            Ok(_) => assert!(!is_late),
            Err(CommitError::Unknown { value: 2, .. }) => assert!(is_late),
            Err(other) => panic!("{other:?}"),
        }
        assert_eq!(servers.knowing("it").await, [0, 1, 2]);
    }
}
