//! The gate of an entry, through which readers come and go without its lock.
//!
//! The machine says when the gate may open. Every call that reaches the machine closes the gate first. The gate opens
//! and closes only under the lock of the entry. A reader inside is known either to the open gate or to the machine,
//! never to both: when the gate closes, the machine takes over the count.

use std::sync::Arc;

use lock_core::{Clock, FencingToken, Instant};

use super::holdings::HoldId;
use super::machine::{Opening, Ticket};
use super::validity::Validity;
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::sync::now;

/// One word says whether the gate is open, and how many readers are inside.
pub(super) struct Gate {
    word: AtomicU64,
    /// The facts about the readers. They change only while the gate is closed and no reader is inside.
    seat: AtomicUsize,
    serial: AtomicU64,
    token: AtomicU64,
    /// In nanoseconds on the clock of the lease.
    until: AtomicU64,
    /// When a reader last came in, in nanoseconds.
    latest: AtomicU64,
    lease: Arc<Validity>,
}

/// By which way a holder came to its hold.
pub(super) enum Way {
    /// By the machine.
    Ticket(Ticket),
    /// Through the gate.
    Gate(Reader),
}

/// A reader that came through the gate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader {
    pub(super) hold: HoldId,
    pub(super) token: FencingToken,
}

/// What has to follow when a reader leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leaving {
    /// The reader has left.
    Left,
    /// The reader has left, and the machine has to look after the lease.
    Last,
    /// The machine knows the reader, which has to leave there.
    Closed,
}

/// The word of a closed gate. A reader that comes or leaves at the moment in which the gate closes still adds 1 or
/// subtracts 1, and then goes the way of the lock. That changes no bit by which a gate is open.
const CLOSED: u64 = 1 << 40;
const OPEN: u64 = 1 << 63;
const KEPT: u64 = 1 << 62;
/// The bits of the count of an open gate.
const INSIDE: u64 = (1 << 32) - 1;

impl Gate {
    pub(super) fn new(lease: Arc<Validity>) -> Self {
        let [word, serial, token, until, latest] = [CLOSED, 0, 0, 0, 0].map(AtomicU64::new);
        Self { word, seat: AtomicUsize::new(0), serial, token, until, latest, lease }
    }

    /// The lease of the readers that came through the gate, for as long as one of them is inside.
    #[inline]
    pub(super) fn lease(&self) -> &Arc<Validity> {
        &self.lease
    }

    // ---- Under the lock of the entry ----

    /// Opens the gate, for one reader who is inside by this opening and for those who come after it.
    pub(super) fn open(&self, opening: &Opening) -> Reader {
        let Opening { hold, token, inside, until, kept, now } = *opening;
        self.seat.store(hold.seat(), Ordering::Relaxed);
        self.serial.store(hold.serial(), Ordering::Relaxed);
        self.token.store(token.get(), Ordering::Relaxed);
        self.until.store(until.as_nanos(), Ordering::Relaxed);
        self.latest.store(now.as_nanos(), Ordering::Relaxed);
        let kept = if kept { KEPT } else { 0 };
        self.word.store(OPEN | kept | u64::from(inside), Ordering::Release);
        Reader { hold, token }
    }

    /// Closes the gate. If it was open, returns how many readers are inside, and when one last came in.
    pub(super) fn close(&self) -> Option<(u32, Instant)> {
        if self.word.load(Ordering::Relaxed) & OPEN == 0 {
            return None;
        }
        let inside = self.word.swap(CLOSED, Ordering::AcqRel) & INSIDE;
        let latest = Instant::from_nanos(self.latest.load(Ordering::Relaxed));
        Some((u32::try_from(inside).unwrap_or(u32::MAX), latest))
    }

    /// Comes in at this instant, if the gate is open until later.
    pub(super) fn enter_at(&self, now: Instant) -> Option<Reader> {
        let open = self.word.load(Ordering::Relaxed) & OPEN != 0;
        (open && now.as_nanos() < self.until.load(Ordering::Relaxed)).then(|| {
            self.word.fetch_add(1, Ordering::Acquire);
            self.latest.store(now.as_nanos(), Ordering::Relaxed);
            self.reader()
        })
    }

    // ---- Without the lock ----

    /// Comes in, if the gate is open. A reader that came in too late gets an error, and has to leave again.
    #[inline]
    pub(super) fn enter(&self, clock: Clock) -> Option<Result<Reader, Reader>> {
        if self.word.load(Ordering::Relaxed) & OPEN == 0 {
            return None;
        }
        if self.word.fetch_add(1, Ordering::Acquire) & OPEN == 0 {
            return None;
        }
        // From here on this reader is inside, so the facts stay.
        let since = now(clock);
        let reader = self.reader();
        if since.as_nanos() >= self.until.load(Ordering::Relaxed) {
            return Some(Err(reader));
        }
        self.latest.store(since.as_nanos(), Ordering::Relaxed);
        Some(Ok(reader))
    }

    #[inline]
    fn reader(&self) -> Reader {
        let seat = self.seat.load(Ordering::Relaxed);
        let hold = HoldId::of_gate(seat, self.serial.load(Ordering::Relaxed));
        Reader { hold, token: FencingToken::new(self.token.load(Ordering::Relaxed)) }
    }

    /// A reader that came through the gate leaves.
    #[inline]
    pub(super) fn leave(&self) -> Leaving {
        if self.word.load(Ordering::Relaxed) & OPEN == 0 {
            return Leaving::Closed;
        }
        let word = self.word.fetch_sub(1, Ordering::AcqRel);
        match (word & OPEN, word & KEPT, word & INSIDE) {
            (0, ..) => Leaving::Closed,
            (_, 0, 1) => Leaving::Last,
            _ => Leaving::Left,
        }
    }
}
