//! The trait that stores implement.

use std::sync::Arc;

use async_trait::async_trait;

use crate::Watch;
use crate::{Acquire, Attempt, Claim, Clock, ConvertBackend, Error, Key, Released, Renew, Renewal};

/// A store that can carry leases: four verbs, and the clock that dates them.
///
/// Implement it for a store; apps use the primitives of `lock-sync` over it. The obligations below
/// are laws: each ends with the name of its test in the
/// [conformance suite](https://docs.rs/lock-core/latest/lock_core/conformance/), which runs against
/// every backend and every wrapper of this family.
///
/// A handle is cheap to clone or is shared behind an `Arc`, for which the trait is implemented too.
/// No method needs a particular runtime beyond what the backend itself documents; each must make
/// progress no matter which thread polls it.
#[doc = include_str!("first_backend.md")]
///
/// # Contract
///
/// **Granting**
/// - A free key MUST be granted (`a_free_key_is_granted`), and a held one MUST NOT be granted to
///   another owner (`a_held_key_is_refused`).
/// - Of any number of contenders at once exactly one MUST be granted
///   (`contenders_get_exactly_one_grant`), and however long they contend, there MUST NOT be two
///   holders at once (`holders_never_overlap`).
/// - Keys MUST NOT influence one another (`keys_are_independent`), however odd their bytes; one that
///   cannot be carried MUST be refused as [`ErrorKind::InvalidKey`](crate::ErrorKind)
///   (`odd_keys_are_keys`).
/// - A request repeated with the same owner while it holds MUST return the grant again, with the
///   same tokens (`a_repeated_acquire_returns_the_same_grant`). The lease MUST then live on for
///   what is left of it (`a_repeated_acquire_never_shortens_the_lease`), or for the ttl that the
///   repetition asks for if that is more (`a_repeated_acquire_extends_the_lease`).
/// - A refusal MUST say when the present lease ends, if it has an end
///   (`a_refusal_says_when_to_retry`).
/// - A grant MUST be dated from before the request was sent, and its deadline be no later than
///   [`Ttl::valid_until`](crate::Ttl::valid_until) says: before the store's
///   (`a_grant_is_dated_from_before_the_request`).
///
/// **Fencing**
/// - Tokens MUST increase from grant to grant (`tokens_increase_with_every_grant`), whether the
///   lease before was released or ran out (`tokens_increase_after_expiry`), and although the store
///   forgot everything (`tokens_increase_after_the_store_forgot`).
/// - A range that was reserved MUST NOT overlap with any other grant's
///   (`a_reserved_range_is_never_reissued`).
///
/// **Renewing**
/// - Renewing MUST extend the lease (`renew_extends_the_lease`) and MUST NOT change its tokens
///   (`renew_keeps_the_tokens`). The new deadline MUST be dated as a grant's is
///   (`a_renewal_is_dated_from_before_the_request`).
/// - Tokens that it brings because it was asked to MUST be above all that were reserved before, and
///   below those of the next grant (`a_renewal_can_reserve_tokens`). It MAY bring fewer, or none.
/// - Renewing what is over MUST report [`Renewal::Lost`] (`renew_after_expiry_is_lost`), also when
///   the key has another holder (`renew_by_another_owner_is_lost`), and MUST NOT bring it back
///   (`renew_never_creates_a_lease`).
///
/// **Ending**
/// - A lease MUST end by itself when its time is over (`an_expired_lease_is_free`) and MUST NOT end
///   before its deadline (`a_live_lease_stays`).
/// - Releasing MUST free the key (`release_frees_the_key`). Repeating it is no error
///   (`a_repeated_release_is_no_error`).
/// - Releasing with another owner's token, or a lease that is over, MUST NOT touch the present
///   holder's (`a_release_by_another_owner_is_harmless`, `a_stale_release_is_harmless`).
/// - A request whose future was dropped MUST NOT hold the key once its claim was released
///   afterwards (`a_dropped_acquire_can_be_released`).
///
/// **Watching**
/// - Once `watch` has returned, every release MUST reach the watcher as
///   [`Hint::Released`](crate::Hint::Released) (`a_release_wakes_a_watcher`),
///   every watcher of that key (`every_watcher_is_woken`), and none of another
///   (`a_watch_sees_only_its_key`).
/// - After a cut connection a watch MUST end or say [`Hint::Resync`](crate::Hint::Resync)
///   (`a_cut_watch_says_so`).
///
/// **Queueing**
///
/// A store without a queue answers [`Attempt::Busy`] and is done.
/// - If it queues one refused request that asks for it, by a client that watches the key, it MUST
///   queue every such (`a_refused_watcher_is_queued`), and no other
///   (`only_who_asks_and_watches_is_queued`).
/// - Waiters MUST be granted the key in the order in which they came (`waiters_are_granted_in_order`),
///   and nobody before them, even when the key is free (`a_newcomer_does_not_overtake`).
/// - A request that is repeated MUST keep its place (`a_repeated_request_keeps_its_place`). A place
///   that was given up MUST NOT be granted (`a_waiter_that_leaves_is_passed_over`), nor one that was
///   not asked for again within [`Ttl::place`](crate::Ttl::place)
///   (`a_place_that_is_not_kept_lapses`).
/// - Queues MUST NOT influence one another (`a_queue_belongs_to_one_key`). Their length SHOULD be
///   bounded, by an [`ErrorKind::QueueFull`](crate::ErrorKind) that names the bound
///   (`a_full_queue_is_an_error`).
/// - However long clients wait for one another, each MUST arrive, and no two at once
///   (`queued_holders_never_overlap`).
///
/// **Handing over**
/// - A release MUST give the key to the first in line, and say so with
///   [`Hint::Granted`](crate::Hint::Granted): the lease is there before its owner asks, and asking
///   returns the same tokens (`a_release_hands_the_key_over`). The hint MUST reach no other client
///   (`a_grant_is_told_to_its_owner_alone`), and a deadline that it brings MUST come before the
///   store's (`a_pushed_grant_ends_before_its_lease`).
/// - Such a lease MUST live for its whole ttl from when its owner asks again
///   (`a_claimed_lease_lives_for_its_ttl`), but no longer than [`Ttl::claim`](crate::Ttl::claim) if
///   it does not: then it passes on as soon as anybody asks (`an_unclaimed_grant_passes_on`). It
///   passes on, too, when it is released (`a_granted_waiter_that_leaves_passes_it_on`).
/// - A store that hands the key over MUST tell the claim that is then the first in line, with
///   [`Hint::Next`](crate::Hint::Next), how long that lease lives
///   (`a_hand_over_tells_the_next_in_line`). This hint, too, MUST reach no other client. It MAY be left
///   out if the claim was told to ask again about as soon anyway.
/// - A waiter whose client is known not to hear of its grant MUST NOT be granted
///   (`a_cut_waiter_is_passed_over`).
/// - When a lease ran out, the first in line and nobody else MUST be granted as soon as anybody asks
///   (`an_expired_holder_is_followed_by_the_first_in_line`).
/// - Tokens MUST increase from waiter to waiter (`tokens_increase_along_the_line`).
/// - What is exchanged MUST go to the first in line, and the request that takes its place to the end
///   (`an_exchange_hands_over_and_queues_again`).
/// - A holder that watches its key MUST hear [`Hint::Wanted`](crate::Hint::Wanted) when the queue
///   ceases to be empty, if it was told that it was [`Demand::Quiet`](crate::Demand::Quiet)
///   (`a_holder_hears_that_it_is_wanted`). Grants and renewals MUST say so while somebody waits
///   (`every_answer_tells_the_demand`).
///
/// **Failing**
/// - While the store cannot be reached, requests MUST end with a retryable error in bounded time,
///   renewals with [`Renewal::Unknown`], and both MUST work again by themselves afterwards
///   (`a_cut_client_recovers`).
///
/// **Sharing**
///
/// A store that lacks a mode answers [`ErrorKind::Unsupported`](crate::ErrorKind) and is done.
/// - Readers MUST be granted the key beside one another (`readers_share_a_key`), and neither beside
///   a writer (`readers_and_writers_exclude_each_other`).
/// - A reader's lease MUST end for itself alone (`each_reader_has_its_own_lease`). Owner and mode
///   together name a lease (`a_claim_names_its_mode`).
/// - Readers who stand in line one after another MUST be granted together
///   (`readers_in_line_are_granted_together`). A reader MUST NOT overtake a writer who waits
///   (`a_waiting_writer_holds_back_later_readers`).
/// - There MUST NOT be two [`Mode::Upgradable`](crate::Mode::Upgradable) holders
///   (`only_one_reader_is_upgradable`), nor two kinds of lock at once on a key
///   (`a_key_is_one_kind_of_lock`).
///
/// **Counting**
/// - Permits MUST be granted while they are free, and who asks for more, even for more than there are,
///   MUST be refused like any other (`permits_add_up_to_their_limit`). Those that are held MUST NOT
///   exceed those there are (`permits_never_exceed_their_limit`). Those of a lease that ran out MUST
///   come back (`an_expired_holders_permits_return`).
/// - Another limit than that of the present holders MUST be refused as
///   [`ErrorKind::InvalidConfig`](crate::ErrorKind), with both in the message
///   (`differing_limits_are_refused`).
/// - Small requests MUST NOT overtake a large one that waits (`a_large_request_is_not_starved`).
///
/// **Together**
///
/// A store that cannot grant several leases in one step answers `None` and is done.
/// - Of several keys that are free, all MUST be granted, and when one is not, none
///   (`leases_are_granted_together_or_not_at_all`). Such leases MUST be like any other
///   (`leases_granted_together_are_leases_like_any_other`), and nobody who waits MUST be overtaken
///   (`nobody_is_overtaken_together`).
///
/// # Examples
///
/// A whole backend, passing the suite, is in `examples/custom_backend.rs` of the repository.
#[async_trait]
pub trait Backend: Send + Sync + 'static {
    /// Asks once for a lease. Never waits for a holder.
    ///
    /// # Errors
    ///
    /// Whatever the store or the way to it does. After a [retryable](Error::is_retryable) error the
    /// request may or may not have taken effect.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves open whether the lease is held; release its claim afterwards.
    async fn try_acquire(&self, request: &Acquire) -> Result<Attempt, Error>;

    /// Gives a lease a new time to live from now on, and more tokens if it asks for them.
    ///
    /// Failure is a value here: see [`Renewal::Unknown`].
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the old deadline standing.
    async fn renew(&self, request: &Renew) -> Renewal;

    /// Ends a lease, or gives up its place in the queue.
    ///
    /// # Errors
    ///
    /// Whatever the store or the way to it does. The lease then ends by itself at the latest.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves open whether the lease has ended. Repeating is harmless.
    async fn release(&self, claim: &Claim) -> Result<Released, Error>;

    /// Ends a lease and, in the same step, asks for another one of the same key, at the end of the queue:
    /// what a process does whose turn is over and that wants another.
    ///
    /// A backend takes up the second part only if the lease was held and somebody else waits for it;
    /// then the second answer says what came of it. Otherwise that is `None`, and nothing was asked:
    /// which is all that this does by default.
    ///
    /// # Errors
    ///
    /// As [`release`](Self::release). Neither part is then known to have been done, or not.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves open what was done. Release both claims.
    async fn exchange(
        &self,
        claim: &Claim,
        _next: &Acquire,
    ) -> Result<(Released, Option<Attempt>), Error> {
        Ok((self.release(claim).await?, None))
    }

    /// Asks once for several leases, of different keys: all or none, in one step.
    ///
    /// Either every answer is a grant, or every one is [`Attempt::Busy`]: with a time for a key that somebody
    /// else holds or comes first for, and without one for a key that was free. Nobody is queued, whatever
    /// the requests say. `None` if the backend cannot do that, or not for these requests, and nothing was
    /// asked: which is all that this does by default.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`](crate::ErrorKind) if two requests are for one key; else as
    /// [`try_acquire`](Self::try_acquire). After a [retryable](Error::is_retryable) error all or none may
    /// have been granted.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves open whether the leases are held; release every claim afterwards.
    async fn acquire_together(&self, _requests: &[Acquire]) -> Result<Option<Vec<Attempt>>, Error> {
        Ok(None)
    }

    /// Begins to listen for hints about a key; returns once it is sure to hear them.
    ///
    /// Ask the store again after it returned and before relying on it: what happened before is not
    /// reported.
    ///
    /// # Errors
    ///
    /// Whatever the store or the way to it does; [`ErrorKind::Unsupported`](crate::ErrorKind) if it
    /// has no hints to give, in which case waiters rely on the time in
    /// [`Attempt::Busy`](crate::Attempt::Busy) alone.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    async fn watch(&self, key: &Key) -> Result<Watch, Error>;

    /// The clock on which this backend dates its leases.
    fn clock(&self) -> Clock;

    /// This backend as one that converts leases, if it is one: how code learns that which knows the backend as
    /// `dyn Backend` alone.
    ///
    /// `None` by default. A [`ConvertBackend`] answers `Some(self)`.
    fn converter(&self) -> Option<&dyn ConvertBackend> {
        None
    }
}

macro_rules! forward {
    ($($pointer:ident),*) => {$(
        #[async_trait]
        #[deny(clippy::missing_trait_methods)]
        impl<B: Backend + ?Sized> Backend for $pointer<B> {
            async fn try_acquire(&self, request: &Acquire) -> Result<Attempt, Error> {
                (**self).try_acquire(request).await
            }

            async fn renew(&self, request: &Renew) -> Renewal {
                (**self).renew(request).await
            }

            async fn release(&self, claim: &Claim) -> Result<Released, Error> {
                (**self).release(claim).await
            }

            async fn exchange(
                &self,
                claim: &Claim,
                next: &Acquire,
            ) -> Result<(Released, Option<Attempt>), Error> {
                (**self).exchange(claim, next).await
            }

            async fn acquire_together(
                &self,
                requests: &[Acquire],
            ) -> Result<Option<Vec<Attempt>>, Error> {
                (**self).acquire_together(requests).await
            }

            async fn watch(&self, key: &Key) -> Result<Watch, Error> {
                (**self).watch(key).await
            }

            fn clock(&self) -> Clock {
                (**self).clock()
            }

            fn converter(&self) -> Option<&dyn ConvertBackend> {
                (**self).converter()
            }
        }
    )*};
}

forward!(Arc, Box);
