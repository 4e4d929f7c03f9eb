//! A lock backend of your own, from nothing to a passing conformance suite.
//!
//! The store here is a folder, shared by all processes of one machine. Run it with
//! `cargo run --example custom_backend`: it tries every law of the contract and prints a line each.
//! `cargo test --example custom_backend` runs the same laws as tests.
//!
//! Each key has a folder that contains exactly one empty file, and that file's *name* is the
//! whole state of the lock:
//!
//! ```text
//! 1767225600000123.1767225600000123.9f86d081884c7d659a2feaa0c55ad015.86400123456789
//! version          fencing token    owner, "-" if none               end of the lease
//! ```
//!
//! Only an acquisition makes that folder. The other verbs leave nothing behind: a key without a
//! folder is free. Once made, a folder stays, so this store suits keys that are used again.
//!
//! Renaming the file changes the state. Of all processes that try to rename the same old name,
//! one succeeds, because afterwards that name no longer exists. That is a compare-and-swap, made of one
//! system call. Every step below is "read, decide, swap, start over if another process was faster", so
//! a crash leaves nothing half done. The name contains the owner's secret, so only the users of the folder
//! should be able to read it.
//!
//! Leases end on the machine's boot clock, which is the same for every process (on Linux and similar systems)
//! and begins anew when the machine does. So put the folder where a reboot empties it, such
//! as `/run`.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use futures::stream;
use lock_core::Watch;
use lock_core::conformance::{Harness, Hook, Verdict, laws, run};
use lock_core::{
    Acquire, AcquireOutcome, Backend, Claim, Clock, Error, ErrorKind, FencingToken, Grant,
};
use lock_core::{
    Hint, Instant, Key, Mode, OwnerToken, Released, Renew, Renewal, Result, TokenRange,
};

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let harness = TempFolder::new()?;
    let mut code = ExitCode::SUCCESS;
    for law in laws() {
        match run(law.name(), &harness).await {
            Verdict::Holds => println!("holds    {}", law.sentence()),
            Verdict::NotApplicable(reason) => println!("n/a      {} ({reason})", law.sentence()),
            verdict => {
                println!("BROKEN   {} {verdict:?}", law.sentence());
                code = ExitCode::FAILURE;
            }
        }
    }
    Ok(code)
}

/// One client of the folder. It keeps only the path: all else is in the store, as a distributed lock needs.
struct FolderBackend {
    folder: PathBuf,
}

/// The state of a lock, as its file's name spells it.
#[derive(Clone)]
struct State {
    /// Grows with every change, so that no name ever comes back. So a slow process cannot rename a file that
    /// only looks like the file that it has read.
    version: u64,
    token: u64,
    owner: Option<String>,
    ends: Instant,
}

/// The four verbs. A few calls to a local file system are quick enough to make in place. A store
/// across a network would await here, with a deadline.
#[async_trait]
impl Backend for FolderBackend {
    async fn try_acquire(&self, request: &Acquire) -> Result<AcquireOutcome> {
        let claim = &request.claim;
        if claim.mode != Mode::Exclusive {
            return Err(Error::new(ErrorKind::Unsupported, "this store has one holder per key"));
        }
        let lock = self.lock_folder(&claim.key);
        loop {
            if !lock.is_dir() {
                create(&lock).map_err(failed)?;
            }
            // The lease counts from before the work is done: read the clock first.
            let now = self.clock().now();
            let state = State::read(&lock)?;
            let is_held = state.is_held(now);
            if is_held && !state.is_held_by(claim, now) {
                // This store has no queue, so it refuses a request that asks for a place like
                // any other.
                let retry_after = Some(state.ends.saturating_duration_since(now));
                return Ok(AcquireOutcome::Busy { retry_after });
            }
            let mut next = state.successor();
            if !is_held {
                // The version serves as the fencing token. A request may ask for a range of tokens.
                // Granting fewer is always right.
                next.token = next.version;
                next.owner = Some(name_of(&claim.owner));
                next.ends = now;
            }
            // The holder may ask again, perhaps because it never saw the answer. It keeps its
            // token, and the time that its lease has left, if that is more than it asks for.
            next.ends = next.ends.max(now + request.ttl.duration());
            if state.swap(&next, &lock)? {
                return Ok(AcquireOutcome::Granted(Grant::new(next.tokens(), next.deadline(now))));
            }
        }
    }

    async fn renew(&self, Renew { claim, ttl, .. }: &Renew) -> Renewal {
        let sent = self.clock().now();
        let extend = |state: &mut State| state.ends = sent + ttl.duration();
        match self.change(claim, extend) {
            Ok(true) => Renewal::until(ttl.valid_until(sent)),
            Ok(false) => Renewal::Lost,
            // A failure says nothing about the lease. The old deadline stands.
            Err(error) => Renewal::Unknown(error),
        }
    }

    async fn release(&self, claim: &Claim) -> Result<Released> {
        let freed = self.change(claim, |state| state.owner = None)?;
        // A folder does not know which processes look at it, so this store reports no waiters.
        Ok(if freed { Released::Freed { told: 0 } } else { Released::NotHeld })
    }

    /// A folder sends no message when it changes, so the watch looks every few milliseconds. A
    /// store without hints may also answer `ErrorKind::Unsupported` here.
    async fn watch(&self, key: &Key) -> Result<Watch> {
        let lock = self.lock_folder(key);
        // The first look is now, because the watch must not miss changes after this method has returned.
        let first = State::read(&lock)?;
        Ok(Watch::new(stream::unfold((lock, first), |(lock, mut seen)| async move {
            loop {
                tokio::time::sleep(Duration::from_millis(5)).await;
                // A watch that cannot look any more ends. Its user then asks the store.
                let before = std::mem::replace(&mut seen, State::read(&lock).ok()?);
                if seen.shows_release_since(&before) {
                    return Some((Hint::Released, (lock, seen)));
                }
            }
        })))
    }

    fn clock(&self) -> Clock {
        Clock::boot()
    }
}

impl FolderBackend {
    /// Applies an edit to the lease of `claim`. Returns whether there was one.
    fn change(&self, claim: &Claim, edit: impl Fn(&mut State)) -> Result<bool> {
        let lock = self.lock_folder(&claim.key);
        loop {
            let state = State::read(&lock)?;
            if !state.is_held_by(claim, self.clock().now()) {
                return Ok(false);
            }
            let mut next = state.successor();
            edit(&mut next);
            if state.swap(&next, &lock)? {
                return Ok(true);
            }
        }
    }

    /// The folder of a key, whether or not it exists.
    ///
    /// A key may have any bytes, so it is written in hexadecimal digits. It may be longer than a
    /// file name, so it is cut into a path. Only the last part ends in `.lock`.
    fn lock_folder(&self, key: &Key) -> PathBuf {
        let kind = if key.is_as_is() { "x" } else { "n" };
        let digits = key.as_bytes().iter().map(|byte| format!("{byte:02x}"));
        let spelled = kind.chars().chain(digits.flat_map(|pair| pair.chars().collect::<Vec<_>>()));
        let parts: Vec<char> = spelled.collect();
        let mut lock = self.folder.clone();
        lock.extend(parts.chunks(200).map(String::from_iter));
        lock.as_mut_os_string().push(".lock");
        lock
    }
}

/// Makes the folder of a key with its first file in it, in one step. The folder is made elsewhere and then
/// renamed, which fails if the key has a folder already. Two first files would be two locks.
fn create(lock: &Path) -> io::Result<()> {
    let draft = lock.with_extension(format!("{}.draft", random_name().map_err(io::Error::other)?));
    fs::create_dir_all(&draft)?;
    File::create_new(draft.join(State::FREE.name()))?;
    fs::rename(&draft, lock).or_else(|error| {
        fs::remove_dir_all(&draft)?;
        if lock.is_dir() { Ok(()) } else { Err(error) }
    })
}

impl State {
    const FREE: Self = Self { version: 0, token: 0, owner: None, ends: Instant::from_nanos(0) };

    /// Reads the state of a lock, which is free if it has no folder.
    fn read(lock: &Path) -> Result<Self> {
        // While another process renames the file, a listing may show neither name, or both.
        for _ in 0..1000 {
            let names = match fs::read_dir(lock) {
                Ok(names) => names,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::FREE),
                Err(error) => return Err(failed(error)),
            };
            let states = names.filter_map(|entry| Self::parse(entry.ok()?.file_name().to_str()?));
            if let Some(newest) = states.max_by_key(|state| state.version) {
                return Ok(newest);
            }
        }
        Err(Error::new(ErrorKind::NotReady, "the folder of a lock has no state in it"))
    }

    /// Replaces this state by `next`, unless another process has changed it. Returns whether this was done.
    fn swap(&self, next: &Self, lock: &Path) -> Result<bool> {
        match fs::rename(lock.join(self.name()), lock.join(next.name())) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(failed(error)),
        }
    }

    /// This state with a new version. The version is not below the time, so that versions, and the tokens
    /// made of them, increase even if the folder was emptied in between.
    fn successor(&self) -> Self {
        let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let version = (self.version + 1).max(time.as_micros() as u64);
        Self { version, ..self.clone() }
    }

    fn is_held(&self, now: Instant) -> bool {
        self.owner.is_some() && self.ends > now
    }

    fn is_held_by(&self, claim: &Claim, now: Instant) -> bool {
        self.is_held(now) && self.owner.as_deref() == Some(&name_of(&claim.owner))
    }

    /// The instant at which the holder must stop: earlier than the end of the lease by `Ttl::drift`.
    fn deadline(&self, now: Instant) -> Instant {
        let left = self.ends.saturating_duration_since(now);
        now + left.saturating_sub(left / 100 + Duration::from_millis(2))
    }

    fn tokens(&self) -> TokenRange {
        TokenRange::single(FencingToken::new(self.token))
    }

    /// Whether the lock is free after a change, or has another owner than before.
    fn shows_release_since(&self, before: &Self) -> bool {
        let changed_hands = before.owner.is_some() && self.token != before.token;
        self.version != before.version && (self.owner.is_none() || changed_hands)
    }

    fn name(&self) -> String {
        let owner = self.owner.as_deref().unwrap_or("-");
        format!("{}.{}.{owner}.{}", self.version, self.token, self.ends.as_nanos())
    }

    fn parse(name: &str) -> Option<Self> {
        let mut parts = name.split('.');
        let version = parts.next()?.parse().ok()?;
        let token = parts.next()?.parse().ok()?;
        let owner = Some(parts.next()?).filter(|owner| *owner != "-").map(String::from);
        let ends = Instant::from_nanos(parts.next()?.parse().ok()?);
        Some(Self { version, token, owner, ends })
    }
}

fn name_of(owner: &OwnerToken) -> String {
    String::from_utf8_lossy(owner.expose()).into_owned()
}

fn random_name() -> Result<String> {
    Ok(name_of(&OwnerToken::generate()?))
}

/// Converts an error to one of `lock-core`. Only an error that may go away by itself is retryable.
fn failed(error: io::Error) -> Error {
    let kind = match error.kind() {
        io::ErrorKind::PermissionDenied => ErrorKind::Denied,
        io::ErrorKind::StorageFull => ErrorKind::OutOfMemory,
        _ => ErrorKind::Unreachable,
    };
    Error::with_source(kind, "the folder of the locks cannot be used", error)
}

/// Tells the suite how to handle this store.
struct TempFolder(PathBuf);

impl TempFolder {
    fn new() -> Result<Self> {
        Ok(Self(std::env::temp_dir().join(format!("locks-{}", random_name()?))))
    }
}

#[async_trait]
impl Harness for TempFolder {
    type Client = FolderBackend;

    async fn client(&self) -> Result<FolderBackend> {
        Ok(FolderBackend { folder: self.0.clone() })
    }

    async fn cut(&self, _client: &FolderBackend) -> Hook {
        Hook::NotApplicable("a folder has no connection to cut")
    }

    async fn forget(&self) -> Hook {
        match fs::remove_dir_all(&self.0) {
            Ok(()) => Hook::Done,
            Err(_) => Hook::NotApplicable("the folder cannot be removed"),
        }
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        let _nothing_else_to_do = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    lock_core::conformance_tests!(
        TempFolder::new().unwrap(),
        flavor = "multi_thread",
        worker_threads = 4
    );

    #[tokio::test]
    async fn asking_about_a_key_leaves_nothing_behind() {
        let store = TempFolder::new().unwrap();
        fs::create_dir(&store.0).unwrap();
        let backend = store.client().await.unwrap();
        let key = Key::new("stock").unwrap();
        let claim = Claim::exclusive(key.clone(), OwnerToken::generate().unwrap());
        let ttl = lock_core::Ttl::new(Duration::from_secs(10)).unwrap();

        assert!(matches!(backend.renew(&Renew::new(claim.clone(), ttl)).await, Renewal::Lost));
        assert_eq!(backend.release(&claim).await.unwrap(), Released::NotHeld);
        let mut watch = backend.watch(&key).await.unwrap();
        assert_eq!(fs::read_dir(&store.0).unwrap().count(), 0);

        // The watch sees all later changes of the key.
        let attempt = backend.try_acquire(&Acquire::new(claim.clone(), ttl)).await.unwrap();
        assert!(matches!(attempt, AcquireOutcome::Granted(_)));
        assert_eq!(backend.release(&claim).await.unwrap(), Released::Freed { told: 0 });
        assert_eq!(watch.next().await, Some(Hint::Released));
    }
}
