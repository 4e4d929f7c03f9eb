//! Which client had which key, and when, and what the other attempts ended with.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use lock_core::{Clock, FencingToken, Instant};
use lock_sync::{Lease, LockError};
use tokio::time::sleep;

use super::history::History;

/// How often a holder looks at its lease.
const LOOK: Duration = Duration::from_millis(5);

/// A client, and a key for which it asks.
pub(crate) type Role = (usize, usize);

/// A time in which a client certainly had a key.
#[derive(Clone, Debug)]
pub(crate) struct Hold {
    pub(crate) role: Role,
    token: FencingToken,
    /// When the client asked.
    pub(crate) asked: Instant,
    had: Instant,
    pub(crate) until: Instant,
}

/// An attempt that failed.
#[derive(Clone, Debug)]
pub(crate) struct Failed {
    role: Role,
    asked: Instant,
    error: String,
}

/// What the clients write down.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    holds: Mutex<Vec<Hold>>,
    failed: Mutex<Vec<Failed>>,
}

impl Ledger {
    pub(crate) fn now() -> Instant {
        Clock::boot().now()
    }

    /// Writes down a hold until the lease is lost, or until this returns `true` for the time since its beginning.
    pub(crate) async fn hold(
        &self,
        role: Role,
        asked: Instant,
        lease: &Lease,
        is_enough: impl Fn(Duration) -> bool,
    ) {
        let (had, token) = (Self::now(), lease.fencing_token());
        let number = {
            let mut holds = self.holds();
            holds.push(Hold { role, token, asked, had, until: had });
            holds.len() - 1
        };
        loop {
            // The lease is valid after this time, so it is valid at this time.
            let until = Self::now();
            if !lease.is_valid() {
                return;
            }
            self.holds()[number].until = until;
            if is_enough(until.saturating_duration_since(had)) {
                return;
            }
            sleep(LOOK).await;
        }
    }

    pub(crate) fn fail(&self, role: Role, asked: Instant, error: &LockError) {
        let mut causes = vec![error.to_string()];
        let mut cause = error.source();
        while let Some(it) = cause {
            causes.push(it.to_string());
            cause = it.source();
        }
        let error = causes.join(": ");
        self.failed.lock().unwrap().push(Failed { role, asked, error });
    }

    pub(crate) fn holds(&self) -> MutexGuard<'_, Vec<Hold>> {
        self.holds.lock().unwrap()
    }

    /// Whether each of these has had its key after it asked at this time or later.
    pub(crate) fn all_had(&self, roles: &[Role], since: Instant) -> bool {
        let holds = self.holds();
        let had = |role| holds.iter().any(|it| it.role == role && it.asked >= since);
        roles.iter().all(|&role| had(role))
    }

    /// Whether each of these has got an error with these words, after it asked at this time or later.
    pub(crate) fn all_failed(&self, roles: &[Role], words: &str, since: Instant) -> bool {
        let failed = self.failed.lock().unwrap();
        let is_meant = |it: &Failed| it.asked >= since && it.error.contains(words);
        roles.iter().all(|&role| failed.iter().any(|it| it.role == role && is_meant(it)))
    }

    /// The last hold and the last failure of each client and key, to be shown.
    pub(crate) fn latest(&self) -> BTreeMap<Role, (Option<Hold>, Option<Failed>)> {
        let mut latest = BTreeMap::<Role, (Option<Hold>, Option<Failed>)>::new();
        for it in self.holds().iter() {
            latest.entry(it.role).or_default().0 = Some(it.clone());
        }
        for it in self.failed.lock().unwrap().iter() {
            latest.entry(it.role).or_default().1 = Some(it.clone());
        }
        latest
    }

    /// Checks that no two clients had a key at once, and that the tokens of each key increase.
    #[track_caller]
    pub(crate) fn check(&self) {
        let mut keys = BTreeMap::<usize, Vec<String>>::new();
        for (turn, it) in self.holds().iter().enumerate() {
            let (client, key) = it.role;
            let [asked, had, until] = [it.asked, it.had, it.until].map(Instant::as_nanos);
            let line = format!("{client} 0 {turn} w 1 {} {asked} {had} {until}", it.token.get());
            keys.entry(key).or_default().push(line);
        }
        for lines in keys.values() {
            let history = History::parse(lines.iter().map(String::as_str));
            history.assert_readers_and_writers();
            println!("{} turns", history.turns());
        }
    }
}
