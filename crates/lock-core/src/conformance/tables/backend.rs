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

/// The laws that a key keeps as the mutex that every backend can make of it.
#[doc(hidden)]
#[macro_export]
macro_rules! __lock_core_mutex_laws {
    ([$($then:tt)+] $($arguments:tt)*) => { $($then)+! { $($arguments)*
        granting {
            a_free_key_is_granted:
                "A key that nobody holds is granted to whoever asks.",
            a_held_key_is_refused:
                "A key that is held is granted to no other owner, of this client or another.",
            contenders_get_exactly_one_grant:
                "Of many clients that ask at once exactly one is granted the key.",
            holders_never_overlap:
                "However long many clients contend, there are never two holders at once.",
            keys_are_independent:
                "What happens to one key does not show on another.",
            odd_keys_are_keys:
                "Names of any bytes are told apart and carried, or refused as invalid.",
            a_repeated_acquire_returns_the_same_grant:
                "The holder who asks again is granted again, with the same tokens.",
            a_repeated_acquire_never_shortens_the_lease:
                "The holder who asks again with a shorter time keeps the time it has.",
            a_repeated_acquire_extends_the_lease:
                "The holder who asks again with a longer time gets that time.",
            a_refusal_says_when_to_retry:
                "A refusal names a time after which the key is free, unless its holder renews.",
            a_grant_is_dated_from_before_the_request:
                "The holder's deadline comes before the store's, however slow the reply.",
        }
        fencing {
            tokens_increase_with_every_grant:
                "Each grant's tokens are above those of the grants before it.",
            tokens_increase_after_expiry:
                "Tokens increase also when the lease before ran out.",
            tokens_increase_after_the_store_forgot:
                "Tokens increase also when the store has lost everything in between.",
            a_reserved_range_is_never_reissued:
                "No grant's tokens fall into the range of another grant.",
        }
        renewing {
            renew_extends_the_lease:
                "A renewed lease outlives its first deadline.",
            renew_keeps_the_tokens:
                "A renewed lease keeps its tokens.",
            a_renewal_is_dated_from_before_the_request:
                "A renewed deadline comes before the store's, however slow the reply.",
            a_renewal_can_reserve_tokens:
                "Tokens that a renewal brings are above all before, and below those of the next grant.",
            renew_after_expiry_is_lost:
                "A lease whose time is over cannot be renewed.",
            renew_by_another_owner_is_lost:
                "Renewing a key that another owner holds reports the lease as lost.",
            renew_never_creates_a_lease:
                "Renewing what is not held leaves the key free.",
        }
        ending {
            an_expired_lease_is_free:
                "When a lease's time is over, another client is granted the key.",
            a_live_lease_stays:
                "Until its holder's deadline a lease keeps others out.",
            release_frees_the_key:
                "After a release another client is granted the key at once.",
            a_repeated_release_is_no_error:
                "Releasing again finds nothing to release, and is no error.",
            a_release_by_another_owner_is_harmless:
                "Releasing with another owner's token leaves the lease alone.",
            a_stale_release_is_harmless:
                "Releasing a lease that is over leaves the next holder's alone.",
            a_dropped_acquire_can_be_released:
                "A request that was dropped half-way holds nothing once its claim is released.",
        }
        watching {
            a_release_wakes_a_watcher:
                "A watcher hears of every release after it began to watch.",
            every_watcher_is_woken:
                "All watchers of a key hear of its release, of every client.",
            a_watch_sees_only_its_key:
                "A watcher does not hear of other keys.",
            a_cut_watch_says_so:
                "After its connection broke, a watch ends or says that hints may be missing.",
        }
        queueing {
            a_refused_watcher_is_queued:
                "Where one who watches and asks for it is queued, all are who do, of any client.",
            only_who_asks_and_watches_is_queued:
                "Who does not ask for a place, or does not watch the key, has none.",
            waiters_are_granted_in_order:
                "Waiters are granted the key in the order in which they came, one by one.",
            a_newcomer_does_not_overtake:
                "While somebody waits, nobody else is granted the key, although it may be free.",
            a_repeated_request_keeps_its_place:
                "A waiter who asks again stays where it is, and has one place.",
            a_waiter_that_leaves_is_passed_over:
                "Who gives up its place is not granted the key, and does not hold it up.",
            a_place_that_is_not_kept_lapses:
                "Who does not ask again in time loses its place.",
            a_queue_belongs_to_one_key:
                "A grant of one key does not show to those who wait for another.",
            a_full_queue_is_an_error:
                "One waiter too many is told that the queue is full, and how many it takes.",
            queued_holders_never_overlap:
                "However long many clients wait in turn, all arrive, and never two at once.",
        }
        handing {
            a_release_hands_the_key_over:
                "A release gives the key to the first in line before anybody asks, and says so.",
            a_grant_is_told_to_its_owner_alone:
                "No other client hears of a grant or a turn, for the hint brings the proof of ownership.",
            a_pushed_grant_ends_before_its_lease:
                "The deadline that is announced to a waiter comes before the store's.",
            a_claimed_lease_lives_for_its_ttl:
                "A waiter that asks again after its turn came has the lease for its whole time.",
            an_unclaimed_grant_passes_on:
                "A waiter that does not claim its lease loses it to the next after a short time.",
            a_granted_waiter_that_leaves_passes_it_on:
                "A waiter that leaves in its turn hands the key to the next.",
            a_hand_over_tells_the_next_in_line:
                "The first claim that still waits hears when the lease ends that was handed over.",
            a_cut_waiter_is_passed_over:
                "A waiter that cannot be told of its grant does not get it.",
            an_expired_holder_is_followed_by_the_first_in_line:
                "When the holder's time is over, the first in line is granted the key, and only it.",
            tokens_increase_along_the_line:
                "Tokens increase from each waiter to the next.",
            an_exchange_hands_over_and_queues_again:
                "Who exchanges a lease for another gives it up first, and comes last.",
            a_holder_hears_that_it_is_wanted:
                "A holder that watches its key hears when somebody begins to wait for it.",
            every_answer_tells_the_demand:
                "Grants and renewals say whether somebody waits.",
        }
        failing {
            a_cut_client_recovers:
                "While cut, a client gives retryable errors in bounded time; then it works again.",
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
                "While anybody reads nobody writes, and while anybody writes nobody reads.",
            each_reader_has_its_own_lease:
                "A reader whose time is over takes no other reader's lease with it, and blocks nobody.",
            a_claim_names_its_mode:
                "A lease is renewed and released only in the mode in which it is held.",
            readers_in_line_are_granted_together:
                "All readers up to the next writer in line are granted the key at once.",
            a_waiting_writer_holds_back_later_readers:
                "A reader who comes after a waiting writer waits behind it.",
            only_one_reader_is_upgradable:
                "Beside an upgradable reader there are plain ones, but no second upgradable one.",
            a_key_is_one_kind_of_lock:
                "While a key is held as one kind of lock, it is busy for all other kinds.",
        }
        counting {
            permits_add_up_to_their_limit:
                "Permits are granted as long as they add up to no more than there are.",
            permits_never_exceed_their_limit:
                "However long many clients contend, no more permits are held than there are.",
            an_expired_holders_permits_return:
                "When a lease's time is over, its permits can be granted again, once.",
            differing_limits_are_refused:
                "Asking for permits of another number than the holders know names both numbers.",
            a_large_request_is_not_starved:
                "Who waits for many permits gets them before those who came later and want few.",
        }
        together {
            leases_are_granted_together_or_not_at_all:
                "Of several keys all are granted at once, or none is.",
            leases_granted_together_are_leases_like_any_other:
                "What was granted together is repeated, renewed, released and ends each for itself.",
            nobody_is_overtaken_together:
                "Who waits for one of several keys comes before those who ask for all of them.",
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
