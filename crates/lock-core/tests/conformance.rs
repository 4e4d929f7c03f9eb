//! `MemoryBackend` keeps every law: in real and in paused time, on one thread and on many, over a
//! slow connection, and behind the pointers that the trait is forwarded for.
#![cfg(feature = "conformance")]

use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use lock_core::conformance::{Harness, Hook};
use lock_core::memory::{Faults, MemoryBackend};
use lock_core::{Backend, Result};

mod real_time {
    lock_core::conformance_tests!(
        super::MemoryBackend::new(),
        capabilities: [shared, convert, joint, permits, cell, inspect, quorum]
    );
}

mod paused_time {
    lock_core::conformance_tests!(
        super::MemoryBackend::new(),
        capabilities: [shared, convert, joint, permits, cell, inspect, quorum],
        start_paused = true
    );
}

mod many_threads {
    lock_core::conformance_tests!(
        super::MemoryBackend::new(),
        capabilities: [shared, convert, joint, permits, cell, inspect, quorum],
        flavor = "multi_thread",
        worker_threads = 4
    );
}

mod slow_connection {
    lock_core::conformance_tests!(
        super::Slow(super::MemoryBackend::new()),
        capabilities: [shared, convert, joint, permits, cell, inspect, quorum],
        start_paused = true
    );
}

mod behind_arc {
    lock_core::conformance_tests!(
        super::Behind::new(super::Arc::new),
        capabilities: [shared, convert, joint, permits, cell, inspect, quorum],
        start_paused = true
    );
}

mod behind_box_dyn {
    use lock_core::Backend;

    lock_core::conformance_tests!(
        super::Behind::new(|memory| Box::new(memory) as Box<dyn Backend>),
        start_paused = true
    );
}

mod behind_box_dyn_shared {
    use lock_core::{Convertible, SharedBackend};

    type Shared = dyn SharedBackend<Conversion = Convertible>;

    lock_core::conformance_tests!(
        super::Behind::new(|memory| Box::new(memory) as Box<Shared>),
        capabilities: [shared],
        start_paused = true
    );
}

mod behind_arc_dyn_convert {
    use lock_core::ConvertBackend;

    lock_core::conformance_tests!(
        super::Behind::new(|memory| super::Arc::new(memory) as super::Arc<dyn ConvertBackend>),
        capabilities: [convert],
        start_paused = true
    );
}

mod behind_arc_dyn_joint {
    use lock_core::JointBackend;

    lock_core::conformance_tests!(
        super::Behind::new(|memory| super::Arc::new(memory) as super::Arc<dyn JointBackend>),
        capabilities: [joint],
        start_paused = true
    );
}

mod behind_box_dyn_permits {
    use lock_core::PermitBackend;

    lock_core::conformance_tests!(
        super::Behind::new(|memory| Box::new(memory) as Box<dyn PermitBackend>),
        capabilities: [permits],
        start_paused = true
    );
}

mod behind_box_dyn_cell {
    use lock_core::CellBackend;

    lock_core::conformance_tests!(
        super::Behind::new(|memory| Box::new(memory) as Box<dyn CellBackend>),
        capabilities: [cell],
        start_paused = true
    );
}

mod behind_box_dyn_inspect {
    use lock_core::InspectBackend;

    lock_core::conformance_tests!(
        super::Behind::new(|memory| Box::new(memory) as Box<dyn InspectBackend>),
        capabilities: [inspect],
        start_paused = true
    );
}

mod behind_arc_dyn_quorum {
    use lock_core::QuorumNode;

    lock_core::conformance_tests!(
        super::Behind::new(|memory| super::Arc::new(memory) as super::Arc<dyn QuorumNode>),
        capabilities: [quorum],
        start_paused = true
    );
}

/// Clients whose messages are slow.
struct Slow(MemoryBackend);

#[async_trait]
impl Harness for Slow {
    type Client = MemoryBackend;

    async fn client(&self) -> Result<MemoryBackend> {
        Ok(slowed(self.0.client()))
    }

    async fn limited_client(&self, waiters: NonZeroU32) -> Result<Option<MemoryBackend>> {
        Ok(Some(slowed(MemoryBackend::with_queue_limit(waiters))))
    }

    async fn other_server(&self) -> Result<Option<MemoryBackend>> {
        Ok(Some(slowed(MemoryBackend::new())))
    }

    async fn cut(&self, client: &MemoryBackend) -> Hook {
        self.0.cut(client).await
    }

    async fn heal(&self, client: &MemoryBackend) {
        self.0.heal(client).await;
    }

    async fn forget(&self) -> Hook {
        Harness::forget(&self.0).await
    }

    async fn restart(&self) -> Hook {
        Harness::restart(&self.0).await
    }
}

fn slowed(client: MemoryBackend) -> MemoryBackend {
    client.faults().delay_requests(Duration::from_millis(3));
    client.faults().delay_replies(Duration::from_millis(4));
    client
}

/// Clients behind a pointer `P`, found again by its address.
struct Behind<P> {
    store: MemoryBackend,
    wrap: fn(MemoryBackend) -> P,
    clients: Mutex<Vec<(usize, Faults)>>,
}

impl<P: std::ops::Deref> Behind<P> {
    fn new(wrap: fn(MemoryBackend) -> P) -> Self {
        Self { store: MemoryBackend::new(), wrap, clients: Mutex::default() }
    }

    fn faults_of(&self, client: &P) -> Faults {
        let clients = self.clients.lock().expect("no test panicked here");
        // Take the latest, because an earlier client may have had the same address.
        let found = clients.iter().rev().find(|(address, _)| *address == address_of(client));
        found.expect("made by this harness").1.clone()
    }
}

fn address_of<P: std::ops::Deref>(pointer: &P) -> usize {
    (&raw const **pointer).cast::<()>().addr()
}

#[async_trait]
impl<P> Harness for Behind<P>
where
    P: std::ops::Deref + Backend,
{
    type Client = P;

    async fn client(&self) -> Result<P> {
        let memory = self.store.client();
        let faults = memory.faults();
        let client = (self.wrap)(memory);
        let entry = (address_of(&client), faults);
        self.clients.lock().expect("no test panicked here").push(entry);
        Ok(client)
    }

    async fn limited_client(&self, waiters: NonZeroU32) -> Result<Option<P>> {
        Ok(Some((self.wrap)(MemoryBackend::with_queue_limit(waiters))))
    }

    async fn other_server(&self) -> Result<Option<P>> {
        Ok(Some((self.wrap)(MemoryBackend::new())))
    }

    async fn cut(&self, client: &P) -> Hook {
        self.faults_of(client).cut();
        Hook::Done
    }

    async fn heal(&self, client: &P) {
        self.faults_of(client).heal();
    }

    async fn forget(&self) -> Hook {
        self.store.forget();
        Hook::Done
    }

    async fn restart(&self) -> Hook {
        self.store.restart();
        Hook::Done
    }
}
