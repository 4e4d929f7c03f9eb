//! The trait that stores implement.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::{
    Acquire, AcquireOutcome, Capabilities, Capability, Claim, ClientMark, Clock, Error, ErrorKind,
    Key, Label, Limits, Released, Renew, Renewal, Watch,
};

/// A store that can carry leases: four verbs, and the clock that dates them. The other methods have defaults.
///
/// Implement it for a store. Apps use the primitives of `lock-sync` over it. The obligations below
/// are laws. Each ends with the name of its test in the
/// [conformance suite](https://docs.rs/lock-core/latest/lock_core/conformance/), which runs against
/// every backend and every wrapper of this family.
///
/// A handle is cheap to clone, or is shared behind an `Arc`, for which the trait is implemented too.
/// No method needs a particular runtime beyond what the backend itself documents. Each must make
/// progress no matter which thread polls it.
#[doc = include_str!("first_backend.md")]
///
/// # Contract
///
/// **Granting**
/// - A free key MUST be granted (`a_free_key_is_granted`), and a held one MUST NOT be granted to
///   another owner (`a_held_key_is_refused`).
/// - Of any number of contenders at once, exactly one MUST be granted
///   (`contenders_get_exactly_one_grant`). However long they contend, there MUST NOT be two
///   holders at once (`holders_never_overlap`).
/// - Keys MUST NOT influence one another (`keys_are_independent`), however odd their bytes are. A key that
///   the store cannot carry MUST be refused as [`ErrorKind::InvalidKey`](crate::ErrorKind)
///   (`odd_keys_are_keys`).
/// - A holder that repeats its request with the same owner MUST get the grant again, with the
///   same tokens (`a_repeated_acquire_returns_the_same_grant`). The lease MUST then live for the time that it
///   has left (`a_repeated_acquire_never_shortens_the_lease`), or for the ttl of the repetition if that is
///   longer (`a_repeated_acquire_extends_the_lease`).
/// - A refusal MUST say when the present lease ends, if it has an end
///   (`a_refusal_says_when_to_retry`).
/// - A grant MUST be dated from before the request was sent. Its deadline MUST be no later than
///   [`Ttl::valid_until`](crate::Ttl::valid_until), and so earlier than the store's
///   (`a_grant_is_dated_from_before_the_request`).
///
/// **Fencing**
/// - Tokens MUST increase from grant to grant (`tokens_increase_with_every_grant`), whether the
///   previous lease was released or expired (`tokens_increase_after_expiry`), and even if the store
///   forgot everything (`tokens_increase_after_the_store_forgot`).
/// - A reserved range MUST NOT overlap with the range of any other grant
///   (`a_reserved_range_is_never_reissued`).
///
/// **Renewing**
/// - A renewal MUST extend the lease (`renew_extends_the_lease`) and MUST NOT change its tokens
///   (`renew_keeps_the_tokens`). The new deadline MUST be dated as that of a grant
///   (`a_renewal_is_dated_from_before_the_request`).
/// - A renewal that the caller has given up, because the future was dropped or because it came to
///   [`Renewal::Unknown`], MUST NOT shorten the lease that a later renewal gave
///   (`a_dropped_renewal_shortens_no_later_lease`).
/// - Tokens that a renewal reserves MUST be above all tokens that were reserved before, and
///   below those of the next grant (`a_renewal_can_reserve_tokens`). A renewal MAY bring fewer tokens than it
///   was asked for, or none.
/// - Renewing a lease that is over MUST report [`Renewal::Lost`] (`renew_after_expiry_is_lost`), also when
///   the key has another holder (`renew_by_another_owner_is_lost`), and MUST NOT bring the lease back
///   (`renew_never_creates_a_lease`).
///
/// **Ending**
/// - A lease MUST end by itself when its time is over (`an_expired_lease_is_free`) and MUST NOT end
///   before its deadline (`a_live_lease_stays`).
/// - A release MUST free the key (`release_frees_the_key`). Repeating it is no error
///   (`a_repeated_release_is_no_error`).
/// - A release with another owner's token, or of a lease that is over, MUST NOT touch the lease of the present
///   holder (`a_release_by_another_owner_is_harmless`, `a_stale_release_is_harmless`).
/// - A request whose future was dropped MUST NOT hold the key once its claim was released
///   afterwards (`a_dropped_acquire_can_be_released`).
///
/// **Watching**
/// - Once `watch` has returned, every release MUST reach the watcher as
///   [`Hint::Released`](crate::Hint::Released) (`a_release_wakes_a_watcher`). It MUST reach
///   every watcher of that key (`every_watcher_is_woken`) and no watcher of another key
///   (`a_watch_sees_only_its_key`).
/// - After its connection is cut, a watch MUST end or say [`Hint::Resync`](crate::Hint::Resync)
///   (`a_cut_watch_says_so`).
///
/// **Queueing**
///
/// A store without a queue answers [`AcquireOutcome::Busy`]. These laws then do not apply to it.
/// - If the store queues one refused request that asks for a place, from a client that watches the key, it MUST
///   queue every such request (`a_refused_watcher_is_queued`). It MUST NOT queue any other request
///   (`only_a_client_that_asks_and_watches_is_queued`).
/// - Waiters MUST be granted the key in the order in which they came (`waiters_are_granted_in_order`).
///   A later claim MUST NOT be granted the key before them, even when the key is free
///   (`a_newcomer_does_not_overtake`).
/// - A request that is repeated MUST keep its place (`a_repeated_request_keeps_its_place`). A place
///   that was given up MUST NOT be granted (`a_waiter_that_leaves_is_passed_over`), nor a place for which the
///   client did not ask again within [`Ttl::for_place`](crate::Ttl::for_place)
///   (`a_place_that_is_not_kept_lapses`).
/// - Queues MUST NOT influence one another (`a_queue_belongs_to_one_key`). Their length SHOULD be
///   bounded, by an [`ErrorKind::QueueFull`](crate::ErrorKind) that names the bound
///   (`a_full_queue_is_an_error`).
/// - However long clients wait for one another, each MUST be granted the key, and no two at once
///   (`queued_holders_never_overlap`).
///
/// **Handing over**
/// - A release MUST give the key to the first claim in the queue, and say so with
///   [`Hint::Granted`](crate::Hint::Granted): the lease exists before its owner asks, and a request
///   returns its tokens (`a_release_hands_the_key_over`). The hint MUST reach no other client
///   (`a_grant_is_told_to_its_owner_alone`). A deadline in the hint MUST come before the
///   store's (`a_pushed_grant_ends_before_its_lease`).
/// - Such a lease MUST live for its whole ttl from the moment at which its owner asks again
///   (`a_claimed_lease_lives_for_its_ttl`). If the owner does not ask, the lease MUST NOT live longer than
///   [`Limits::grant`](crate::Limits::grant): the next request of any client then passes it on
///   (`an_unclaimed_grant_passes_on`). A release passes it on, too
///   (`a_granted_waiter_that_leaves_passes_it_on`).
/// - A store that hands the key over MUST tell the claim that is then the first in the queue, with
///   [`Hint::Next`](crate::Hint::Next), how long that lease lives
///   (`a_hand_over_tells_the_next_in_line`). This hint, too, MUST reach no other client. The store MAY
///   leave it out if it has already told the claim to ask again at about that time.
/// - A waiter MUST NOT be granted the key if its client is known not to hear of the grant
///   (`a_cut_waiter_is_passed_over`).
/// - When a lease has expired, the next request of any client MUST lead to a grant for the first claim in the
///   queue and for no other (`an_expired_holder_is_followed_by_the_first_in_line`).
/// - Tokens MUST increase from waiter to waiter (`tokens_increase_along_the_line`).
/// - A lease that its holder releases and requeues MUST go to the first claim in the queue, and the new request to
///   the end of the queue (`a_release_and_requeue_hands_over_and_queues_again`).
/// - A holder that watches its key, and was told that the contention is
///   [`Contention::Quiet`](crate::Contention::Quiet), MUST hear [`Hint::Contended`](crate::Hint::Contended) when a
///   claim joins the empty queue (`a_holder_hears_of_contention`). While a claim waits, grants and renewals MUST say so
///   (`every_answer_tells_the_contention`).
///
/// **Failing**
/// - While the store cannot be reached, requests MUST end with a retryable error in bounded time, and
///   renewals with [`Renewal::Unknown`]. Both MUST work again by themselves afterwards
///   (`a_cut_client_recovers`).
///
/// **Sharing**
///
/// A store that lacks a mode answers [`ErrorKind::Unsupported`](crate::ErrorKind). The laws of that mode then do
/// not apply to it.
/// - Readers MUST be granted the key beside one another (`readers_share_a_key`), and never beside
///   a writer (`readers_and_writers_exclude_each_other`).
/// - Each reader's lease MUST end on its own (`each_reader_has_its_own_lease`). Owner and mode
///   together name a lease (`a_claim_names_its_mode`).
/// - Readers that are next to each other in the queue MUST be granted together
///   (`readers_in_line_are_granted_together`). A reader MUST NOT overtake a waiting writer
///   (`a_waiting_writer_holds_back_later_readers`).
/// - There MUST NOT be two [`Mode::Upgradable`](crate::Mode::Upgradable) holders
///   (`only_one_reader_is_upgradable`), nor two kinds of lock at once on a key
///   (`a_key_is_one_kind_of_lock`).
///
/// **Counting**
/// - Permits MUST be granted while they are free. A request for more permits, even for more than there are,
///   MUST be refused like any other request (`permits_add_up_to_their_limit`). The permits that are held MUST
///   NOT exceed the limit (`permits_never_exceed_their_limit`). The permits of a lease that has expired MUST
///   become free again (`an_expired_holders_permits_return`).
/// - A limit that differs from that of the present holders MUST be refused as
///   [`ErrorKind::InvalidConfig`](crate::ErrorKind), with both limits in the message
///   (`differing_limits_are_refused`).
/// - Small requests MUST NOT overtake a large one that waits (`a_large_request_is_not_starved`).
///
/// **Together**
///
/// A store that cannot grant several leases in one step answers `None`. These laws then do not apply to it.
/// - If several keys are all free, all MUST be granted. If one is not free, the store MUST NOT grant any of them
///   (`leases_are_granted_together_or_not_at_all`). Such leases MUST be like any other
///   (`leases_granted_together_are_leases_like_any_other`), and they MUST NOT overtake a waiter
///   (`no_waiter_is_overtaken_together`).
///
/// # Examples
///
/// A whole backend that passes the suite is in `examples/custom_backend.rs` of the repository.
#[async_trait]
pub trait Backend: Send + Sync + 'static {
    /// Asks once for a lease. Never waits for a holder.
    ///
    /// # Errors
    ///
    /// Any error of the store or of the connection to it. After a [retryable](Error::is_retryable) error the
    /// request may or may not have taken effect. Repeat the request, or release its claim.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves open whether the lease is held. Release its claim afterwards.
    async fn try_acquire(&self, request: &Acquire) -> Result<AcquireOutcome, Error>;

    /// Gives a lease a new time to live from now on, and more tokens if the request asks for them.
    ///
    /// Failure is a value here: see [`Renewal::Unknown`]. The [example](crate::Claim#examples) of a claim shows a renewal.
    ///
    /// # Cancel safety
    ///
    /// After the future is dropped, the old deadline still stands.
    async fn renew(&self, request: &Renew) -> Renewal;

    /// Ends a lease, or gives up its place in the queue.
    ///
    /// # Errors
    ///
    /// Any error of the store or of the connection to it. The lease then ends when it expires, at the latest.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves open whether the lease has ended. Repeating is harmless.
    async fn release(&self, claim: &Claim) -> Result<Released, Error>;

    /// Ends a lease and asks for another lease of its key, at the end of the queue, in one step.
    /// A process does this when its turn is over and it wants another one.
    ///
    /// A backend carries out the second part only if the lease was held and another claim waits for the key.
    /// The second answer is then the outcome of that request. Otherwise it is `None`, and nothing was asked.
    /// The default implementation always answers `None`.
    ///
    /// # Errors
    ///
    /// As [`release`](Self::release). The caller then does not know which of the two parts the store has done.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves open which parts were done. Release both claims.
    async fn release_and_requeue(
        &self,
        claim: &Claim,
        _next: &Acquire,
    ) -> Result<(Released, Option<AcquireOutcome>), Error> {
        Ok((self.release(claim).await?, None))
    }

    /// Asks once for several leases of different keys: all or none, in one step.
    ///
    /// Either every answer is a grant, or every answer is [`AcquireOutcome::Busy`]. `Busy` has a time for a key that
    /// another owner holds or comes first for, and no time for a key that was free. No request is queued,
    /// even if it asks for that. The answer is `None`, and nothing was asked, if the backend cannot grant
    /// several leases in one step, or not these. The default implementation always answers `None`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`](crate::ErrorKind) if two requests are for one key; else as
    /// [`try_acquire`](Self::try_acquire). After a [retryable](Error::is_retryable) error all or none may
    /// have been granted. Release every claim, or repeat the request.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves open whether the leases are held. Release every claim afterwards.
    async fn try_acquire_all(
        &self,
        _requests: &[Acquire],
    ) -> Result<Option<Vec<AcquireOutcome>>, Error> {
        Ok(None)
    }

    /// Begins to listen for hints about a key. Returns once the watch is sure to hear them.
    ///
    /// The watch does not report earlier events. So ask the store again after this returns and before you
    /// rely on the watch.
    ///
    /// # Errors
    ///
    /// Any error of the store or of the connection to it; [`ErrorKind::Unsupported`](crate::ErrorKind) if the
    /// store gives no hints. Waiters then rely on the time in [`AcquireOutcome::Busy`](crate::AcquireOutcome::Busy)
    /// alone.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    async fn watch(&self, key: &Key) -> Result<Watch, Error>;

    /// Tells the store by which label people know a client. The store keeps the label for so long, and
    /// [inspections](crate::InspectBackend) show it beside the leases and the places of that client.
    ///
    /// A client repeats this before the time is over. No verb depends on it, and a label that is missing is no fault:
    /// then inspections show none. The default implementation keeps no labels.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`](crate::ErrorKind) if the store keeps no labels; otherwise any error of the store or
    /// of the connection to it.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves open whether the store has the label. Repeating is harmless.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use lock_core::memory::MemoryBackend;
    /// use lock_core::{Acquire, Backend, Claim, ClientMark, InspectBackend, Key, Label, OwnerToken, Ttl};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> lock_core::Result<()> {
    /// let store = MemoryBackend::new();
    /// let (me, label) = (ClientMark::generate()?, Label::new("billing on web-3")?);
    /// store.introduce(me, &label, Duration::from_secs(60)).await?;
    ///
    /// let owner = OwnerToken::generate()?.of_client(me);
    /// let claim = Claim::exclusive(Key::new("stock/apples")?, owner);
    /// store.try_acquire(&Acquire::new(claim.clone(), Ttl::DEFAULT)).await?;
    /// assert_eq!(store.inspect(&claim.key).await?.holders[0].label, Some(label));
    /// # Ok(())
    /// # }
    /// ```
    async fn introduce(
        &self,
        _client: ClientMark,
        _label: &Label,
        _keep: Duration,
    ) -> Result<(), Error> {
        Err(Error::new(ErrorKind::Unsupported, "this backend keeps no labels"))
    }

    /// The clock on which this backend dates its leases.
    fn clock(&self) -> Clock;

    /// The shortest lease of this store, the steps of its lease times, and how late it may be.
    ///
    /// By default the store counts leases in milliseconds. A backend MUST round a ttl up that its store cannot count,
    /// and MUST NOT refuse it.
    ///
    /// [`Limits`] has an example.
    fn limits(&self) -> Limits {
        Limits::default()
    }

    /// What this instance of the backend can do beside the verbs. Code that knows the backend only as `dyn Backend`,
    /// such as [`AnyBackend`](crate::AnyBackend), asks here.
    ///
    /// Nothing by default. A backend SHOULD name each capability trait that it implements. If it cannot, because its
    /// capabilities depend on a type parameter, use [`AnyBackend::describing`](crate::AnyBackend::describing).
    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities::none()
    }

    /// Checks that the store can serve a capability whose trait this type implements. Primitives ask before they send
    /// anything.
    ///
    /// By default a store can serve whatever its type implements. [`AnyBackend`](crate::AnyBackend) implements every
    /// trait, and looks at the [capabilities](Self::capabilities) of its store.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`](crate::ErrorKind) if the store cannot.
    fn require(&self, _needed: Capability) -> Result<(), Error> {
        Ok(())
    }
}

macro_rules! forward {
    ($($pointer:ident),*) => {$(
        #[async_trait]
        #[deny(clippy::missing_trait_methods)]
        impl<B: Backend + ?Sized> Backend for $pointer<B> {
            async fn try_acquire(&self, request: &Acquire) -> Result<AcquireOutcome, Error> {
                (**self).try_acquire(request).await
            }

            async fn renew(&self, request: &Renew) -> Renewal {
                (**self).renew(request).await
            }

            async fn release(&self, claim: &Claim) -> Result<Released, Error> {
                (**self).release(claim).await
            }

            async fn release_and_requeue(
                &self,
                claim: &Claim,
                next: &Acquire,
            ) -> Result<(Released, Option<AcquireOutcome>), Error> {
                (**self).release_and_requeue(claim, next).await
            }

            async fn try_acquire_all(
                &self,
                requests: &[Acquire],
            ) -> Result<Option<Vec<AcquireOutcome>>, Error> {
                (**self).try_acquire_all(requests).await
            }

            async fn watch(&self, key: &Key) -> Result<Watch, Error> {
                (**self).watch(key).await
            }

            async fn introduce(
                &self,
                client: ClientMark,
                label: &Label,
                keep: Duration,
            ) -> Result<(), Error> {
                (**self).introduce(client, label, keep).await
            }

            fn clock(&self) -> Clock {
                (**self).clock()
            }

            fn limits(&self) -> Limits {
                (**self).limits()
            }

            fn capabilities(&self) -> Capabilities<'_> {
                (**self).capabilities()
            }

            fn require(&self, needed: Capability) -> Result<(), Error> {
                (**self).require(needed)
            }
        }
    )*};
}

forward!(Arc, Box);
