//! How plans are carried out.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::future::join_all;
use lock_core::{Clock, Error, Key};

use super::plan::Plan;
use super::transaction::{self, Terms};
use super::turns::Seen;
use super::{Act, Attempt, Done, Known, Refresh, Step};
use crate::core::Core;
use crate::failure::{self, Fault};
use crate::leases::Taken;
use crate::link::{Compare, Operation, Transaction};
use crate::news::{self, News};

/// What came of the renewal of a lease: `None` if there was none.
pub(super) type Kept = Option<Renewed>;

/// The answer to a keep-alive.
pub(super) struct Renewed {
    /// The seconds that the lease has then; `None` if it is over.
    left: Result<Option<i64>, Fault>,
    /// Whether the former time of the lease may have been over at the answer. Then the answer is no proof: etcd also
    /// gives it for a lease that it ends already.
    is_late: bool,
}

impl<F> Attempt<'_, F> {
    /// Carries out the plans if nothing has changed. Else learns what has.
    pub(super) async fn carry_out<T: Send>(
        &mut self,
        plans: Vec<Plan<T>>,
        unverified: BTreeSet<i64>,
    ) -> Result<Step<T>, Error>
    where
        F: Act<T>,
    {
        let core = self.core;
        let retention = self.retention(&plans).await;
        let taken = self.used_leases(&plans);
        let unplanted = taken.iter().filter(|(_, is_planted)| !is_planted);
        let unplanted: BTreeSet<i64> = unplanted.map(|(id, _)| *id).collect();
        let terms = Terms { names: &core.names, unverified, taken, retention };
        let seen: Vec<&Seen> = self.turns.iter().map(|turn| &**turn).collect();
        let writing = transaction::write(self.asks, &seen, &plans, &terms);
        let unsure: Vec<_> = self.turns.iter().map(|turn| turn.unsure).collect();
        self.note_sent(&plans);
        let connection = self.asks.iter().find_map(|ask| ask.expects).map(|it| it.connection);
        let (outcome, kept) = tokio::join!(
            core.link.transact_on(connection, &writing.transaction),
            self.refresh_leases(&plans)
        );
        let answer = match outcome {
            Ok(answer) => answer,
            Err(fault) => return self.failed(fault, retention, &unplanted, unsure).await,
        };
        self.taken.iter_mut().flatten().for_each(Taken::unsend);
        if !answer.succeeded {
            let found = writing.reading.found(answer)?;
            self.learn(&found.alive, &found.over);
            for (turn, known) in self.turns.iter_mut().zip(found.known) {
                turn.see(known, found.at);
            }
            return Ok(if found.is_another { Step::Done(Vec::new()) } else { Step::Again });
        }
        self.note_success(&plans, writing.later, answer.header.map_or(0, |it| it.revision)).await;
        Ok(self.finish(plans, kept))
    }

    /// The transaction has failed. `unsure` is what the turns were unsure of before.
    async fn failed<T>(
        &mut self,
        fault: Fault,
        retention: i64,
        unplanted: &BTreeSet<i64>,
        unsure: Vec<Option<i64>>,
    ) -> Result<Step<T>, Error> {
        let is_about_room = failure::is_about_room(&fault.error);
        if !fault.lease_is_over && !is_about_room {
            return Err(fault.error);
        }
        // etcd does not carry the transaction out after this answer. So the next request may succeed without a write.
        self.turns.iter_mut().zip(unsure).for_each(|(turn, unsure)| turn.unsure = unsure);
        if is_about_room {
            // etcd may have carried it out before this answer, and the claim may hold the lock by its lease. So the
            // lease stays marked as sent, and the next request reads the documents.
            self.turns.iter_mut().for_each(|turn| turn.known = None);
            return Err(fault.error);
        }
        self.taken.iter_mut().flatten().for_each(Taken::unsend);
        // It is one of those that the transaction attaches keys to, and does not compare.
        self.core.retention.forget(retention).await;
        self.learn(&BTreeSet::new(), unplanted);
        Ok(Step::Again)
    }

    /// The lease for what these plans leave. 0 if they leave nothing.
    async fn retention<T>(&self, plans: &[Plan<T>]) -> i64 {
        let leaves = |turn: &Seen, plan: &Plan<T>| {
            let is_left = plan.document.is_at_rest() && transaction::written(turn, plan).is_some();
            is_left || plan.bell.rings()
        };
        let each = self.asks.iter().zip(self.turns.iter()).zip(plans);
        let leaving = each.filter(|((_, turn), plan)| leaves(turn, plan));
        let locks: Vec<&Key> = leaving.map(|((ask, _), _)| ask.key).collect();
        match locks.is_empty() {
            true => 0,
            false => self.core.retention.obtain(&self.core.link, &locks).await,
        }
    }

    /// The leases that were taken for these plans, and whether the key of each was written.
    fn used_leases<T>(&self, plans: &[Plan<T>]) -> Vec<(i64, bool)> {
        let used: BTreeSet<i64> = plans.iter().filter_map(|plan| plan.held?.lease).collect();
        let taken = self.taken.iter().flatten().filter(|taken| used.contains(&taken.id));
        taken.map(|taken| (taken.id, self.core.leases.is_planted(taken.id))).collect()
    }

    /// From now on until there is an answer, the transaction may be carried out.
    fn note_sent<T>(&mut self, plans: &[Plan<T>]) {
        for (turn, plan) in self.turns.iter_mut().zip(plans) {
            if transaction::written(turn, plan).is_some() {
                turn.send();
            }
        }
        self.taken.iter_mut().flatten().for_each(Taken::send);
    }

    /// The transaction was carried out, at this revision.
    async fn note_success<T>(
        &mut self,
        plans: &[Plan<T>],
        later: BTreeMap<i64, Vec<News>>,
        revision: i64,
    ) {
        let core = self.core;
        for (turn, plan) in self.turns.iter_mut().zip(plans) {
            match transaction::written(turn, plan).map(Cow::into_owned) {
                Some(bytes) => turn.see(Known { revision, bytes }, revision),
                None => turn.confirm(revision),
            }
        }
        for ((slot, plan), is_new) in self.taken.iter_mut().zip(plans).zip(&mut self.is_new) {
            let lease = plan.held.and_then(|held| held.lease);
            if slot.as_ref().is_some_and(|taken| Some(taken.id) == lease)
                && let Some(taken) = slot.take()
            {
                core.leases.plant(taken.id);
                taken.keep();
                *is_new = true;
            }
        }
        for id in plans.iter().flat_map(|plan| &plan.freed) {
            core.leases.release(*id);
        }
        tell(core, later).await;
    }

    /// Gives the leases of the claims their whole time, where that is needed.
    pub(super) async fn refresh_leases<T>(&self, plans: &[Plan<T>]) -> Vec<Kept> {
        join_all(plans.iter().map(|plan| self.refresh_lease(plan))).await
    }

    async fn refresh_lease<T>(&self, plan: &Plan<T>) -> Kept {
        let held = plan.held?;
        let lease = held.lease?;
        let leases = &self.core.leases;
        let age = leases
            .last_refreshed(lease)
            .map_or(Duration::MAX, |it| plan.now.saturating_duration_since(it));
        let seconds = u64::try_from(held.seconds).unwrap_or(0);
        let is_due = match self.refresh {
            Refresh::Never => false,
            Refresh::IfNew if !held.is_old => age > Duration::from_secs(seconds) / 10,
            Refresh::IfNew | Refresh::Always => !age.is_zero(),
        };
        if !is_due {
            return None;
        }
        let left = leases.refresh(lease, self.core.limit).await;
        let age = age.saturating_add(Clock::boot().now().saturating_duration_since(plan.now));
        Some(Renewed { left, is_late: age >= Duration::from_secs(seconds) })
    }

    /// The answers, unless a lease was found to be over.
    pub(super) fn finish<T>(&mut self, plans: Vec<Plan<T>>, kept: Vec<Kept>) -> Step<T> {
        let (over, unsure) = self.doubtful(&plans, &kept);
        if !over.is_empty() || !unsure.is_empty() {
            // A transaction after the keep-alive shows whether these leases live.
            self.verified.retain(|id| !unsure.contains(id));
            self.rechecked.extend(unsure);
            self.learn(&BTreeSet::new(), &over);
            return Step::Again;
        }
        for ((ask, plan), turn) in self.asks.iter().zip(&plans).zip(self.turns.iter()) {
            let Some((claim, _)) = ask.waits else { continue };
            match &plan.placed {
                Some(placed) => {
                    self.core.hub.await_ends(claim, placed.before.clone(), turn.at);
                }
                None => self.core.hub.leave(claim),
            }
        }
        let answers = plans.into_iter().zip(kept).zip(&self.is_new);
        Step::Done(answers.map(|((plan, kept), is_new)| self.done(plan, kept, *is_new)).collect())
    }

    /// The leases that are over, and those whose keep-alive is no proof.
    fn doubtful<T>(&self, plans: &[Plan<T>], kept: &[Kept]) -> (BTreeSet<i64>, BTreeSet<i64>) {
        let (mut over, mut unsure) = (BTreeSet::new(), BTreeSet::new());
        for (plan, kept) in plans.iter().zip(kept) {
            let (Some(kept), Some(lease)) = (kept, plan.held.and_then(|held| held.lease)) else {
                continue;
            };
            match kept.left {
                Ok(None) => _ = over.insert(lease),
                Ok(Some(_)) if kept.is_late && !self.rechecked.contains(&lease) => {
                    unsure.insert(lease);
                }
                _ => {}
            }
        }
        (over, unsure)
    }

    fn done<T>(&self, plan: Plan<T>, kept: Kept, is_new: bool) -> Done<T> {
        let (lease, seconds) = plan.held.map_or((None, 0), |held| (held.lease, held.seconds));
        let age = lease.and_then(|lease| self.core.leases.last_refreshed(lease));
        let age = age.map(|it| plan.now.saturating_duration_since(it));
        let (late, failure) = match kept.map(|kept| kept.left) {
            // The lease of another client is not known here, but the answer tells its time.
            Some(Ok(left)) => {
                let missing = left.map_or(0, |left| seconds.saturating_sub(left));
                (Duration::from_secs(u64::try_from(missing).unwrap_or(0)), None)
            }
            Some(Err(fault)) => (age.unwrap_or(Duration::MAX), Some(fault.error)),
            None => (age.unwrap_or_default(), None),
        };
        Done { answer: plan.answer, late, failure, is_new }
    }
}

/// Tells clients for which there was no room in the transaction.
async fn tell(core: &Core, news: BTreeMap<i64, Vec<News>>) {
    let telling = news.into_iter().map(async |(id, mut news)| {
        while !news.is_empty() {
            let mut room = transaction::NEWS;
            let rest = news::split(&mut news, &mut room);
            if news.is_empty() {
                // No client of this version writes such a long piece.
                break;
            }
            let key = core.names.alive(id);
            let compare = vec![Compare::exists(key.clone())];
            let success = vec![Operation::put(key, news::write(&news), id)];
            core.link.transact(&Transaction { compare, success, failure: Vec::new() }).await?;
            news = rest;
        }
        Ok::<(), Fault>(())
    });
    for fault in join_all(telling).await.into_iter().filter_map(Result::err) {
        tracing::debug!(error = %fault.error, "a client was not told of its grant");
    }
}
