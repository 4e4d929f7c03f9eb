//! Requests about documents: read, decide, write if nothing has changed, else repeat.

mod carry;
mod forced;
mod plan;
mod retention;
#[cfg(test)]
mod tests;
mod transaction;
mod turns;

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use lock_core::document::{Document, Visit};
use lock_core::{Backoff, Clock, Error, Key};

pub(crate) use self::forced::end_all;
pub(crate) use self::plan::{Ask, Expected, Known, Plan};
use self::plan::{Held, World};
pub(crate) use self::retention::Retention;
pub(crate) use self::transaction::{Reading, ranges};
pub(crate) use self::turns::{Turn, Turns};
use crate::core::Core;
use crate::hub::Place;
use crate::leases::Taken;
use crate::member::Member;

/// How many bytes of documents a request may write that adds a holder or a waiter.
///
/// etcd takes requests of 1.5 MiB by default. What is left is for the holders: the value that one of them stores, and
/// the few bytes by which a waiter grows when it becomes a holder; and for news.
const LONGEST: usize = 1024 * 1024;

/// Whether the lease of the claim has to get its whole time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refresh {
    Never,
    /// It does not if it got it a moment ago: the claim is new, and its deadline tells.
    IfNew,
    Always,
}

/// What came of a request.
#[derive(Debug)]
pub(crate) struct Done<T> {
    pub(crate) answer: T,
    /// How long before the request its lease got its whole time.
    pub(crate) late: Duration,
    /// Why the lease of the claim could not be given its whole time.
    pub(crate) failure: Option<Error>,
    /// Whether a step of the request has given the claim a lease of etcd.
    pub(crate) is_new: bool,
}

/// One request about one or several keys, with what it has found out so far.
pub(crate) struct Attempt<'a, F> {
    core: &'a Core,
    turns: &'a mut [Turn],
    asks: &'a [Ask<'a>],
    act: F,
    refresh: Refresh,
    /// The leases that were taken for the claims.
    taken: Vec<Option<Taken>>,
    /// Whether a step has given the claim a lease.
    is_new: Vec<bool>,
    /// The leases of etcd that were seen alive during this request.
    verified: BTreeSet<i64>,
    /// The leases whose keep-alive came so late that a transaction has to show that they live.
    rechecked: BTreeSet<i64>,
}

/// What a decision does to a document, for the request with this number.
pub(crate) trait Act<T>:
    Fn(usize, &mut Document<Member>, &mut Visit<'_, Member>) -> T + Sync
{
}

impl<T, F: Fn(usize, &mut Document<Member>, &mut Visit<'_, Member>) -> T + Sync> Act<T> for F {}

/// How a step has ended.
enum Step<T> {
    Done(Vec<Done<T>>),
    Again,
}

impl<'a, F> Attempt<'a, F> {
    pub(crate) fn new(
        core: &'a Core,
        turns: &'a mut [Turn],
        asks: &'a [Ask<'a>],
        refresh: Refresh,
        act: F,
    ) -> Self {
        let taken = asks.iter().map(|_| None).collect();
        let is_new = asks.iter().map(|_| false).collect();
        let (verified, rechecked) = (BTreeSet::new(), BTreeSet::new());
        Self { core, turns, asks, act, refresh, taken, is_new, verified, rechecked }
    }

    /// Decides until a decision stands. `settle` sees the plans before they are carried out. Decides nothing, and
    /// returns nothing, if the node has another record than a request expects.
    pub(crate) async fn run<T: Send>(
        mut self,
        settle: impl Fn(&mut [Plan<T>]) + Sync,
    ) -> Result<Vec<Done<T>>, Error>
    where
        F: Act<T>,
    {
        let mut backoff = Backoff::new(Duration::from_millis(1), Duration::from_millis(50));
        let mut attempts = 0_u32;
        loop {
            if let Step::Done(done) = self.step(&settle).await? {
                self.turns.iter_mut().for_each(|turn| turn.tidy());
                return Ok(done);
            }
            // Others change the document. So many attempts in a row fail only where many clients meet.
            attempts += 1;
            if attempts > 6 {
                tokio::time::sleep(backoff.fail_scattered_at_random()).await;
            }
        }
    }

    async fn step<T: Send>(
        &mut self,
        settle: &(impl Fn(&mut [Plan<T>]) + Sync),
    ) -> Result<Step<T>, Error>
    where
        F: Act<T>,
    {
        self.read_unknown().await?;
        let mut plans = self.plans()?;
        settle(&mut plans);
        plan::check_room(&plans, LONGEST)?;
        if self.take_leases(&plans).await? {
            return Ok(Step::Again);
        }
        let unverified: BTreeSet<i64> = plans
            .iter()
            .flat_map(|plan| &plan.counted)
            .copied()
            .filter(|id| !self.verified.contains(id))
            .collect();
        if unverified.len() > transaction::most(self.asks.len()) {
            self.verify(unverified).await?;
            return Ok(Step::Again);
        }
        self.note_places(&plans);
        let is_written = plans.iter().any(|plan| plan.is_changed)
            || self.turns.iter().any(|turn| turn.unsure.is_some());
        let is_known = unverified.is_empty() && self.turns.iter().all(|turn| turn.is_fresh);
        let is_guarded = self.asks.iter().any(|ask| ask.expects.is_some());
        if !is_written && is_known && !is_guarded {
            let kept = self.refresh_leases(&plans).await;
            return Ok(self.finish(plans, kept));
        }
        self.carry_out(plans, unverified).await
    }

    /// Reads the documents that were not seen yet.
    async fn read_unknown(&mut self) -> Result<(), Error> {
        let is_unknown = |turn: &Turn| turn.known.is_none();
        if !self.turns.iter().any(is_unknown) {
            return Ok(());
        }
        let keys: Vec<&Key> = self.asks.iter().map(|ask| ask.key).collect();
        let reading = Reading::new(keys, BTreeSet::new());
        let found = reading.read(&self.core.link, &self.core.names).await?;
        for (turn, known) in self.turns.iter_mut().zip(found.known) {
            turn.see(known, found.at);
        }
        Ok(())
    }

    fn plans<T>(&self) -> Result<Vec<Plan<T>>, Error>
    where
        F: Act<T>,
    {
        let over = self.core.over();
        let session = self.core.hub.session().filter(|id| !over.contains(id));
        let now = Clock::boot().now();
        let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let wall = u64::try_from(wall.as_millis()).unwrap_or(u64::MAX);
        let mut plans = Vec::with_capacity(self.asks.len());
        for (index, ask) in self.asks.iter().enumerate() {
            let unknown = Known::default();
            let known = self.turns[index].known.as_ref().unwrap_or(&unknown);
            let world = World {
                session,
                listens: self.core.hub.listens(ask.key),
                over: &over,
                queue_limit: self.core.queue_limit,
                number: self.core.number(),
                wall,
                claim: crate::limits().claim.duration(),
                now,
            };
            let lease = self.taken[index].as_ref().map(|taken| taken.id);
            let act = |document: &mut Document<Member>, visit: &mut Visit<'_, Member>| {
                (self.act)(index, document, visit)
            };
            // The claim may have asked again while its place waited for this turn to end.
            let ending = ask.ending.filter(|(claim, _)| !self.core.hub.has_place(claim));
            let ask = Ask { ending, ..*ask };
            let mut plan = plan::plan(known, &ask, &world, lease, act)?;
            if ask.is_ending {
                plan.trust_clock(|id| self.core.leases.lives(id, now));
            }
            if ask.leaves {
                plan.leave(known);
            }
            plans.push(plan);
        }
        Ok(plans)
    }

    /// Takes a lease for each claim that needs one. Returns whether that was so.
    async fn take_leases<T>(&mut self, plans: &[Plan<T>]) -> Result<bool, Error> {
        let mut has_changed = false;
        for (index, plan) in plans.iter().enumerate() {
            let Some(Held { lease, seconds, is_old }) = plan.held else { continue };
            let taken = self.taken[index].as_ref();
            let fits =
                lease.is_some() && (is_old || taken.is_some_and(|taken| taken.seconds == seconds));
            if !fits && taken.is_none_or(|taken| taken.seconds != seconds) {
                self.taken[index] = None;
                self.taken[index] = Some(self.core.leases.obtain(seconds).await?);
                has_changed = true;
            }
        }
        Ok(has_changed)
    }

    /// Asks which of these leases of etcd live.
    async fn verify(&mut self, ids: BTreeSet<i64>) -> Result<(), Error> {
        let ids: Vec<i64> = ids.into_iter().collect();
        for part in ids.chunks(transaction::ETCD) {
            let reading = Reading::new(Vec::new(), part.iter().copied().collect());
            let found = reading.read(&self.core.link, &self.core.names).await?;
            self.learn(&found.alive, &found.over);
        }
        Ok(())
    }

    fn learn(&mut self, alive: &BTreeSet<i64>, over: &BTreeSet<i64>) {
        self.verified.extend(alive);
        self.core.note_over(over);
        for slot in &mut self.taken {
            if slot.as_ref().is_some_and(|taken| over.contains(&taken.id))
                && let Some(taken) = slot.take()
            {
                taken.lose();
            }
        }
    }

    /// Notes the places that the claims get, before they get them: news may be faster than an answer.
    fn note_places<T>(&self, plans: &[Plan<T>]) {
        for (ask, plan) in self.asks.iter().zip(plans) {
            let (Some((claim, ttl)), Some(placed)) = (ask.waits, &plan.placed) else { continue };
            let place = Place {
                number: placed.number,
                ends: plan.now + ttl.for_place().duration(),
                claim: crate::limits().grant(ttl).duration(),
                is_granted: false,
            };
            self.core.hub.join(claim.clone(), place);
        }
    }
}
