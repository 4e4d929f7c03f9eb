//! The promises of the primitives over every store: one case for each promise.
//!
//! A case is a function over a [`Stage`]: a store, and clients of it that are as far apart as processes are. Each
//! case uses two clients of one key, so what it says about exclusion is seen by a client that does not hold the
//! lock. [`primitives!`](crate::primitives!) makes one test of each case.
//!
//! The suites of the crates contain the cases that only a memory backend can show: paused time, switches for
//! faults, counts of requests.

#![allow(clippy::unwrap_used, reason = "a case fails by panicking")]

pub mod barriers;
pub mod cells;
pub mod conversions;
pub mod destroying;
pub mod elections;
pub mod fixed;
pub mod inspecting;
pub mod joint;
mod mortal;
pub mod mutex;
pub mod options;
pub mod permit_order;
pub mod permits;
pub mod queue;
pub mod reentrant;
pub mod rwlock;
pub mod several;
pub mod slots;
mod stages;
pub mod stored;

use std::time::Duration;

use lock_core::{
    CellBackend, Convertible, Fixed, InspectBackend, JointBackend, PermitBackend, SharedBackend,
};
use lock_sync::{Builder, Locks};

pub use self::stages::{Cluster, Etcd, Memory, OneServer, Postgres, QuorumOfThree, Service};
use crate::{SOON, eventually_async};

/// A lease whose end comes too late for [`SOON`]: a waiter that is served in time heard a message.
const LONG: Duration = Duration::from_secs(60);

/// The lease of clients that die.
const SHORT: Duration = Duration::from_millis(1_500);

/// How long a case checks that something does not happen.
const MEANWHILE: Duration = Duration::from_millis(100);

/// A limit that ends while a task waits, and within which a busy store answers.
const LIMIT: Duration = Duration::from_secs(1);

/// A store of its own for one case.
///
/// The capabilities of the backend that not every store has are bounds of the cases that need them.
pub trait Stage: Sized {
    /// How clients reach the store.
    type Backend: SharedBackend + CellBackend + InspectBackend;

    /// Whether nodes vote for holders. After a split vote, nodes may name one reader by several tokens.
    const VOTES: bool = false;

    /// Makes the store.
    fn open() -> impl Future<Output = Self>;

    /// A client that shares nothing with other clients but the store.
    fn client(&self) -> impl Future<Output = Self::Backend>;

    /// Whether no client holds a lock.
    fn is_free(&self) -> bool;
}

macro_rules! stages {
    ($($doc:literal $stage:ident: $bound:path;)+) => {
        $(
            #[doc = $doc]
            pub trait $stage: Stage<Backend: $bound> {}

            impl<S: Stage<Backend: $bound>> $stage for S {}
        )+
    };
}

stages! {
    "A stage whose store converts leases." Converting: SharedBackend<Conversion = Convertible>;
    "A stage whose store converts no lease." Fixing: SharedBackend<Conversion = Fixed>;
    "A stage whose store counts permits." Counting: PermitBackend;
    "A stage whose store has joint holders." Joining: JointBackend;
}

/// A store and two clients of it.
struct Pair<S: Stage> {
    stage: S,
    here: Locks<S::Backend>,
    there: Locks<S::Backend>,
}

impl<S: Stage> Pair<S> {
    async fn new() -> Self {
        Self::with(|locks| locks).await
    }

    /// Two clients with other options.
    async fn with(options: impl Fn(Builder<S::Backend>) -> Builder<S::Backend>) -> Self {
        let stage = S::open().await;
        let here = client(&stage, &options).await;
        let there = client(&stage, &options).await;
        Self { stage, here, there }
    }

    /// One client more.
    async fn third(&self) -> Locks<S::Backend> {
        client(&self.stage, |locks| locks).await
    }

    /// A value for each client.
    fn both<T>(&self, make: impl Fn(&Locks<S::Backend>) -> T) -> (T, T) {
        (make(&self.here), make(&self.there))
    }

    /// Waits until no client holds a lock.
    async fn all_free(&self) {
        eventually_async("no lock is held", SOON, async || self.stage.is_free()).await;
    }
}

async fn client<S: Stage>(
    stage: &S,
    options: impl FnOnce(Builder<S::Backend>) -> Builder<S::Backend>,
) -> Locks<S::Backend> {
    options(Locks::builder(stage.client().await).ttl(LONG)).build().unwrap()
}

/// Polls a future for a while, in which it must not end.
async fn waits<F: Future + Unpin>(waiting: &mut F) {
    let over = tokio::time::timeout(MEANWHILE, waiting).await;
    assert!(over.is_err(), "it has not waited");
}

/// Waits until the store shows this many leases of this name.
async fn until_held<B: InspectBackend>(locks: &Locks<B>, name: &str, count: u64) {
    let held = async || locks.inspect(name).await.unwrap().holding == count;
    eventually_async(&format!("{count} leases of {name}"), SOON, held).await;
}

/// Waits until this many claims wait in the queue of the lock "it".
async fn until_waiting<B: InspectBackend>(locks: &Locks<B>, count: u64) {
    let waiting = async || locks.inspect("it").await.unwrap().waiting == count;
    eventually_async(&format!("{count} claims wait"), SOON, waiting).await;
}

/// Polls a future, which must not end, until this many claims wait in the queue of the lock "it".
///
/// A task that is first in line sends its request itself. So a future that is polled only for a while may never come
/// into the queue of a slow store.
async fn waits_in_line<F: Future + Unpin, B: InspectBackend>(
    waiting: &mut F,
    locks: &Locks<B>,
    count: u64,
) {
    tokio::select! {
        _ = waiting => panic!("it has not waited"),
        () = until_waiting(locks, count) => {}
    }
}

/// Makes a test of each case for a stage.
///
/// Each group of cases is named, in this order. A group of a capability is followed by `yes`, or by `no` where the
/// backend lacks the capability. A `yes` for a backend without the capability does not compile.
///
/// ```text
/// lock_tests::primitives!(lock_tests::primitives::QuorumOfThree:
///     conversions no, permits no, joint no, queue no);
/// ```
#[macro_export]
macro_rules! primitives {
    ($stage:ty: conversions $conversions:ident, permits $permits:ident, joint $joint:ident, queue $queue:ident) => {
        $crate::primitives!(@mutex $stage);
        $crate::primitives!(@options $stage);
        $crate::primitives!(@rwlock $stage);
        $crate::primitives!(@reentrant $stage);
        $crate::primitives!(@several $stage);
        $crate::primitives!(@slots $stage);
        $crate::primitives!(@cells $stage);
        $crate::primitives!(@stored $stage);
        $crate::primitives!(@elections $stage);
        $crate::primitives!(@inspecting $stage);
        $crate::primitives!(@conversions $conversions $stage);
        $crate::primitives!(@permits $permits $stage);
        $crate::primitives!(@joint $joint $stage);
        $crate::primitives!(@queue $queue $stage);
    };
    (@mutex $stage:ty) => {
        $crate::primitives!(@tests mutex $stage:
            a_lock_passes_from_client_to_client,
            a_wait_that_is_dropped_leaves_nothing_behind,
            a_handle_says_how_its_lease_ended,
            a_lock_that_was_dropped_is_free_for_a_try,
            no_update_is_lost,
        );
    };
    (@options $stage:ty) => {
        $crate::primitives!(@tests options $stage:
            an_explicit_lease_lives_as_long_as_it_is_extended,
            handles_with_other_options_are_two_locks_that_exclude,
            locks_of_every_kind_take_options,
            a_cell_bounds_its_initialization,
            a_handle_gives_its_options_to_its_locks,
            a_name_is_a_lock,
        );
    };
    (@rwlock $stage:ty) => {
        $crate::primitives!(@tests rwlock $stage:
            readers_share_and_a_writer_does_not,
            a_writer_excludes_a_mutex_of_that_name,
            tokens_of_readers_and_writers_increase,
            no_writer_enters_during_a_downgrade,
        );
    };
    (@reentrant $stage:ty) => {
        $crate::primitives!(@tests reentrant $stage:
            owners_exclude_each_other,
            no_two_owners_are_inside_at_once,
            an_owner_enters_again,
            an_owner_excludes_a_mutex_of_that_name,
        );
    };
    (@several $stage:ty) => {
        $crate::primitives!(@tests several $stage:
            all_of_several_locks_or_none,
            lists_of_locks_in_any_order_do_not_deadlock,
        );
    };
    (@slots $stage:ty) => {
        $crate::primitives!(@tests slots $stage:
            slots_are_shared_by_both_clients,
            a_slot_has_one_holder_at_a_time,
        );
    };
    (@cells $stage:ty) => {
        $crate::primitives!(@tests cells $stage:
            one_caller_makes_the_value_and_all_read_it,
            a_caller_waits_for_the_value_that_another_client_makes,
            a_client_that_dies_while_it_makes_the_value_is_followed,
        );
    };
    (@stored $stage:ty) => {
        $crate::primitives!(@tests stored $stage:
            no_committed_change_is_lost,
            only_a_commit_changes_the_value,
            a_waiting_client_gets_the_committed_value,
            a_subscriber_ends_at_the_latest_version,
            a_dead_client_commits_nothing,
        );
        $crate::primitives!(@tests destroying $stage:
            a_destroyed_value_begins_anew,
            a_lock_in_use_is_not_destroyed,
        );
    };
    (@elections $stage:ty) => {
        $crate::primitives!(@tests elections $stage:
            one_candidate_leads_at_a_time,
            both_clients_see_each_leader,
            an_observer_hears_of_each_leader,
            a_leader_that_dies_is_followed,
        );
    };
    (@inspecting $stage:ty) => {
        $crate::primitives!(@tests inspecting $stage:
            a_forced_release_ends_what_an_inspection_shows,
            a_forced_release_ends_every_reader,
            an_inspection_shows_no_guard_that_was_dropped,
            a_holder_is_shown_with_its_label,
            a_list_shows_the_locks_of_both_clients,
        );
    };
    (@conversions yes $stage:ty) => {
        $crate::primitives!(@tests conversions $stage:
            a_downgrade_admits_readers_of_both_clients,
            one_reader_can_upgrade_beside_others,
            a_reader_that_is_alone_upgrades_at_once,
            an_upgrade_waits_for_readers_of_both_clients,
            an_upgrade_goes_before_all_waiters,
            an_upgrade_that_takes_too_long_gives_the_guard_back,
            an_upgrade_that_is_dropped_lets_go_of_the_lock,
            readers_and_writers_never_meet,
        );
    };
    (@conversions no $stage:ty) => {
        $crate::primitives!(@tests fixed $stage:
            a_downgrade_admits_the_readers_of_its_client_alone,
            readers_and_writers_never_meet,
        );
    };
    (@permits yes $stage:ty) => {
        $crate::primitives!(@tests permits $stage:
            permits_are_counted_over_both_clients,
            a_client_counts_what_it_has_given_back,
            a_semaphore_has_as_many_permits_as_were_declared,
            a_permit_that_is_given_back_wakes_a_waiter,
            permits_that_were_dropped_are_free_for_a_try,
            a_part_that_was_released_is_free_at_once,
            the_first_client_says_how_many_there_are,
            the_last_declaration_wins,
            a_smaller_number_ends_no_permit,
            processes_with_two_numbers_run_side_by_side,
            two_handles_of_one_client_are_one_semaphore,
            added_permits_are_for_both_clients,
            a_semaphore_may_begin_without_permits,
            free_permits_alone_can_be_taken_out,
            a_forgotten_permit_never_comes_back,
            a_destroyed_semaphore_is_declared_anew,
            there_are_never_more_holders_than_permits,
        );
        $crate::primitives!(@tests permit_order $stage:
            a_large_request_is_not_overtaken,
            what_a_dropped_request_had_gathered_serves_later_ones,
            closing_for_all_ends_it_everywhere,
        );
        $crate::primitives!(@tests barriers $stage:
            no_participant_passes_before_the_last_one_arrives,
            a_barrier_is_passed_round_by_round,
            participants_beyond_the_number_begin_another_round,
            a_barrier_does_not_count_a_dead_participant,
            a_barrier_has_a_ttl_of_its_own,
        );
    };
    (@joint yes $stage:ty) => {
        $crate::primitives!(@tests joint $stage:
            an_owner_that_was_sent_to_another_client_enters_there,
        );
    };
    (@queue yes $stage:ty) => {
        $crate::primitives!(@tests queue $stage:
            an_inspection_shows_the_waiters,
            a_forced_release_lets_the_first_waiter_in,
            a_waiting_writer_holds_back_later_readers,
            a_writer_that_gave_up_holds_back_no_reader,
        );
    };
    (@$capability:ident no $stage:ty) => {};
    (@tests $group:ident $stage:ty: $($case:ident,)+) => {
        mod $group {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    $crate::primitives::$group::$case::<$stage>().await;
                }
            )+
        }
    };
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    #[test]
    fn the_macro_has_every_case() {
        let list = include_str!("mod.rs");
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/primitives");
        let mut cases = 0;
        for file in fs::read_dir(folder).unwrap() {
            let path = file.unwrap().path();
            let group = path.file_stem().unwrap().to_str().unwrap();
            let tests = list.split_once(&format!("@tests {group} $stage:"));
            let tests = tests.and_then(|(_, rest)| rest.split(");").next()).unwrap_or_default();
            let text = fs::read_to_string(&path).unwrap();
            for rest in text.split("\npub async fn ").skip(1) {
                let case = rest.split('<').next().unwrap();
                assert!(tests.contains(&format!(" {case},\n")), "{group}::{case} is in no test");
                cases += 1;
            }
        }
        assert!(cases > 70, "{cases} cases were read");
    }
}
