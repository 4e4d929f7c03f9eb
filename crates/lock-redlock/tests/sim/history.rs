//! Which client relied on which lease, and until when; and what must be true of that.

use lock_core::{FencingToken, Instant, Mode, TokenRange};

use crate::values::Values;

/// Everything that clients were granted, and what went wrong on the way.
#[derive(Debug, Default)]
pub(crate) struct History {
    pub(crate) leases: Vec<Lease>,
    pub(crate) values: Values,
    pub(crate) wrongs: Vec<(Wrong, String)>,
}

/// One lease, as its holder sees it.
#[derive(Clone, Debug)]
pub(crate) struct Lease {
    pub(crate) client: usize,
    pub(crate) key: usize,
    pub(crate) mode: Mode,
    /// The lowest and the highest.
    pub(crate) tokens: (FencingToken, FencingToken),
    /// Whether a renewal brought one that was no higher than those before.
    pub(crate) falls: bool,
    /// When its owner asked for the first time.
    pub(crate) asked: Instant,
    pub(crate) granted: Instant,
    /// Until when the holder may rely on it: it ran out, was released, or it was said to be lost.
    pub(crate) until: Instant,
}

/// What may go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// Two clients had a valid lease at once.
    Exclusion,
    /// The same token twice, or a lower one after a higher.
    Order,
    /// A lease that was there was reported as lost, or came back with other tokens.
    Lease,
    /// A free lock was refused.
    Refused,
    /// A node that was quarantined voted.
    KeptOut,
    /// A node that had restarted did not come back in time.
    StaysOut,
    /// No client got a lock in time although it was free.
    Stuck,
    /// A load did not find a value that was written, or that an earlier load had found.
    Value,
    /// A value of an earlier holder was stored late, or a value that was refused.
    Late,
    /// Something was left behind.
    Leak,
}

impl History {
    pub(crate) fn check(&mut self) {
        self.wrongs.extend(self.values.check());
        for (index, later) in self.leases.iter().enumerate() {
            if later.falls {
                self.wrongs.push((Wrong::Order, format!("a renewal turned back: {later:?}")));
            }
            for earlier in self.leases[..index].iter().filter(|earlier| earlier.conflicts(later)) {
                if earlier.until.min(later.until) > earlier.granted.max(later.granted) {
                    let what = format!("both valid: {earlier:?} and {later:?}");
                    self.wrongs.push((Wrong::Exclusion, what));
                }
                if !earlier.is_before(later) && !later.is_before(earlier) {
                    let what = format!("tokens out of order: {earlier:?} and {later:?}");
                    self.wrongs.push((Wrong::Order, what));
                }
            }
        }
    }
}

impl Lease {
    /// Adds the tokens of a renewal.
    pub(crate) fn extend(&mut self, tokens: Option<TokenRange>) {
        let Some(tokens) = tokens else { return };
        self.falls |= tokens.first() <= self.tokens.1;
        self.tokens.1 = tokens.last().max(self.tokens.1);
    }

    /// Whether the two leases exclude each other.
    fn conflicts(&self, other: &Self) -> bool {
        self.key == other.key && !self.mode.compatible_with(other.mode)
    }

    /// Whether all tokens of this lease are below those of the other. Of two leases that exclude each other, one must
    /// be below the other: the earlier one, if it was granted before the other was asked for.
    fn is_before(&self, other: &Self) -> bool {
        self.tokens.1 < other.tokens.0 && other.granted >= self.asked
    }
}
