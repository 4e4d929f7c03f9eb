//! The nodes of a quorum.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::{Acquire, Backend, Claim, Error, ErrorKind, FencingToken, Grant, OwnerToken, Ttl};

/// A store that can be one node of a quorum. A quorum holds a lock by the votes of a majority.
///
/// The node has the four verbs of any store. A quorum needs two more capabilities of it. The tokens of several
/// nodes can be brought into step. And a node that may have forgotten its leases says so, and abstains
/// until those leases are certainly over.
///
/// **Voting**
/// - A vote MUST be given, renewed and released, and MUST end, by the laws of a lease in the contract of
///   [`Backend`] (`a_vote_is_a_lease`), including those under *Sharing*
///   (`a_vote_keeps_to_its_mode`).
/// - A ballot MUST NOT get a place in the node's own queue (`a_vote_gets_no_place`), and MUST NOT overtake a
///   waiter there (`a_vote_overtakes_no_waiter`).
/// - The last token of a vote MUST be the ballot's [`floor`](Ballot::floor) if the floor is
///   above all tokens that the node gave out before (`votes_agree_on_their_tokens`), and else the next number
///   that the node never gave out. A vote MAY bring fewer tokens than were asked for. It MUST NOT bring a token
///   that the node gave out before (`tokens_increase_from_vote_to_vote`). A floor more than an hour ahead of the
///   node's clock MUST be taken as one an hour ahead (`a_wild_floor_is_bounded`).
/// - A ballot that is repeated MUST bring its first tokens again (`a_repeated_vote_is_the_same`).
/// - The requests of one client for a vote, its renewal, its confirmation and its release MAY arrive in any order, over
///   any number of connections. A renewal or a confirmation that arrives before its vote, or after its release, MUST have
///   no effect. A release that arrives late, or before its vote, MUST end no other ballot, not even one with an equal
///   [tag](OwnerToken::tag) (`a_late_release_ends_no_other_ballot`).
/// - A refusal MUST name the holder in one way on every node: the holder whose lease ends last,
///   or the first claim in the queue if the key is free
///   (`a_refusal_names_the_holder`).
/// - A node MUST vote for leases of its [shortest](Self::shortest_ttl) length (`a_vote_for_the_shortest_lease`).
/// - Permits MUST be refused as [`ErrorKind::Unsupported`](crate::ErrorKind) (`permits_are_not_voted_on`).
///
/// **Confirming**
/// - A token MUST be confirmed if and only if the claim still holds the key and the node gave out no higher
///   token (`a_token_is_confirmed_while_its_lease_is_held`, `a_stale_token_is_not_confirmed`). Every later
///   grant MUST have higher tokens (`a_confirmed_token_is_never_reissued`).
///
/// **Quarantine**
/// - A node has a *record* of its [standing](Standing). The node MUST vote on a ballot that
///   [expects](Ballot::expecting) a standing only while the record is the one of that standing
///   (`a_ballot_for_another_record_gets_no_vote`). The record MUST be another one after the node has restarted
///   (`a_restarted_node_abstains`), and after it dropped its leases in any other way (`a_node_that_forgot_abstains`).
/// - A node for which no client has vouched MUST abstain from ballots that expect a standing
///   (`an_unknown_node_abstains`). Such a ballot MUST NOT grant or end any lease
///   (`an_abstention_holds_nothing`). Every client MUST see one quarantine
///   (`a_quarantine_is_the_same_for_all`).
/// - The node votes again, for every client, once one client has vouched for it (`a_node_votes_once_vouched_for`).
///   Vouching for a quarantine that another has followed MUST have no effect
///   (`a_stale_vouch_has_no_effect`).
/// - A quarantine MUST end by itself twice the longest lease after the first client looked, by the clock of the node
///   (`a_quarantine_ends_by_the_clock_of_the_node`). If the terms of one client rule that out, that quarantine
///   MUST NOT end by itself (`a_quarantine_without_a_clock_goes_on`).
/// - A lease longer than any that was vouched for MUST be refused as
///   [`ErrorKind::InvalidConfig`](crate::ErrorKind), with both times in the message
///   (`a_lease_longer_than_vouched_for_is_refused`). Vouching with a longer time MUST allow the lease. Vouching
///   with a shorter time MUST NOT forbid any lease (`vouching_again_only_lengthens`).
/// - Two handles of one server MUST name one [`Server`], and handles of two servers MUST name different ones
///   (`a_server_is_told_from_another`).
///
/// **Membership**
/// - A node that was [reassigned](Self::reassign) MUST abstain from ballots for the earlier membership, and vote for
///   the next one at once (`a_reassigned_node_votes_for_its_new_members`). Reassigning from a membership that the
///   node does not have MUST have no effect (`only_the_named_membership_is_replaced`).
/// - A node that was [admitted](Self::admit) MUST be in a new quarantine (`an_admitted_node_is_quarantined`).
///
/// The protocol for the tokens is that of a timestamp object over majority registers (Ellen, Fatourou and
/// Ruppert, *The space complexity of unbounded timestamps*, 2008; Attiya, Bar-Noy and Dolev, *Sharing memory
/// robustly in message-passing systems*, 1995). Vouching waits as the DynamoDB lock client does: for the time
/// of a lease on the observer's own clock.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a node of a quorum",
    label = "a quorum needs nodes whose tokens can be brought into step",
    note = "implement `lock_core::QuorumNode` for it"
)]
#[async_trait]
pub trait QuorumNode: Backend {
    /// Asks this node for its vote, which is a lease on the node.
    ///
    /// The node queues no ballot, whether or not the request asks for [a place](Acquire::queue).
    ///
    /// # Errors
    ///
    /// As [`try_acquire`](Backend::try_acquire).
    ///
    /// # Cancel safety
    ///
    /// As [`try_acquire`](Backend::try_acquire): release the claim afterwards.
    async fn vote(&self, ballot: &Ballot) -> Result<Vote, Error>;

    /// Raises this node's counter to `token`, the last token that the quorum gave to this claim. `false` if
    /// the claim does not hold the key here any more, or if the node has given out a higher token since.
    ///
    /// # Errors
    ///
    /// Any error of the store or of the connection to it.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves open whether the counter was raised. That is harmless, and so is repeating
    /// the call.
    async fn confirm(&self, claim: &Claim, token: FencingToken) -> Result<bool, Error>;

    /// Which server this is, and whether it is in quarantine.
    ///
    /// If the node has no record of its standing, or has restarted since, this begins a quarantine under these terms. A
    /// node that has restarted keeps its membership.
    /// If the node is in quarantine, this ends the quarantine where its time is over by the clock of the node. The
    /// longest [`max_ttl`](Terms::max_ttl) that any client named in the quarantine counts.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`](crate::ErrorKind) or [`ErrorKind::Denied`](crate::ErrorKind) if the node cannot
    /// tell. Ballots must then not [expect](Ballot::expecting) a standing. Else any error of the store or of the
    /// connection to it.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect, except that a quarantine may have begun or ended.
    async fn standing(&self, terms: &Terms) -> Result<Standing, Error>;

    /// Ends a quarantine. The caller vouches that no lease that the node may have forgotten lives any more.
    /// `false` if another quarantine has begun since; then nothing was done.
    ///
    /// Wait for `max_ttl` and the drift of clocks after the arrival of the answer that first showed the
    /// quarantine, unless this is a new deployment. From then on, and until it forgets again, the node
    /// votes for leases of at most `max_ttl`. To allow longer leases, repeat the call with a longer time.
    ///
    /// The membership may have changed while the caller watched the node. This makes no difference: a lease that the node
    /// has forgotten is over after the longest lease, whichever quorum its holder used.
    ///
    /// # Errors
    ///
    /// Any error of the store or of the connection to it.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves open whether the quarantine ended. Repeating the call is harmless.
    async fn vouch(&self, quarantine: &Quarantine, max_ttl: Ttl) -> Result<bool, Error>;

    /// Replaces the membership `from` in the record by that of the terms, and returns the standing after that. If the
    /// record names neither membership, nothing changes. A node without a record begins a quarantine under the terms.
    ///
    /// # Errors
    ///
    /// As [`standing`](Self::standing).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves open whether the membership was replaced. Repeating the call is harmless.
    async fn reassign(&self, from: &Membership, terms: &Terms) -> Result<Standing, Error>;

    /// Begins a new quarantine under these terms, whatever the standing of the node was.
    ///
    /// # Errors
    ///
    /// As [`standing`](Self::standing).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves open whether a quarantine began.
    async fn admit(&self, terms: &Terms) -> Result<Standing, Error>;

    /// The shortest lease for which this node votes: [`Ttl::MIN`] by default.
    ///
    /// A quorum asks each node for no less. The nodes of one quorum may have different limits.
    fn shortest_ttl(&self) -> Ttl {
        Ttl::MIN
    }
}

/// The request to one node of a quorum.
///
/// # Examples
///
/// ```
/// use lock_core::memory::MemoryBackend;
/// use lock_core::{Acquire, Ballot, Claim, FencingToken, Key, OwnerToken, Ttl};
/// use lock_core::{Ending, Membership, QuorumNode, Terms, Vote};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> lock_core::Result<()> {
/// let node = MemoryBackend::new();
/// let members = Membership::of(["paris", "dublin", "milan"]);
/// let terms = Terms::new(members, Ttl::DEFAULT).ending(Ending::ByClock);
/// let standing = node.standing(&terms).await?;
/// // An operator says that the node has never held leases.
/// node.vouch(&standing.quarantine, Ttl::DEFAULT).await?;
/// let standing = node.standing(&terms).await?;
/// assert!(standing.votes_for(Ttl::DEFAULT)?);
/// println!("{} is past {}", standing.server.as_str(), standing.quarantine.as_str());
///
/// let claim = Claim::exclusive(Key::new("stock/apples")?, OwnerToken::generate()?);
/// let request = Acquire::new(claim, Ttl::DEFAULT);
/// let ballot = Ballot::new(request, FencingToken::new(0)).expecting(standing);
/// let Vote::Granted(grant) = node.vote(&ballot).await? else { unreachable!("the key is free") };
/// assert!(node.confirm(&ballot.request.claim, grant.tokens.last()).await?);
/// assert_eq!(node.shortest_ttl(), Ttl::MIN);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Ballot {
    /// The lease. Its [`queue`](Acquire::queue) has no meaning here.
    pub request: Acquire,
    /// The last token that the node should give out for the lease: one number for all nodes.
    pub floor: FencingToken,
    /// The standing that the node must have to vote. `None` if the node votes in any case.
    pub expects: Option<Arc<Standing>>,
}

impl Ballot {
    /// A ballot on which every node votes, even if it may have forgotten leases.
    pub fn new(request: Acquire, floor: FencingToken) -> Self {
        Self { request, floor, expects: None }
    }

    /// Has the node abstain unless this is its standing, and the node is not in quarantine.
    #[must_use]
    pub fn expecting(mut self, standing: impl Into<Arc<Standing>>) -> Self {
        self.expects = Some(standing.into());
        self
    }
}

/// What a client expects of the nodes of its quorum. All clients of the nodes must have these terms.
///
/// The [example](Ballot#examples) of a ballot shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Terms {
    /// The nodes of the quorum.
    pub membership: Membership,
    /// The longest lease.
    pub max_ttl: Ttl,
    /// Whether the clock of a node may end a quarantine of the node.
    pub ending: Ending,
}

impl Terms {
    /// The terms of a quorum whose nodes may end their quarantines by their clocks.
    pub fn new(membership: Membership, max_ttl: Ttl) -> Self {
        Self { membership, max_ttl, ending: Ending::ByClock }
    }

    /// These terms with another rule for the end of a quarantine.
    #[must_use]
    pub fn ending(mut self, ending: Ending) -> Self {
        self.ending = ending;
        self
    }
}

/// What a client says about the end of a quarantine by the clock of the node.
///
/// It is a part of the [`Terms`]. The [example](Ballot#examples) of a ballot shows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ending {
    /// The quarantine ends if its time is over.
    ByClock,
    /// The quarantine does not end now. It may end when a client looks later.
    Later,
    /// No clock ends this quarantine, whatever other clients say.
    Never,
}

/// The set of nodes that make a quorum, as a hash of their names.
///
/// The [example](Ballot#examples) of a ballot shows it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Membership(Box<str>);

impl Membership {
    /// The membership of the nodes with these names, in any order.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_core::Membership;
    ///
    /// assert_eq!(Membership::of(["a", "b", "c"]), Membership::of(["c", "a", "b"]));
    /// assert_ne!(Membership::of(["a", "b", "c"]), Membership::of(["a", "b", "d"]));
    /// ```
    pub fn of<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let mut names: Vec<_> = names.into_iter().collect();
        names.sort_unstable();
        // 96 bits, because a collision would merge two quorums. An owner token has another length, so that neither is
        // taken for the other.
        let hash = |seed: u64| {
            let mut hash = seed;
            for byte in names.iter().flat_map(|name| name.bytes().chain([0xff])) {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
                hash ^= hash >> 29;
            }
            hash
        };
        let (first, second) = (hash(0xcbf2_9ce4_8422_2325), hash(0x9e37_79b9_7f4a_7c15));
        Self(format!("{first:016x}{:08x}", second >> 32).into())
    }

    /// No quorum has this membership: a node that is being replaced has it.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_core::Membership;
    ///
    /// let members = Membership::of(["a", "b", "c"]);
    /// assert_eq!(Membership::from_text(members.as_str()), Some(members));
    /// assert_eq!(Membership::from_text("-"), Some(Membership::none()));
    /// ```
    pub fn none() -> Self {
        Self("-".into())
    }

    /// The membership with this text, from a record: 24 hexadecimal digits, or `-` for [none](Self::none).
    pub fn from_text(text: &str) -> Option<Self> {
        let is_hash = text.len() == 24 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        (is_hash || text == "-").then(|| Self(text.into()))
    }

    /// The text in a record.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Membership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Membership({})", self.0)
    }
}

/// The answer of one node of a quorum.
///
/// The [example](Ballot#examples) of a ballot shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "an ignored vote holds the lock until its lease ends"]
pub enum Vote {
    /// The node granted this lease, with tokens of the node, which are not those of the quorum's grant.
    Granted(Grant),
    /// Another owner holds the key here, or waits for it in the node's own queue.
    Busy {
        /// The holder whose lease ends last, or the first waiter if the key is free; `None` if the node cannot
        /// tell.
        holder: Option<OwnerTag>,
        /// When the lease that is in the way ends unless it is renewed; `None` if it has no end.
        retry_after: Option<Duration>,
    },
    /// The node is in quarantine, or does not have the standing that the ballot expects. The node does not vote.
    Abstains,
}

/// Which server a node is, and whether it is in quarantine.
///
/// The [example](Ballot#examples) of a ballot shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Standing {
    /// The server.
    pub server: Server,
    /// The present quarantine, or the last one.
    pub quarantine: Quarantine,
    /// The longest lease for which the node votes; `None` while it is in quarantine.
    pub max_ttl: Option<Ttl>,
    /// The quorum of which the node is a member.
    pub membership: Membership,
    /// The text of the node's record, as the node compares it. Only the node knows its form.
    pub record: Box<str>,
}

impl Standing {
    /// A server, its latest quarantine, and the longest lease that it grants if that quarantine is over, as the node
    /// has them in its record.
    pub fn new(
        server: Server,
        quarantine: Quarantine,
        max_ttl: Option<Ttl>,
        membership: Membership,
        record: impl Into<Box<str>>,
    ) -> Self {
        Self { server, quarantine, max_ttl, membership, record: record.into() }
    }

    /// Whether a node with this standing votes for a lease of this length.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`](crate::ErrorKind) if the lease is longer than any that was vouched for.
    pub fn votes_for(&self, ttl: Ttl) -> Result<bool, Error> {
        match self.max_ttl {
            Some(max) if ttl > max => {
                let (ttl, max) = (ttl.duration(), max.duration());
                Err(Error::new(
                    ErrorKind::InvalidConfig,
                    format!("a lease of {ttl:?} is longer than the {max:?} that were vouched for"),
                ))
            }
            max_ttl => Ok(max_ttl.is_some()),
        }
    }
}

/// One run of one server. After a restart it is another `Server`.
///
/// The [example](Ballot#examples) of a ballot shows it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Server(Box<str>);

impl Server {
    /// The server with this name. No other server has the name, and this one had it in no earlier run.
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

/// A period in which a node abstains from ballots that expect a standing. A new quarantine begins whenever the node may
/// have forgotten leases.
///
/// The [example](Ballot#examples) of a ballot shows it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Quarantine(Box<str>);

impl Quarantine {
    /// The quarantine with this name. No other quarantine of any server has the name.
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

/// The public part of an [`OwnerToken`]. It tells one holder from another, does not differ between nodes, and proves
/// no ownership.
///
/// # Examples
///
/// ```
/// use lock_core::{OwnerTag, OwnerToken};
///
/// let owner = OwnerToken::from_bytes([7; 16]);
/// assert_eq!(OwnerTag::of_stored(owner.expose()), Some(owner.tag()));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnerTag(u32);

impl OwnerTag {
    /// The tag with these 32 bits.
    pub const fn new(bits: u32) -> Self {
        Self(bits)
    }

    /// The tag of an owner that another client has stored; `None` if that is not an owner token of this
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
    /// assert_eq!(OwnerTag::of_stored(b"another format"), None);
    /// ```
    pub fn of_stored(owner: &[u8]) -> Option<Self> {
        let is_ours = owner.len() == 32 && owner.iter().all(u8::is_ascii_hexdigit);
        let digits = std::str::from_utf8(owner.get(..8)?).ok()?;
        is_ours.then(|| u32::from_str_radix(digits, 16).ok().map(Self)).flatten()
    }
}

impl OwnerToken {
    /// The public part of this token: its first 32 bits.
    pub fn tag(&self) -> OwnerTag {
        let digits = self.expose()[..8].iter();
        let value = |digit: u8| char::from(digit).to_digit(16).unwrap_or(0);
        OwnerTag(digits.fold(0, |bits, &digit| bits << 4 | value(digit)))
    }

    /// A new owner token with the [tag](Self::tag) and the [client](Self::client) of this one: for another ballot of
    /// one claim.
    ///
    /// # Errors
    ///
    /// As [`generate`](Self::generate).
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_core::OwnerToken;
    ///
    /// let owner = OwnerToken::generate()?;
    /// let sibling = owner.sibling()?;
    /// assert_eq!((sibling.tag(), sibling.client()), (owner.tag(), owner.client()));
    /// assert_ne!(sibling, owner);
    /// # Ok::<(), lock_core::Error>(())
    /// ```
    pub fn sibling(&self) -> Result<Self, Error> {
        let bytes = |owner: &Self| {
            let digit = |at: usize| char::from(owner.expose()[at]).to_digit(16).unwrap_or(0) as u8;
            std::array::from_fn(|at| digit(2 * at) << 4 | digit(2 * at + 1))
        };
        let mut sibling: [u8; 16] = bytes(&Self::generate()?);
        sibling[..4].copy_from_slice(&bytes(self)[..4]);
        Ok(Self::from_bytes(sibling).of_client(self.client()))
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

            async fn standing(&self, terms: &Terms) -> Result<Standing, Error> {
                (**self).standing(terms).await
            }

            async fn vouch(&self, quarantine: &Quarantine, max_ttl: Ttl) -> Result<bool, Error> {
                (**self).vouch(quarantine, max_ttl).await
            }

            async fn reassign(&self, from: &Membership, terms: &Terms) -> Result<Standing, Error> {
                (**self).reassign(from, terms).await
            }

            async fn admit(&self, terms: &Terms) -> Result<Standing, Error> {
                (**self).admit(terms).await
            }

            fn shortest_ttl(&self) -> Ttl {
                (**self).shortest_ttl()
            }
        }
    )*};
}

forward!(Arc, Box);
