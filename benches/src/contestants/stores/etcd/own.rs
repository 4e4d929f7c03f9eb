//! What lock-etcd sends for a free lock, by a client that does nothing else.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use super::wire::{Bare, Compare, Operation, Transaction};
use crate::{Contestant, Failure};

/// The sizes of the document while the lock is held, and at rest, and the content of the bell.
const HELD: usize = 73;
const AT_REST: usize = 19;
const BELL: &[u8] = b"r";

/// The two transactions of a lock that is free and not waited for, with a pooled lease: the same keys, comparisons and
/// bytes. A grant compares the document and the lease, and writes the document. A release compares the document, writes
/// it, and rings the bell.
///
/// What our lock costs beside this is spent in the client. This is no lock: it does not look at the document.
#[derive(Debug)]
pub(super) struct Own {
    client: Bare,
    /// The lease of the holder, the key that lives as long as it does, and the lease of the documents at rest.
    alive: Vec<u8>,
    retention: i64,
    /// When each document was last changed.
    revisions: Mutex<HashMap<String, i64>>,
}

impl Own {
    pub(super) async fn connect(url: &str) -> Result<Self, Failure> {
        let client = Bare::connect(url).await?;
        let (lease, retention) = (client.lease().await?, client.lease().await?);
        let alive = format!("bare/a/{lease:016x}").into_bytes();
        let put = vec![Operation::put(&alive, &[], lease)];
        client.transact(Transaction { success: put, ..Transaction::default() }).await?;
        Ok(Self { client, alive, retention, revisions: Mutex::default() })
    }

    fn revisions(&self) -> std::sync::MutexGuard<'_, HashMap<String, i64>> {
        self.revisions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Contestant for Own {
    type Key = String;

    const INNER: &'static [&'static str] = &[];

    fn key(&self, name: &str) -> Result<Self::Key, Failure> {
        Ok(name.to_owned())
    }

    async fn locked<S>(&self, key: &Self::Key, section: S) -> Result<(), Failure>
    where
        S: Future<Output = ()> + Send + 'static,
    {
        let [document, bell] = ["s", "b"].map(|part| format!("bare/{part}/n{key}").into_bytes());
        let before = self.revisions().get(key).copied().unwrap_or_default();
        let grant = Transaction {
            compare: vec![
                Compare::unchanged(&document, before),
                Compare::is_there(&self.alive, true),
            ],
            success: vec![Operation::put(&document, &[7; HELD], 0)],
            failure: vec![Operation::get(&document), Operation::look(&self.alive)],
        };
        let held = self.client.transact(grant).await?;
        section.await;
        let release = Transaction {
            compare: vec![Compare::unchanged(&document, held)],
            success: vec![
                Operation::put(&document, &[7; AT_REST], self.retention),
                Operation::put(&bell, BELL, self.retention),
            ],
            failure: vec![Operation::get(&document)],
        };
        let revision = self.client.transact(release).await?;
        self.revisions().insert(key.clone(), revision);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use lock_tests::EtcdServer;
    use serde_json::Value;

    use crate::contestants::stores::etcd::STORE;
    use crate::contestants::stores::{Style, named};

    fn get(server: &EtcdServer, prefix: &str, revision: u64) -> Value {
        let at = format!("--rev={revision}");
        let text = server.ctl(&["get", "--prefix", "--write-out=json", &at, prefix]);
        serde_json::from_str(&text).unwrap()
    }

    /// What there is at a revision for the keys that begin so: the size of each value, by the length of its key. Both
    /// are in base64.
    fn sizes(server: &EtcdServer, prefix: &str, revision: u64) -> BTreeMap<usize, usize> {
        let answer = get(server, prefix, revision);
        let size = |of: &Value| of.as_str().unwrap_or_default().trim_end_matches('=').len() * 3 / 4;
        let all = answer["kvs"].as_array().into_iter().flatten();
        all.map(|it| (size(&it["key"]), size(&it["value"]))).collect()
    }

    /// At rest and while it is held, with as many changes and as many requests.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn it_writes_what_the_lock_writes() {
        const PAIRS: u64 = 5;
        let server = EtcdServer::start();
        let mut seen = Vec::new();
        for (name, prefix) in
            [(STORE.row(Style::Released).as_str(), "lock"), ("its own transactions", "bare")]
        {
            let entrant = named(name, &server.url(), 1).await.unwrap();
            let keys = entrant.keys(1);
            // At first the client has other things to do: it gets leases, and introduces itself.
            let goes_on = async || {
                let (before, requests) = (server.revision(), server.received());
                entrant.pairs(&keys, PAIRS).await.unwrap();
                let changes = server.revision() - before;
                (changes, server.received().since(&requests).calls("Txn")) == (2 * PAIRS, 2 * PAIRS)
            };
            lock_tests::eventually_async("it does nothing else", lock_tests::SOON, goes_on).await;
            // The release is the last change of the document.
            let document = get(&server, &format!("{prefix}/s/"), 0);
            let last = document["kvs"][0]["mod_revision"].as_u64().unwrap();
            let of = |part: &str, at| sizes(&server, &format!("{prefix}/{part}/"), at);
            seen.push([of("s", last), of("b", last), of("s", last - 1)]);
        }
        assert_eq!(seen[0], seen[1], "at rest, the bell, and while it is held");
        assert!(seen[0].iter().all(|sizes| sizes.len() == 1), "{seen:?}");
    }
}
