//! A value beside a lock.

mod kept;
mod loaded;
mod loading;
mod storing;

use async_trait::async_trait;
use lock_core::{Cell, CellBackend, Claim, Error, ErrorKind, FencingToken, Key};
use lock_core::{QuorumNode, Result, Stored};

use self::kept::{decode, encode};
use self::storing::Write;
use crate::Redlock;

/// A majority stores each value, so every majority has a node that knows it. If a write was reported as
/// [written](Stored::Written), every later load returns its value, until a later value is written.
///
/// A write asks all nodes. A node that has not voted for the lease votes before it gets the value. When a majority has
/// written the value, the write waits for the other nodes. For a node that does not answer, it waits for two round trips
/// of a quorum, but at least 100 ms. For a node whose vote another client has, it waits for two round trips, but at least
/// 20 ms. It never waits longer than half of the rest of the lease. It does not wait for a missing node, or for a node
/// whose round trip takes longer than 20 ms and than two round trips of a quorum. So the value is usually on all nodes
/// that answer, and outlives the loss of a minority. These nodes may lack the value: a missing node; a node whose vote
/// another client has during that time; and a node whose vote or renewal for this lease has not come by then. The quorum
/// copies the value to no node later. A node that has lost its data votes again after a while, and counts as a node that
/// never had the value. If the nodes that missed the value and the nodes that lost it are a majority, a load may not see
/// the value.
///
/// If the lease was over when the answers of a majority had come, the write fails with a retryable error: a later holder may
/// have loaded the earlier value before. If another process asked for the claim, this process does not know when the lease
/// ends, and the write counts as written. A repeated [`commit`](CellBackend::commit) does not know of the first one, either.
///
/// A value counts as not written only if every node has refused it. If fewer nodes than a majority report that they
/// have written the value, and a node may have the value or was not asked, the write fails with a retryable error.
///
/// If a value has reached fewer nodes than a majority, one load may see it and the next load may not, until the next
/// value is stored. Such a value is not [settled](Cell::settled): a value is settled only if a majority has said that
/// it has the value, under one token. If two values have one token, the load waits for the answers of more nodes. If
/// too few nodes answer to tell which value a majority has, the load fails with a retryable error.
///
/// To erase a value, the quorum stores a mark of 16 bytes in its place, and removes the mark when every node has it. If
/// the mark has certainly not reached a majority, a load still returns the value, as not settled. If that is unknown
/// because nodes are silent, a load returns no value. If the erasure then fails, other clients may see the value again.
/// After the mark is removed, nodes do not refuse an earlier value by its token. If a node gets a vote for an earlier
/// holder after that, and then the write of this holder, a load may see the earlier value, as not settled, until the
/// next value is stored. The quorum refuses a value of nearly [`Cell::MAX_LEN`] bytes that begins with these 16 bytes.
///
/// A write of an earlier holder may reach a node late, after a later holder has loaded the earlier value. For this, the
/// node has to get two requests after the lease of the earlier holder: a vote for this holder, and then the write. The
/// holder sent that write before the vote, or after the answer to a repetition of the vote. If the later holder has
/// written a value, the node refuses the late write by its token, so no value is lost.
///
/// The holder [loads](CellBackend::load_under) the values of the nodes that granted its claim and still have its lease
/// when they answer. This majority refuses the late writes of earlier holders. So a value that the holder does not see
/// there cannot become settled. If this majority has two values under one token, the holder also loads from the other
/// nodes that vote for its claim.
#[async_trait]
impl<N: QuorumNode + CellBackend> CellBackend for Redlock<N> {
    async fn load(&self, key: &Key) -> Result<Option<Cell>> {
        let core = self.core();
        let loaded = loading::from(core, key, core.quorum.all()).await?;
        Ok(loaded.likeliest()?.and_then(|latest| match decode(&latest) {
            None if !loaded.may_be_settled(latest.token) => loaded.before(latest.token),
            seen => seen,
        }))
    }

    async fn load_under(&self, claim: &Claim) -> Result<Option<Cell>> {
        let core = self.core();
        let Some(held) = core.claims.held(claim, core.clock.now()) else {
            let message = "it cannot be loaded under a claim that is not held here";
            return Err(Error::new(ErrorKind::NotHeld, message));
        };
        let loaded = loading::from(core, &claim.key, held.nodes).await?;
        let latest = match loaded.likeliest() {
            Ok(latest) => latest,
            Err(_) => loading::from_others(core, claim, held.nodes, loaded).await?,
        };
        let now = core.clock.now();
        // The same nodes may have renewed the lease meanwhile.
        let renewed = || core.claims.held(claim, now).map(|held| held.nodes).unwrap_or_default();
        if now >= held.valid_until && !held.nodes.without(renewed()).is_empty() {
            let message = "the lease may have been over before a majority had said what was stored";
            return Err(Error::new(ErrorKind::NotReady, message));
        }
        Ok(latest.as_ref().and_then(decode))
    }

    fn load_is_conclusive(&self) -> bool {
        self.core().quorum.nodes() == 1
    }

    async fn store(
        &self,
        claim: &Claim,
        token: FencingToken,
        value: Option<&[u8]>,
    ) -> Result<Stored> {
        Cell::check(claim, value)?;
        let core = self.core();
        let write = |value| Write::new(claim, token, value);
        let (written, outcome) = write(Some(encode(value))).on_all(core).await?;
        if value.is_none() && written == core.quorum.nodes() {
            // No node has an older value that could come back, so the mark is not needed any more.
            let _best_effort = write(None).on_all(core).await;
        }
        Ok(outcome)
    }
}
