//! One thing that happened.

use std::time::Duration;

use lock_core::{FencingToken, Instant};

/// Which of the operations of a client: they are numbered from zero, in the order in which they began.
pub type Op = u64;

/// How a lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(clippy::exhaustive_enums, reason = "these are the modes of the locks")]
pub enum Way {
    /// Beside other readers.
    Read,
    /// Beside readers, with the prospect of writing.
    Upgradable,
    /// Alone.
    Write,
    /// So many permits.
    Permits(u32),
    /// As the owner of this number, who may be in several clients.
    Owner(u64),
}

impl Way {
    /// Whether two can hold a lock in these ways at once. Permits always can, as far as there are any.
    pub fn stands(self, other: Self) -> bool {
        match (self, other) {
            (Self::Read, Self::Read | Self::Upgradable) | (Self::Upgradable, Self::Read) => true,
            (Self::Permits(_), Self::Permits(_)) => true,
            (Self::Owner(one), Self::Owner(other)) => one == other,
            _ => false,
        }
    }

    /// Whether nobody else holds anything at the same time, but for the same owner.
    pub fn is_exclusive(self) -> bool {
        matches!(self, Self::Write | Self::Owner(_))
    }
}

/// How long a call may wait for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "a call has a limit or is a try")]
pub enum Patience {
    /// Not at all: it is a try.
    None,
    /// So long.
    Within(Duration),
}

impl Patience {
    /// Whether it is a try.
    pub fn tries(self) -> bool {
        self == Self::None
    }
}

/// Why an operation has ended without a lock, or came to less than it should.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "a checker looks at each")]
pub enum Refusal {
    /// It was a try, and somebody is in the way.
    Busy,
    /// It has waited as long as it was told to.
    TimedOut,
    /// Its future was dropped: whether it had the lock by then, nobody knows.
    GivenUp,
    /// The lease that it was to convert, or to release, is lost.
    Lost,
    /// The semaphore is closed.
    Closed,
    /// It failed, with an error of this kind.
    Failed(String),
}

/// What a client did, or what became of it.
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
        /// How long it may wait for that.
        patience: Patience,
    },
    /// It holds what it asked for. Stamped after the call.
    Got {
        /// Which operation.
        op: Op,
        /// With which token.
        token: FencingToken,
        /// Until when, if the lease is not renewed.
        valid_until: Instant,
    },
    /// It does not, and the operation is over.
    Not {
        /// Which operation.
        op: Op,
        /// Why.
        why: Refusal,
    },
    /// It is about to hold in another way: stronger, weaker or fewer permits. Stamped before the call; it
    /// has held in the way before until then.
    Turn {
        /// Which operation.
        op: Op,
        /// In which way.
        way: Way,
        /// How long it may wait for that. To hold less it waits for nobody.
        patience: Patience,
        /// Until when what it holds is valid as it asks.
        valid_until: Instant,
    },
    /// It holds in that other way. Stamped after the call. If that failed, [`Kept`](Self::Kept) or
    /// [`Left`](Self::Left) follows instead.
    Turned {
        /// Which operation.
        op: Op,
        /// With which token.
        token: FencingToken,
        /// Until when, if the lease is not renewed.
        valid_until: Instant,
    },
    /// It could not be converted, and holds as before.
    Kept {
        /// Which operation.
        op: Op,
        /// Why.
        why: Refusal,
    },
    /// It still holds the lock, if that is before `valid_until`. Stamped before it looked at that.
    Still {
        /// Which operation.
        op: Op,
        /// Until when its guard says to be valid.
        valid_until: Instant,
    },
    /// Its guard has said that the lease is lost.
    Lost {
        /// Which operation.
        op: Op,
    },
    /// It is about to let go. Stamped before the call; it does not act as a holder any more.
    Leave {
        /// Which operation.
        op: Op,
        /// Until when its guard says to be valid.
        valid_until: Instant,
    },
    /// It has let go, and the operation is over.
    Left {
        /// Which operation.
        op: Op,
        /// Whether the store has confirmed that. A guard that was dropped is released a little later.
        confirmed: bool,
        /// What the release said instead. `None` also if nobody waited for it.
        why: Option<Refusal>,
    },
    /// It has forgotten its permits, or its guard: they are as gone, for as long as the store keeps them.
    Forgot {
        /// Which operation.
        op: Op,
    },
    /// It wants the semaphore to have so many permits more, or fewer if negative. Stamped before the call.
    Resize {
        /// Which semaphore.
        key: String,
        /// The limit after which it is.
        limit: u32,
    },
    /// It has that limit. Stamped after the call. `None` if that failed, so that nobody knows.
    Resized {
        /// Which semaphore.
        key: String,
        /// The limit that it has.
        limit: Option<u32>,
    },
    /// The resource has answered a write, that was made with this token and by a guard that was valid until then.
    Wrote {
        /// Which operation.
        op: Op,
        /// With which token.
        token: FencingToken,
        /// Whether the resource took it.
        accepted: bool,
        /// Until when the guard says to be valid, asked after the answer.
        valid_until: Instant,
    },
    /// It stands at a barrier. Stamped before the call.
    Arrive {
        /// Which operation.
        op: Op,
        /// Which barrier.
        key: String,
        /// For how many.
        of: u32,
    },
    /// The barrier has opened. Stamped after the call.
    Pass {
        /// Which operation.
        op: Op,
        /// Whether it is the one of its group.
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
    /// It ends that. Stamped before anybody else can know the value.
    Made {
        /// Which operation.
        op: Op,
        /// What it made; `None` if it failed or was stopped.
        value: Option<u64>,
    },
    /// It was told the value, or that there is none. Stamped after the call.
    Saw {
        /// Which operation.
        op: Op,
        /// The value.
        value: Option<u64>,
    },
    /// All of the client's tasks were ended where they stood: open operations have ended, nobody knows how.
    Collapse,
    /// How late a timer of the client was, or for how long somebody had to wait for a processor. Stamped when
    /// it was noticed.
    Late {
        /// In milliseconds.
        millis: u64,
    },
    /// What the client uses while it is at rest.
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
    /// A fault begins, or many at once: in the words of the plan.
    Fault {
        /// Which step of the plan.
        step: u32,
        /// In words joined by `-`.
        what: String,
    },
    /// It was made good.
    Healed {
        /// Which step of the plan.
        step: u32,
    },
}

/// A deed, when it was done, and by whom.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_structs, reason = "it is a record")]
pub struct Event {
    /// When, on the clock of all processes.
    pub at: Instant,
    /// By which client: the name of its file.
    pub client: String,
    /// What.
    pub deed: Deed,
}
