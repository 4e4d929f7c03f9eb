//! What a request makes of a document, before anything is written. Pure.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::num::NonZeroU32;
use std::time::Duration;

use lock_core::document::{Audience, Document, Visit};
use lock_core::{Acquire, Claim, Error, ErrorKind, Hint, Instant, Key, OwnerToken, Result, Ttl};

use crate::leases;
use crate::member::{Member, Stands};
use crate::news::{Bell, News, What};

/// A document as it was read: its revision, and its bytes. Both are empty if there is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) revision: i64,
    pub(crate) bytes: Vec<u8>,
}

/// What a request is about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask<'a> {
    pub(crate) key: &'a Key,
    /// The claim that holds the key, or is to hold it.
    pub(crate) claim: Option<&'a Claim>,
    /// The claim that a conversion replaces.
    pub(crate) former: Option<&'a Claim>,
    /// The claim that may get a place, and its ttl.
    pub(crate) waits: Option<(&'a Claim, Ttl)>,
    /// The place of this client that ends, unless the claim has a place again.
    pub(crate) ending: Option<(&'a Claim, u32)>,
    /// Whether the answer depends on no holder but the claim itself.
    pub(crate) is_alone: bool,
    /// Whether the document stays as it is: in a full store, a renewal keeps the lease of etcd alive, and no more.
    pub(crate) writes_nothing: bool,
    /// Whether the request ends the claim, and no more: then a lease that lives by the clock is not looked at.
    pub(crate) is_ending: bool,
    /// Whether the request writes a document at rest though nothing has changed, so that the document goes with a lease.
    /// Then it writes no other document.
    pub(crate) leaves: bool,
    /// What the request needs to be decided at all.
    pub(crate) expects: Option<Expected<'a>>,
}

/// The record of the node that a vote expects, and the number of the connection that has shown the record to be the
/// present one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected<'a> {
    pub(crate) record: &'a str,
    pub(crate) connection: u64,
}

impl<'a> Ask<'a> {
    pub(crate) fn about(key: &'a Key) -> Self {
        Self {
            key,
            claim: None,
            former: None,
            waits: None,
            ending: None,
            is_alone: false,
            writes_nothing: false,
            is_ending: false,
            leaves: false,
            expects: None,
        }
    }

    pub(crate) fn of(claim: &'a Claim) -> Self {
        Self { claim: Some(claim), ..Self::about(&claim.key) }
    }

    /// A request of a holder whose answer depends on no other holder: nothing has to be known of their leases.
    pub(crate) fn of_holder(claim: &'a Claim) -> Self {
        Self { is_alone: true, ..Self::of(claim) }
    }

    pub(crate) fn waiting(self, request: &'a Acquire) -> Self {
        let waits = request.queue.then_some((&request.claim, request.ttl));
        Self { waits, ..self }
    }
}

/// What this client knows beside the document.
#[derive(Clone, Copy, Debug)]
pub(crate) struct World<'a> {
    pub(crate) session: Option<i64>,
    /// Whether this client would hear news of the key.
    pub(crate) listens: bool,
    /// The leases of etcd that are over.
    pub(crate) over: &'a HashSet<i64>,
    pub(crate) queue_limit: NonZeroU32,
    /// The number of a new place.
    pub(crate) number: u32,
    /// Milliseconds since 1970.
    pub(crate) wall: u64,
    /// How long a grant waits for its owner.
    pub(crate) claim: Duration,
    pub(crate) now: Instant,
}

/// A request that was decided on a document.
#[derive(Debug)]
pub(crate) struct Plan<T> {
    pub(crate) answer: T,
    pub(crate) document: Document<Member>,
    pub(crate) bytes: Vec<u8>,
    /// Whether the document has to be written.
    pub(crate) is_changed: bool,
    /// The leases of etcd with which the holders end that the decision has counted as alive.
    pub(crate) counted: BTreeSet<i64>,
    /// The leases of etcd that must live when the document is written: that of the claim, and the session of this
    /// client.
    pub(crate) own: BTreeSet<i64>,
    /// The sessions of the others that must live then.
    pub(crate) others: BTreeSet<i64>,
    pub(crate) told: BTreeMap<i64, Vec<News>>,
    pub(crate) bell: Bell,
    /// The lease of the claim, if it holds the key then.
    pub(crate) held: Option<Held>,
    /// The leases whose holds the decision has ended.
    pub(crate) freed: Vec<i64>,
    /// The place of the claim that waits then.
    pub(crate) placed: Option<Placed>,
    /// Whether there are more holders and waiters than before.
    pub(crate) is_longer: bool,
    /// When it was decided, before anything was sent.
    pub(crate) now: Instant,
}

/// The lease of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    /// `None`: the claim needs a lease of its own of so many seconds.
    pub(crate) lease: Option<i64>,
    pub(crate) seconds: i64,
    /// Whether the claim had this lease before.
    pub(crate) is_old: bool,
}

/// A place in the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Placed {
    /// `None` for a conversion.
    pub(crate) number: Option<u32>,
    /// The leases before the first claim in the queue. Empty if the claim is not the first.
    pub(crate) before: Vec<i64>,
}

impl<T> Plan<T> {
    /// Does not rely on the leases that the request gives back, as far as they live by the clock.
    ///
    /// A release needs no proof that its lease lives. Each later grant of the key changes the document, so the
    /// comparison of the revision fails, and the next decision sees that the claim is gone. If the document is
    /// unchanged, then no other claim had the key, also if an operator has ended the lease early. The next hold does
    /// not get that lease: the transaction that grants a lease of the pool compares the lease.
    pub(crate) fn trust_clock(&mut self, lives: impl Fn(i64) -> bool) {
        for id in self.freed.iter().filter(|id| lives(**id)) {
            self.own.remove(id);
            self.counted.remove(id);
        }
    }

    /// Writes the document if it is at rest, though nothing may have changed. Else makes nothing of the decision.
    pub(crate) fn leave(&mut self, known: &Known) {
        if self.document.is_at_rest() && known.revision > 0 {
            self.is_changed = true;
        } else {
            self.discard();
        }
    }

    /// Makes nothing of the decision.
    pub(crate) fn discard(&mut self) {
        self.is_changed = false;
        self.told.clear();
        self.own.clear();
        self.others.clear();
        self.bell = Bell::default();
        self.held = None;
        self.freed.clear();
        self.placed = None;
    }
}

/// The document with all that lives in it.
pub(crate) fn decode(
    known: &Known,
    ending: Option<u32>,
    world: &World<'_>,
) -> Result<Document<Member>> {
    if known.bytes.is_empty() {
        return Ok(Document::default());
    }
    let ends = |member: &Member| {
        let number = member.number();
        number.is_some() && number == ending && Some(member.session) == world.session
    };
    Document::decode(&known.bytes, world.now, |member: &Member, ttl| {
        let is_over = world.over.contains(&member.life()) || ends(member);
        (!is_over).then(|| ttl.duration())
    })
}

/// Decides a request. `lease` is the lease that was taken for its claim.
pub(crate) fn plan<T>(
    known: &Known,
    ask: &Ask<'_>,
    world: &World<'_>,
    lease: Option<i64>,
    act: impl FnOnce(&mut Document<Member>, &mut Visit<'_, Member>) -> T,
) -> Result<Plan<T>> {
    let mut document = decode(known, ask.ending.map(|(_, number)| number), world)?;
    let count = parties(&document);
    let before: Vec<Member> = document.holders().map(|(_, member)| member.clone()).collect();
    let first = document.waiters().next().map(|(owner, _)| owner);
    let existing = existing(&document, ask);
    let own = existing.as_ref().and_then(|(member, _)| member.lease());
    let client = client(world, lease.or(own));
    let place = place(&document, ask, world, own);
    let mut hearing = Hearing::new(ask.key, world);

    let visit = Visit::new(&client, world.now, world.now, &mut hearing);
    let mut visit = visit.waiting_as(&place).queueing_at_most(world.queue_limit);
    let answer = act(&mut document, &mut visit);

    if let Some(next) = successor(&document, first, ask.ending.is_some()) {
        hearing.tell(next, Hint::Expired);
    }
    let placed = ask.waits.and_then(|(claim, _)| placed(&document, claim, world));
    let (mut own, others, told, bell) = hearing.end();
    own.extend(existing.iter().map(|(member, _)| member.life()));
    own.extend(world.session.filter(|_| placed.is_some()));
    let bytes = document.encode();
    let held = ask.claim.and_then(|claim| held(&document, claim, existing.as_ref()));
    let freed = freed(&before, &document);
    let is_longer = parties(&document) > count;
    Ok(Plan {
        answer,
        document,
        is_changed: !ask.writes_nothing && bytes != *bytes_of(known),
        bytes,
        counted: counted(ask, &before, existing.as_ref()),
        own,
        others,
        told,
        bell,
        held,
        freed,
        placed,
        is_longer,
        now: world.now,
    })
}

/// How many hold the key or wait.
fn parties(document: &Document<Member>) -> usize {
    document.holders().count() + document.waiters().count()
}

/// This client, as the party of a hold with this lease.
fn client(world: &World<'_>, lease: Option<i64>) -> Member {
    Member { session: world.session.unwrap_or(0), stands: Stands::Lease(lease.unwrap_or(0)) }
}

/// The leases of etcd on which the answer depends: those of all holders before the request, or that of the claim alone.
fn counted(ask: &Ask<'_>, before: &[Member], own: Option<&(Member, i64)>) -> BTreeSet<i64> {
    if ask.is_alone {
        return own.iter().map(|(member, _)| member.life()).collect();
    }
    before.iter().map(Member::life).collect()
}

/// Refuses what makes documents too long for etcd, before anything is sent. A holder can always renew, store and
/// release.
pub(crate) fn check_room<T>(plans: &[Plan<T>], longest: usize) -> Result<()> {
    let written = || plans.iter().filter(|plan| plan.is_changed);
    let len: usize = written().map(|plan| plan.bytes.len()).sum();
    if len > longest && (plans.len() > 1 || written().any(|plan| plan.is_longer)) {
        let message = format!("no room for another holder or waiter: {len} of {longest} bytes");
        return Err(Error::new(ErrorKind::QueueFull, message));
    }
    Ok(())
}

/// The document as it was read, or an empty one.
pub(super) fn bytes_of(known: &Known) -> Cow<'_, [u8]> {
    match known.bytes.is_empty() {
        true => Cow::Owned(empty()),
        false => Cow::Borrowed(&known.bytes),
    }
}

/// An empty document.
pub(super) fn empty() -> Vec<u8> {
    Document::<Member>::default().encode()
}

/// The party of the claim as it holds the key before the request, and the seconds of its lease.
fn existing(document: &Document<Member>, ask: &Ask<'_>) -> Option<(Member, i64)> {
    let claims = [ask.claim, ask.former].into_iter().flatten();
    let (member, ttl) = claims.filter_map(|claim| document.holder(claim)).next()?;
    Some((member.clone(), leases::seconds(ttl)))
}

/// The first claim in the queue, which looks after the leases of the holders, if the `former` one has left, or a place
/// ends.
fn successor(
    document: &Document<Member>,
    former: Option<OwnerToken>,
    is_ending: bool,
) -> Option<&Member> {
    let has_left = |owner| document.holders().chain(document.waiters()).all(|(it, _)| it != owner);
    let is_told = is_ending || former.is_some_and(has_left);
    document.waiters().next().filter(|_| is_told).map(|(_, member)| member)
}

/// The leases of the holders of before that no holder and no conversion has now.
fn freed(before: &[Member], document: &Document<Member>) -> Vec<i64> {
    let members = document.holders().chain(document.waiters()).map(|(_, member)| member);
    let after: HashSet<i64> = members.filter_map(Member::lease).collect();
    before.iter().filter_map(Member::lease).filter(|id| !after.contains(id)).collect()
}

/// The party of a place that the request may get. A place of this claim keeps its number, and when it came.
fn place(
    document: &Document<Member>,
    ask: &Ask<'_>,
    world: &World<'_>,
    own: Option<i64>,
) -> Member {
    let session = world.session.unwrap_or(0);
    if let (Some(_), Some(lease)) = (ask.former, own) {
        // While an upgrade waits, its owner goes on holding the key. The grant must not end before that lease.
        return Member { session, stands: Stands::Lease(lease) };
    }
    let old = ask.waits.and_then(|(claim, _)| document.place(claim));
    let stands = match old {
        Some(Member { session: its, stands: Stands::Session { number, since } }) => {
            let number = if *its == session { *number } else { world.number };
            Stands::Session { number, since: *since }
        }
        _ => Stands::Session { number: world.number, since: world.wall },
    };
    Member { session, stands }
}

/// The lease that a claim has after the decision.
fn held(
    document: &Document<Member>,
    claim: &Claim,
    existing: Option<&(Member, i64)>,
) -> Option<Held> {
    let (member, ttl) = document.holder(claim)?;
    let seconds = leases::seconds(ttl);
    // A grant that was handed over just now, to a claim that will ask again.
    let lease = member.lease()?;
    let old = existing.filter(|(former, _)| former.lease() == Some(lease));
    let is_old = old.is_some();
    let fits = lease != 0 && old.is_none_or(|(_, before)| *before == seconds);
    Some(Held { lease: fits.then_some(lease), seconds, is_old })
}

fn placed(document: &Document<Member>, claim: &Claim, world: &World<'_>) -> Option<Placed> {
    /// More leases than this are not watched. The claim asks again when the first of them ends.
    const MOST_WATCHED: usize = 16;
    // A claim that was handed the key in the same step has to ask again, too.
    let granted = document.holder(claim).map(|(member, _)| member);
    let granted = granted.filter(|member| member.lease().is_none());
    let member = document.place(claim).or(granted);
    let member = member.filter(|it| Some(it.session) == world.session)?;
    let is_first = document.waiters().next().is_some_and(|(_, first)| first == member);
    let holders = document.holders().filter_map(|(_, member)| member.lease());
    let before = if is_first { holders.take(MOST_WATCHED).collect() } else { Vec::new() };
    Some(Placed { number: member.number(), before })
}

/// Who can be told of something, and what they were told.
struct Hearing<'a> {
    key: &'a Key,
    world: &'a World<'a>,
    /// The sessions that the decision counts as alive.
    relied: RefCell<BTreeSet<i64>>,
    told: BTreeMap<i64, Vec<News>>,
    bell: Bell,
}

impl<'a> Hearing<'a> {
    fn new(key: &'a Key, world: &'a World<'a>) -> Self {
        let (relied, told) = (RefCell::default(), BTreeMap::new());
        Self { key, world, relied, told, bell: Bell::default() }
    }

    /// The session of this client if the decision counts it as alive, those of others, and what was said.
    fn end(self) -> (BTreeSet<i64>, BTreeSet<i64>, BTreeMap<i64, Vec<News>>, Bell) {
        let mut others = self.relied.into_inner();
        others.extend(self.told.keys());
        let own = self.world.session.filter(|id| others.remove(id));
        (own.into_iter().collect(), others, self.told, self.bell)
    }
}

impl Audience<Member> for Hearing<'_> {
    fn reach(&self, member: &Member) -> bool {
        let World { session, listens, over, .. } = *self.world;
        let is_mine = Some(member.session) == session;
        let hears =
            member.session != 0 && if is_mine { listens } else { !over.contains(&member.session) };
        if hears {
            self.relied.borrow_mut().insert(member.session);
        }
        hears
    }

    fn tell(&mut self, member: &Member, hint: Hint) {
        if member.session == 0 || self.world.over.contains(&member.session) {
            return;
        }
        let hint = match hint {
            // A grant here waits longer for its owner than the document counts.
            Hint::Next { owner, .. } => Hint::Next { owner, after: self.world.claim },
            hint => hint,
        };
        if let Some(what) = What::of(hint, member) {
            let news = News { key: self.key.clone(), what };
            self.told.entry(member.session).or_default().push(news);
        }
    }

    fn tell_all(&mut self, _: &Member, hint: Hint) -> u32 {
        self.bell.note(&hint);
        0
    }
}
