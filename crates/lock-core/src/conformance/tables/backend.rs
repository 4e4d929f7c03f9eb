//! The tables of the laws of [`Backend`](crate::Backend).

use futures::future::BoxFuture;

use super::super::scene::{Scene, Terms};
use super::super::verdict::Check;
use super::super::{Harness, Suite, laws};
use super::{Law, suite};
use crate::{Mode, PermitBackend};

/// Hands the tables of all laws to the macro named in brackets, after that macro's own arguments.
#[doc(hidden)]
#[macro_export]
macro_rules! __lock_core_laws {
    ([$($then:tt)+] $($arguments:tt)*) => {
        $crate::__lock_core_mutex_laws! {
            [$crate::__lock_core_mode_laws] [$($then)+] $($arguments)*
        }
    };
}

/// The laws of a key as a mutex, which every backend can serve.
#[doc(hidden)]
#[macro_export]
macro_rules! __lock_core_mutex_laws {
    ([$($then:tt)+] $($arguments:tt)*) => { $($then)+! { $($arguments)*
        granting {
            a_free_key_is_granted:
                "A free key is granted to any client that asks for it.",
            a_held_key_is_refused:
                "A held key is granted to no other owner, on this client or on another.",
            contenders_get_exactly_one_grant:
                "Of many clients that ask at once, exactly one is granted the key.",
            holders_never_overlap:
                "However long many clients contend, there are never two holders at once.",
            keys_are_independent:
                "An operation on one key has no effect on another key.",
            odd_keys_are_keys:
                "Names of any bytes are kept apart and carried, or are refused as invalid.",
            a_repeated_acquire_returns_the_same_grant:
                "A holder that repeats its request gets the grant again, with the tokens of the first answer.",
            a_repeated_acquire_never_shortens_the_lease:
                "A holder that repeats its request with a shorter ttl keeps the time that its lease has left.",
            a_repeated_acquire_extends_the_lease:
                "A holder that repeats its request with a longer ttl gets a lease of that ttl.",
            a_refusal_says_when_to_retry:
                "A refusal names a time after which the key is free, unless its holder renews.",
            a_grant_is_dated_from_before_the_request:
                "The holder's deadline comes before the store's, however slow the reply is.",
        }
        fencing {
            tokens_increase_with_every_grant:
                "The tokens of each grant are higher than those of all earlier grants.",
            tokens_increase_after_expiry:
                "Tokens increase even if the lease before has expired.",
            tokens_increase_after_the_store_forgot:
                "Tokens increase even if the store has lost all its data in between.",
            a_reserved_range_is_never_reissued:
                "No grant has a token from the range of another grant.",
        }
        renewing {
            renew_extends_the_lease:
                "A renewed lease outlives its first deadline.",
            renew_keeps_the_tokens:
                "A renewed lease keeps its tokens.",
            a_renewal_is_dated_from_before_the_request:
                "A renewed deadline comes before the store's, however slow the reply is.",
            a_dropped_renewal_shortens_no_later_lease:
                "A renewal that was dropped half-way does not shorten the lease that a later renewal gave.",
            a_renewal_can_reserve_tokens:
                "Tokens that a renewal brings are above all earlier tokens and below those of the next grant.",
            renew_after_expiry_is_lost:
                "A lease that has expired cannot be renewed.",
            renew_by_another_owner_is_lost:
                "Renewing a key that another owner holds reports the lease as lost.",
            renew_never_creates_a_lease:
                "Renewing a lease that is not held leaves the key free.",
        }
        ending {
            an_expired_lease_is_free:
                "When a lease has expired, another client is granted the key.",
            a_live_lease_stays:
                "Until the holder's deadline, a lease keeps every other owner out.",
            release_frees_the_key:
                "After a release, another client is granted the key at once.",
            a_repeated_release_is_no_error:
                "Releasing a lease again finds nothing to release, and is no error.",
            a_release_by_another_owner_is_harmless:
                "A release with another owner's token leaves the lease alone.",
            a_stale_release_is_harmless:
                "Releasing a lease that is over leaves the next holder's lease alone.",
            a_dropped_acquire_can_be_released:
                "A request that was dropped half-way holds nothing once its claim is released.",
        }
        watching {
            a_release_wakes_a_watcher:
                "A watcher hears of every release after it began to watch.",
            every_watcher_is_woken:
                "All watchers of a key, on every client, hear of its release.",
            a_watch_sees_only_its_key:
                "A watcher does not hear of other keys.",
            a_cut_watch_says_so:
                "After its connection broke, a watch ends or says that hints may be missing.",
        }
        queueing {
            a_refused_watcher_is_queued:
                "If one refused client that watches the key and asks for a place is queued, every such client is.",
            only_a_client_that_asks_and_watches_is_queued:
                "A client that does not ask for a place, or does not watch the key, is not queued.",
            waiters_are_granted_in_order:
                "Waiters are granted the key one by one, in the order in which they came.",
            a_newcomer_does_not_overtake:
                "While a claim waits, no later claim is granted the key, even if the key is free.",
            a_repeated_request_keeps_its_place:
                "A waiter that repeats its request keeps its place, and has only one.",
            a_waiter_that_leaves_is_passed_over:
                "A waiter that gives up its place is not granted the key, and does not hold up the others.",
            a_place_that_is_not_kept_lapses:
                "A waiter that does not repeat its request in time loses its place.",
            a_queue_belongs_to_one_key:
                "A grant of one key is not told to the waiters for another key.",
            a_full_queue_is_an_error:
                "A request that finds the queue full is refused with an error that names the limit.",
            queued_holders_never_overlap:
                "However long many clients wait in turn, each is granted the key, and never two at once.",
        }
        handing {
            a_release_hands_the_key_over:
                "A release gives the key to the first claim in the queue before its client asks, and tells the client.",
            a_grant_is_told_to_its_owner_alone:
                "No other client hears of a grant or a turn, because the hint carries the proof of ownership.",
            a_pushed_grant_ends_before_its_lease:
                "The deadline in a waiter's grant comes before the store's.",
            a_claimed_lease_lives_for_its_ttl:
                "A waiter that asks again after its turn has come gets a lease of its whole ttl.",
            an_unclaimed_grant_passes_on:
                "A waiter that does not claim its lease loses it to the next waiter after a short time.",
            a_granted_waiter_that_leaves_passes_it_on:
                "A waiter that leaves after its turn has come hands the key to the next waiter.",
            a_hand_over_tells_the_next_in_line:
                "The first claim that still waits hears when the lease that was handed over ends.",
            a_cut_waiter_is_passed_over:
                "A waiter that cannot be told of its grant is not granted the key.",
            an_expired_holder_is_followed_by_the_first_in_line:
                "When the holder's lease has expired, the first claim in the queue is granted the key, and no other.",
            tokens_increase_along_the_line:
                "Tokens increase from each waiter to the next.",
            a_release_and_requeue_hands_over_and_queues_again:
                "A client that releases a lease and requeues goes to the end of the queue.",
            a_holder_hears_of_contention:
                "A holder that watches its key hears when a claim begins to wait for it.",
            every_answer_tells_the_contention:
                "Grants and renewals say whether another claim waits.",
        }
        failing {
            a_cut_client_recovers:
                "A client that is cut off returns retryable errors in bounded time, and works again afterwards.",
        }
    } };
}

/// The laws of the other modes, and of several keys.
#[doc(hidden)]
#[macro_export]
macro_rules! __lock_core_mode_laws {
    ([$($then:tt)+] $($arguments:tt)*) => { $($then)+! { $($arguments)*
        sharing {
            readers_share_a_key:
                "Any number of readers hold a key at once, each with tokens of its own.",
            readers_and_writers_exclude_each_other:
                "While a reader holds the key no writer does, and while a writer holds it no reader does.",
            each_reader_has_its_own_lease:
                "A reader's lease that expires ends no other reader's lease, and blocks no client.",
            a_claim_names_its_mode:
                "A lease is renewed and released only in the mode in which it is held.",
            readers_in_line_are_granted_together:
                "All readers in the queue before the next writer are granted the key at once.",
            a_waiting_writer_holds_back_later_readers:
                "A reader that comes after a waiting writer waits behind it.",
            only_one_reader_is_upgradable:
                "Beside an upgradable reader there are plain readers, but no second upgradable one.",
            a_key_is_one_kind_of_lock:
                "While a key is held as one kind of lock, it is busy for all other kinds.",
        }
        counting {
            permits_add_up_to_their_limit:
                "Permits are granted as long as their sum does not exceed the limit.",
            permits_never_exceed_their_limit:
                "However long many clients contend, no more permits are held than the limit allows.",
            an_expired_holders_permits_return:
                "When a lease has expired, its permits can be granted again, once.",
            differing_limits_are_refused:
                "A request that declares another limit than the holders did is refused, and the error names both.",
            a_large_request_is_not_starved:
                "A waiter for many permits gets them before later requests for few.",
        }
        together {
            leases_are_granted_together_or_not_at_all:
                "Of several keys, all are granted at once, or none is.",
            leases_granted_together_are_leases_like_any_other:
                "Of leases granted together, each is repeated, renewed and released, and expires, on its own.",
            no_waiter_is_overtaken_together:
                "A waiter for one of several keys comes before a request for all of them.",
        }
    } };
}

__lock_core_laws! { [suite]
    /// The laws of [`Backend`](crate::Backend).
    backend(crate::Backend, Terms { mode: Mode::Exclusive, promised: false })
}

__lock_core_mutex_laws! { [suite]
    /// The laws of [`Backend`](crate::Backend) that concern a mutex, for a semaphore of one permit.
    one_permit(PermitBackend, Terms { mode: Mode::Permits { take: 1, of: 1 }, promised: true })
}
