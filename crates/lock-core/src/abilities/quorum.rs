//! One vote among several.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::{Acquire, Backend, Claim, Error, FencingToken, Grant, OwnerToken, Ttl};

/// A store that can be one node of a quorum, which holds a lock by the votes of a majority.
///
/// Its own four verbs are those of any store. What a quorum needs besides is that the tokens of several
/// nodes can be brought into step, and that a node which may have forgotten its leases says so and keeps
/// out until they are certainly over.
///
/// **Voting**
/// - A vote MUST be given, renewed, released and end by the laws of a lease in the contract of [`Backend`]
///   (`a_vote_is_a_lease`), those under *Sharing* included
///   (`a_vote_keeps_to_its_mode`).
/// - It MUST NOT be given for a place in the node's own queue (`a_vote_queues_nobody`), and nobody who waits
///   there MAY be overtaken (`a_vote_overtakes_nobody`).
/// - The last of the tokens that it brings MUST be the ballot's [`floor`](Ballot::floor) wherever that is
///   above all that the node gave out before (`votes_agree_on_their_tokens`), and the next number that it
///   never gave out where it is not; there MAY be fewer of them than were asked for, but none that it gave
///   out before (`tokens_increase_from_vote_to_vote`). A floor more than an hour ahead of the node's clock
///   MUST be taken as one an hour ahead (`a_wild_floor_is_bounded`).
/// - A vote that is repeated MUST bring the same tokens (`a_repeated_vote_is_the_same`).
/// - A refusal MUST name the holder in the same way on every node: the one whose lease ends last,
///   and if nobody holds the key, the first in line
///   (`a_refusal_names_the_holder`).
/// - Permits MUST be refused as [`ErrorKind::Unsupported`](crate::ErrorKind) (`permits_are_not_voted_on`).
///
/// **Confirming**
/// - A token MUST be confirmed if and only if the claim still holds the key and the node gave out no higher
///   one (`a_token_is_confirmed_while_its_lease_is_held`, `a_stale_token_is_not_confirmed`); every later
///   grant MUST be above it (`a_confirmed_token_is_never_reissued`).
///
/// **Keeping out**
/// - A node that was never vouched for (`an_unknown_node_abstains`), that has restarted since
///   (`a_restarted_node_abstains`), or that dropped its leases in any other way
///   (`a_node_that_forgot_abstains`) MUST abstain from guarded ballots, and MUST then neither grant nor end
///   anything by them (`an_abstention_holds_nothing`). Every client MUST see the same
///   quarantine (`a_quarantine_is_the_same_for_all`).
/// - It votes again, for every client, once somebody has vouched for it (`a_node_votes_once_vouched_for`).
///   Vouching for a quarantine that was followed by another MUST have no effect
///   (`a_stale_vouch_has_no_effect`).
/// - A lease longer than any for which it was vouched MUST be refused as
///   [`ErrorKind::InvalidConfig`](crate::ErrorKind), with both in the message
///   (`a_lease_longer_than_vouched_for_is_refused`). Vouching with a longer time MUST allow it, and with a
///   shorter one MUST NOT forbid what was allowed (`vouching_again_only_lengthens`).
/// - Two handles of one server MUST name the same [`Server`], and those of two servers different ones
///   (`a_server_is_told_from_another`).
///
/// The protocol for the tokens is that of a timestamp object over majority registers (Ellen, Fatourou and
/// Ruppert, *The space complexity of unbounded timestamps*, 2008; Attiya, Bar-Noy and Dolev, *Sharing memory
/// robustly in message-passing systems*, 1995). Vouching waits as the DynamoDB lock client does: a lease's
/// time on the observer's own clock.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a node of a quorum",
    label = "a quorum needs nodes whose tokens can be brought into step",
    note = "implement `lock_core::QuorumNode` for it"
)]
#[async_trait]
pub trait QuorumNode: Backend {
    /// Asks this node for its vote, which is a lease on it.
    ///
    /// Whatever it was asked about [queueing](Acquire::queue), it queues nobody.
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](Backend::try_acquire).
    ///
    /// # Cancel safety
    ///
    /// As [`try_acquire`](Backend::try_acquire): release the claim afterwards.
    async fn vote(&self, ballot: &Ballot) -> Result<Vote, Error>;

    /// Raises this node's counter to `token`, the last one that the quorum gave to this claim. `false` if
    /// the claim does not hold the key here any more, or if the node gave out a higher token since.
    ///
    /// # Errors
    ///
    /// Whatever the store or the way to it does.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves open whether it was raised, which is harmless, as is repeating it.
    async fn confirm(&self, claim: &Claim, token: FencingToken) -> Result<bool, Error>;

    /// Which server this is, and whether it is kept out.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`](crate::ErrorKind) or [`ErrorKind::Denied`](crate::ErrorKind) if it cannot
    /// tell, in which case ballots must not be [guarded](Ballot::guarded); else whatever the store or the
    /// way to it does.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect, but that a quarantine may have begun.
    async fn standing(&self) -> Result<Standing, Error>;

    /// Ends a quarantine: no lease that the node may have forgotten lives any more. `false` if another began
    /// since, and nothing was done.
    ///
    /// Call it no earlier than `max_ttl` and the drift of clocks after the answer in which the quarantine was
    /// first seen has arrived; or for a new deployment. From then on, and until it forgets again, the node
    /// takes guarded ballots for leases of at most `max_ttl`. To allow longer ones, repeat it with more.
    ///
    /// # Errors
    ///
    /// Whatever the store or the way to it does.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves open whether it ended. Repeating is harmless.
    async fn vouch(&self, quarantine: &Quarantine, max_ttl: Ttl) -> Result<bool, Error>;
}

/// What one node of a quorum is asked.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Ballot {
    /// The lease. Its [`queue`](Acquire::queue) has no meaning here.
    pub request: Acquire,
    /// The last token that the node should give out for it: the same number for every node.
    pub floor: FencingToken,
    /// Whether the node must abstain while it is kept out.
    pub guarded: bool,
}

impl Ballot {
    /// A ballot in which every node votes, whatever it may have forgotten.
    pub fn new(request: Acquire, floor: FencingToken) -> Self {
        Self { request, floor, guarded: false }
    }

    /// Asks those who may have forgotten a lease to abstain.
    #[must_use]
    pub fn guarded(mut self) -> Self {
        self.guarded = true;
        self
    }
}

/// What one node answers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "a vote that nobody looks at holds the lock until its lease ends"]
pub enum Vote {
    /// It holds this lease, with tokens of its own: they are not those of the quorum's grant.
    Granted(Grant),
    /// Somebody else holds the key here, or waits for it in the node's own queue.
    Busy {
        /// Who holds it, if one is alone or comes first; `None` if the node cannot tell.
        holder: Option<OwnerTag>,
        /// When the lease that is in the way ends unless it is renewed; `None` if it has no end.
        retry_after: Option<Duration>,
    },
    /// It may have forgotten leases, and does not vote.
    Abstains(Quarantine),
}

/// How it stands with a node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Standing {
    /// Which server it is.
    pub server: Server,
    /// The time during which it is kept out, or was last.
    pub quarantine: Quarantine,
    /// The longest lease that it grants to a guarded ballot; `None` while it is kept out.
    pub max_ttl: Option<Ttl>,
}

impl Standing {
    /// A server, its latest quarantine, and the longest lease that it grants if that is over.
    pub fn new(server: Server, quarantine: Quarantine, max_ttl: Option<Ttl>) -> Self {
        Self { server, quarantine, max_ttl }
    }
}

/// One run of one server: another after a restart.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Server(Box<str>);

impl Server {
    /// The server with this name, which no other has and which it had in no earlier run.
    pub fn new(name: impl Into<Box<str>>) -> Self {
        Self(name.into())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Server({})", self.0)
    }
}

/// One time during which a node is kept out: another whenever it may have forgotten something anew.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Quarantine(Box<str>);

impl Quarantine {
    /// The quarantine with this name, which no other of any server has.
    pub fn new(name: impl Into<Box<str>>) -> Self {
        Self(name.into())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Quarantine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Quarantine({})", self.0)
    }
}

/// What may be known of an [`OwnerToken`]: enough to tell one holder from another, by the same name on every
/// node, and of no use for taking its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnerTag(u32);

impl OwnerTag {
    /// The tag with these 32 bits.
    pub const fn new(bits: u32) -> Self {
        Self(bits)
    }

    /// The tag of what another client has stored as an owner; `None` if that is not an owner token of this
    /// family.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_core::{OwnerTag, OwnerToken};
    ///
    /// let owner = OwnerToken::from_bytes(*b"\x00\x01\xfe\xff456789abcdef");
    /// assert_eq!(OwnerTag::of_stored(owner.expose()), Some(owner.tag()));
    /// assert_eq!(owner.tag(), OwnerTag::new(0x0001_feff));
    /// assert_eq!(OwnerTag::of_stored(b"somebody else"), None);
    /// ```
    pub fn of_stored(owner: &[u8]) -> Option<Self> {
        let is_ours = owner.len() == 32 && owner.iter().all(u8::is_ascii_hexdigit);
        let digits = std::str::from_utf8(owner.get(..8)?).ok()?;
        is_ours.then(|| u32::from_str_radix(digits, 16).ok().map(Self)).flatten()
    }
}

impl OwnerToken {
    /// The part of this token that may be known: its first 32 bits. 96 remain secret.
    pub fn tag(&self) -> OwnerTag {
        let digits = self.expose()[..8].iter();
        let value = |digit: u8| char::from(digit).to_digit(16).unwrap_or(0);
        OwnerTag(digits.fold(0, |bits, &digit| bits << 4 | value(digit)))
    }
}

macro_rules! forward {
    ($($pointer:ident),*) => {$(
        #[async_trait]
        impl<B: QuorumNode + ?Sized> QuorumNode for $pointer<B> {
            async fn vote(&self, ballot: &Ballot) -> Result<Vote, Error> {
                (**self).vote(ballot).await
            }

            async fn confirm(&self, claim: &Claim, token: FencingToken) -> Result<bool, Error> {
                (**self).confirm(claim, token).await
            }

            async fn standing(&self) -> Result<Standing, Error> {
                (**self).standing().await
            }

            async fn vouch(&self, quarantine: &Quarantine, max_ttl: Ttl) -> Result<bool, Error> {
                (**self).vouch(quarantine, max_ttl).await
            }
        }
    )*};
}

forward!(Arc, Box);
