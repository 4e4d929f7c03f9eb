//! The resource as a thread that listens.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lock_core::Clock;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};

use super::desk::{Desk, Tally, Visitor};
use super::words::Word;
use crate::service::Service;

/// The resource, on a thread of its own. It ends when this value is dropped.
#[derive(Debug)]
pub struct Resource {
    path: PathBuf,
    desk: Arc<Mutex<Desk>>,
    _service: Service,
}

impl Resource {
    /// Listens in this folder.
    ///
    /// # Errors
    ///
    /// If it cannot listen there.
    pub fn start(folder: &Path) -> io::Result<Self> {
        let path = folder.join("resource.sock");
        let desk = Arc::<Mutex<Desk>>::default();
        let begin = || Ok(listen(UnixListener::bind(&path)?, Arc::clone(&desk)));
        let service = Service::start("resource", begin)?;
        Ok(Self { path, desk, _service: service })
    }

    /// The path of its socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The findings so far.
    pub fn tally(&self) -> Tally {
        lock(&self.desk).tally()
    }
}

async fn listen(listener: UnixListener, desk: Arc<Mutex<Desk>>) {
    for visitor in 0.. {
        match listener.accept().await {
            Ok((stream, _)) => _ = tokio::spawn(serve(stream, visitor, Arc::clone(&desk))),
            // Out of files: a waiting client is served when one is closed.
            Err(_) => tokio::task::yield_now().await,
        }
    }
}

async fn serve(mut stream: UnixStream, visitor: Visitor, desk: Arc<Mutex<Desk>>) {
    let clock = Clock::boot();
    let (from, mut to) = stream.split();
    let mut lines = BufReader::new(from).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let answer = match Word::parse(&line) {
            Some(Word::Enter { key, guest }) => {
                lock(&desk).enter(visitor, &key, guest, clock.now());
                continue;
            }
            Some(Word::Write { key, token }) => lock(&desk).write(&key, token),
            Some(Word::Leave { key }) => {
                lock(&desk).leave(visitor, &key);
                true
            }
            Some(Word::Bye) => {
                lock(&desk).vanish(visitor, clock.now());
                break;
            }
            // Half a line, of a task that was dropped or a process that was killed.
            None => continue,
        };
        // A client that has gone by now may have sent the reason before.
        _ = to.write_all(format!("{answer}\n").as_bytes()).await;
    }
}

fn lock(desk: &Mutex<Desk>) -> MutexGuard<'_, Desk> {
    desk.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use lock_core::{FencingToken, Instant};

    use super::super::{Client, Guest};
    use super::*;
    use crate::chaos::history::Way;

    #[tokio::test]
    async fn tasks_come_in_write_and_leave() {
        let folder = tempfile::tempdir().unwrap();
        let resource = Resource::start(folder.path()).unwrap();
        let (token, far) = (FencingToken::new, Instant::from_nanos(u64::MAX));
        let mut first = Client::connect(resource.path()).await.unwrap();
        let mut second = Client::connect(resource.path()).await.unwrap();

        let writer =
            |number| Guest { way: Way::Write, of: None, token: token(number), valid_until: far };
        first.enter("it", writer(5)).await.unwrap();
        assert!(first.write("it", token(5)).await.unwrap());
        second.enter("it", writer(6)).await.unwrap();
        assert!(second.write("it", token(6)).await.unwrap());
        assert!(!first.write("it", token(5)).await.unwrap());
        let tally = resource.tally();
        assert_eq!((tally.entries, tally.accepted, tally.refused), (2, 2, 1));
        assert_eq!(tally.meetings.len(), 1);

        first.leave("it").await.unwrap();
        assert!(!first.write("it", token(5)).await.unwrap());
        drop(second);
        crate::eventually("the second is gone", std::time::Duration::from_secs(10), || {
            lock(&resource.desk).is_empty("it")
        });
    }

    /// A dropped task has released its lock since; a killed process has not.
    #[tokio::test]
    async fn one_that_was_killed_stays_until_its_lease_has_ended() {
        let folder = tempfile::tempdir().unwrap();
        let resource = Resource::start(folder.path()).unwrap();
        let guest = |number| Guest {
            way: Way::Write,
            of: None,
            token: FencingToken::new(number),
            valid_until: Instant::FAR_FUTURE,
        };
        let mut killed = UnixStream::connect(resource.path()).await.unwrap();
        let word = Word::Enter { key: "it".to_owned(), guest: guest(1) };
        killed.write_all(format!("{word}\nwri").as_bytes()).await.unwrap();
        drop(killed);
        let inside = || !lock(&resource.desk).is_empty("it");
        crate::eventually("it is inside", std::time::Duration::from_secs(10), inside);
        let mut comer = Client::connect(resource.path()).await.unwrap();
        comer.enter("it", guest(2)).await.unwrap();
        comer.leave("it").await.unwrap();
        assert_eq!(resource.tally().meetings.len(), 1);
        assert!(inside());
    }

    /// Neither half a word prevents that, nor an answer that no client reads.
    #[tokio::test]
    async fn one_that_was_dropped_in_the_middle_of_a_word_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let resource = Resource::start(folder.path()).unwrap();
        let (token, valid_until) = (FencingToken::new(1), Instant::FAR_FUTURE);
        let mut dropped = Client::connect(resource.path()).await.unwrap();
        dropped.enter("it", Guest { way: Way::Write, of: None, token, valid_until }).await.unwrap();
        dropped.begin_to_say("leave that\nwri").await;
        drop(dropped);
        let inside = || !lock(&resource.desk).is_empty("it");
        crate::eventually("it came, and is gone", std::time::Duration::from_secs(10), || {
            resource.tally().entries == 1 && !inside()
        });
    }
}
