//! One event.

use std::time::Duration;

use lock_core::{FencingToken, Instant, Mode, OwnerToken};

/// An operation of a client: operations are numbered from zero, in the order of their beginnings.
pub type Op = u64;

/// The way of a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(clippy::exhaustive_enums, reason = "these are the modes of the locks")]
pub enum Way {
    /// Together with other readers.
    Read,
    /// Together with readers, with the right to upgrade.
    Upgradable,
    /// Alone.
    Write,
    /// This many permits.
    Permits(u32),
    /// As the owner of this number, which may be in several clients.
    Owner(u64),
}

impl Way {
    /// The mode of a lease that is held in this way. A way does not tell how many permits the key has in all, so the
    /// mode names the permits of this hold alone.
    pub fn mode(self) -> Mode {
        match self {
            Self::Read => Mode::Shared,
            Self::Upgradable => Mode::Upgradable,
            Self::Write => Mode::Exclusive,
            Self::Permits(count) => Mode::Permits { take: count, of: count },
            Self::Owner(number) => {
                Mode::Joint { group: OwnerToken::from_bytes(u128::from(number).to_be_bytes()) }
            }
        }
    }

    /// Whether two can hold a lock in these ways at once. Permits always can, as far as there are any.
    pub fn stands(self, other: Self) -> bool {
        self.mode().compatible_with(other.mode())
    }

    /// Whether no other task holds anything at the same time, except for the same owner.
    pub fn is_exclusive(self) -> bool {
        matches!(self, Self::Write | Self::Owner(_))
    }
}

/// How long a call may wait for other holders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "a call has a limit or is a try")]
pub enum Patience {
    /// Not at all: a try.
    None,
    /// For this time.
    Within(Duration),
}

impl Patience {
    /// Whether it is a try.
    pub fn tries(self) -> bool {
        self == Self::None
    }
}

/// Why an operation has ended without a lock, or with less than it requested.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "a checker looks at each")]
pub enum Refusal {
    /// It was a try, and another task is in the way.
    Busy,
    /// It has waited for its whole limit.
    TimedOut,
    /// Its future was dropped: it is unknown whether it had the lock by then.
    GivenUp,
    /// The lease that it was to convert, or to release, is lost.
    Lost,
    /// The semaphore is closed.
    Closed,
    /// It failed, with an error of this kind.
    Failed(String),
}

/// What a caller sees of the value of a stored mutex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "it is a record")]
pub struct Sight {
    /// The version; `None` for the initial value.
    pub version: Option<FencingToken>,
    /// The value, which is zero at first; `None` if the bytes are those of no value.
    pub value: Option<u64>,
}

/// A deed of a client, or its fate.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "a checker looks at each")]
pub enum Deed {
    /// It is about to ask for a lock. Stamped before the call.
    Ask {
        /// Which operation begins.
        op: Op,
        /// By which task.
        task: u32,
        /// For which lock.
        key: String,
        /// In which way.
        way: Way,
        /// How long it may wait for the grant.
        patience: Patience,
    },
    /// It was granted. Stamped after the call.
    Got {
        /// Which operation.
        op: Op,
        /// With which token.
        token: FencingToken,
        /// The end of the lease, without a renewal.
        valid_until: Instant,
    },
    /// It was not granted, and the operation is over.
    Not {
        /// Which operation.
        op: Op,
        /// Why.
        why: Refusal,
    },
    /// It is about to convert its hold: to a stronger or weaker way, or to fewer permits. Stamped before the
    /// call; until then it holds in the old way.
    Turn {
        /// Which operation.
        op: Op,
        /// In which way.
        way: Way,
        /// How long it may wait for that. It waits for no other task to hold less.
        patience: Patience,
        /// The end of its validity when it asks.
        valid_until: Instant,
    },
    /// The conversion succeeded. Stamped after the call. If it failed, [`Kept`](Self::Kept) or
    /// [`Left`](Self::Left) follows instead.
    Turned {
        /// Which operation.
        op: Op,
        /// With which token.
        token: FencingToken,
        /// The end of the lease, without a renewal.
        valid_until: Instant,
    },
    /// The conversion failed, and the hold is unchanged.
    Kept {
        /// Which operation.
        op: Op,
        /// Why.
        why: Refusal,
    },
    /// It still holds the lock, if the present is before `valid_until`. Stamped before it read that.
    Still {
        /// The end of validity, from its guard.
        op: Op,
        /// Until when its guard says to be valid.
        valid_until: Instant,
    },
    /// Its guard reports that the lease is lost.
    Lost {
        /// Which operation.
        op: Op,
    },
    /// It is about to release. Stamped before the call; it no longer acts as a holder.
    Leave {
        /// Which operation.
        op: Op,
        /// The end of validity, from its guard.
        valid_until: Instant,
    },
    /// It has released, and the operation is over.
    Left {
        /// Which operation.
        op: Op,
        /// Whether the store has confirmed that. A guard that was dropped is released a little later.
        confirmed: bool,
        /// The other answer of the release. Also `None` if the caller did not wait for it.
        why: Option<Refusal>,
    },
    /// It has forgotten its permits, or its guard: they are gone for as long as the store keeps them.
    Forgot {
        /// Which operation.
        op: Op,
    },
    /// It requests this many permits more for the semaphore, or fewer if negative. Stamped before the call.
    Resize {
        /// Which semaphore.
        key: String,
        /// The requested limit.
        limit: u32,
    },
    /// It has that limit. Stamped after the call. `None` if the call failed, so the limit is unknown.
    Resized {
        /// Which semaphore.
        key: String,
        /// The present limit.
        limit: Option<u32>,
    },
    /// The resource has answered a write with this token, by a guard that was valid until this time.
    Wrote {
        /// Which operation.
        op: Op,
        /// With which token.
        token: FencingToken,
        /// Whether the resource accepted it.
        accepted: bool,
        /// The end of validity, from the guard, read after the answer.
        valid_until: Instant,
    },
    /// It waits at a barrier. Stamped before the call.
    Arrive {
        /// Which operation.
        op: Op,
        /// Which barrier.
        key: String,
        /// The size of its groups.
        of: u32,
    },
    /// The barrier has opened. Stamped after the call.
    Pass {
        /// Which operation.
        op: Op,
        /// Whether it is the leader of its group.
        leads: bool,
    },
    /// It is about to ask for the value of a cell. Stamped before the call.
    Look {
        /// Which operation begins.
        op: Op,
        /// By which task.
        task: u32,
        /// Which cell.
        key: String,
    },
    /// It begins to make that value, alone.
    Make {
        /// Which operation.
        op: Op,
    },
    /// The making ends. Stamped before another caller can know the value.
    Made {
        /// Which operation.
        op: Op,
        /// The value; `None` if the making failed or was stopped.
        value: Option<u64>,
    },
    /// The call returned the value, or that there is none. Stamped after the call.
    Saw {
        /// Which operation.
        op: Op,
        /// The value.
        value: Option<u64>,
    },
    /// The guard of a stored mutex began with this value.
    Found {
        /// Which operation.
        op: Op,
        /// What it found.
        sight: Sight,
    },
    /// It is about to store a value. Stamped before the call.
    Store {
        /// Which operation.
        op: Op,
        /// The value, which is unique in the run.
        value: u64,
        /// The value that it has changed.
        base: u64,
    },
    /// The value is stored. Stamped after the call.
    Stored {
        /// Which operation.
        op: Op,
        /// The version of the value.
        version: FencingToken,
    },
    /// The call that was to store the value has failed.
    Unstored {
        /// Which operation.
        op: Op,
        /// Why.
        why: Refusal,
        /// Whether nothing was stored. Otherwise the value may have been stored, or may still be.
        certain: bool,
    },
    /// It is about to read the value of a stored mutex without the lock. Stamped before the call.
    Peek {
        /// Which operation begins.
        op: Op,
        /// By which task.
        task: u32,
        /// Which mutex.
        key: String,
    },
    /// The call returned. Stamped after the call.
    Peeked {
        /// Which operation.
        op: Op,
        /// What it saw.
        sight: Sight,
    },
    /// It begins to follow the value of a stored mutex.
    Follow {
        /// Which operation begins.
        op: Op,
        /// By which task.
        task: u32,
        /// Which mutex.
        key: String,
    },
    /// It heard of a version.
    Heard {
        /// Which operation.
        op: Op,
        /// What it heard.
        sight: Sight,
    },
    /// It follows the value no longer.
    Unfollow {
        /// Which operation.
        op: Op,
    },
    /// All of the client's tasks were ended wherever they were: open operations have ended, with unknown
    /// outcomes.
    Collapse,
    /// How late a timer of the client was, or how long a thread had to wait for a processor. Stamped when it was
    /// noticed.
    Late {
        /// In milliseconds.
        millis: u64,
    },
    /// The resources of the client while it is at rest.
    Uses {
        /// Open files and sockets.
        files: u64,
        /// Threads.
        threads: u64,
        /// Tasks on its runtime.
        tasks: u64,
        /// Memory, in kibibytes.
        memory: u64,
    },
    /// One fault begins, or many at once: in the words of the plan.
    Fault {
        /// Which step of the plan.
        step: u32,
        /// In words joined by `-`.
        what: String,
    },
    /// It was healed.
    Healed {
        /// Which step of the plan.
        step: u32,
    },
}

/// A deed, its time, and its client.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "it is a record")]
pub struct Event {
    /// The time, on the clock of all processes.
    pub at: Instant,
    /// The client: the name of its file.
    pub client: String,
    /// The deed.
    pub deed: Deed,
}
