//! The tables of the laws of abilities.

use futures::future::BoxFuture;

use super::super::scene::{Scene, Terms};
use super::super::verdict::Check;
use super::super::{Harness, Suite, laws};
use super::{Law, suite};
use crate::{CellBackend, InspectBackend, JointBackend, Mode, PermitBackend, SharedBackend};

const PROMISED: Terms = Terms { mode: Mode::Exclusive, promised: true };

#[doc(hidden)]
#[macro_export]
macro_rules! __lock_core_shared_laws {
    ([$($then:tt)+] $($arguments:tt)*) => { $($then)+! { $($arguments)*
        shared {
            every_way_to_share_is_served:
                "No mode and no conversion of readers and writers is answered as unsupported.",
        }
    } };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __lock_core_joint_laws {
    ([$($then:tt)+] $($arguments:tt)*) => { $($then)+! { $($arguments)*
        joint {
            a_group_holds_a_key_together:
                "Members of a group that holds the key are granted it at once, before all who wait.",
            a_group_has_one_set_of_tokens:
                "All members of a group have the same tokens, and renewing brings no others.",
            groups_exclude_each_other:
                "While a group holds the key, it is busy for other groups and in every other mode.",
            a_group_holds_until_its_last_member_leaves:
                "The key passes on when the last member has let go, and not before.",
            each_member_has_its_own_lease:
                "A member whose time is over takes no other member's lease with it.",
            a_group_that_returns_gets_new_tokens:
                "When a group comes again after all its members had left, its tokens are higher.",
            a_group_in_line_is_granted_together:
                "When the first of a group is served, so are all who wait for the same group.",
        }
    } };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __lock_core_permit_laws {
    ([$($then:tt)+] $($arguments:tt)*) => { $($then)+! { $($arguments)*
        permits {
            the_first_user_declares_the_limit:
                "Whoever declares another limit than the first user is told both, even if all are free.",
            the_state_of_a_semaphore_can_be_seen:
                "Every client sees how many permits there are, are held and are waited for.",
            added_permits_serve_those_who_wait:
                "Permits that are added go to those who wait first, and to everybody afterwards.",
            more_than_there_are_can_be_waited_for:
                "Who asks for more permits than there are, even if that is none, waits until there are.",
            added_permits_wake_every_watcher:
                "All watchers of a semaphore hear that permits were added.",
            only_free_permits_can_be_removed:
                "Of the permits that are to go only those go that nobody holds or waits for.",
            a_changed_limit_stays:
                "A limit that was changed is everybody's limit, also when nobody has held a permit since.",
            a_lease_can_give_back_some_permits:
                "A lease that is converted to fewer permits keeps its tokens and serves those who wait.",
            forgotten_permits_are_gone_for_good:
                "Forgetting a lease ends it, and its permits do not come back.",
            forgetting_twice_takes_once:
                "Forgetting again, or what is not held, takes no permit away.",
            a_closed_semaphore_grants_nothing:
                "After closing, whoever asks is told so, whoever waits is woken, and holders stay.",
        }
    } };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __lock_core_cell_laws {
    ([$($then:tt)+] $($arguments:tt)*) => { $($then)+! { $($arguments)*
        cell {
            a_stored_value_can_be_loaded:
                "Every client loads what was stored last, byte for byte, with the writer's token.",
            a_value_outlives_its_lease:
                "A value stays when the lease of its writer was released, or ran out.",
            only_the_holder_can_store:
                "Who does not hold the key stores nothing.",
            a_value_with_a_lower_token_is_refused:
                "A value is not replaced by one with a lower token.",
            loading_tells_whether_the_writer_still_holds:
                "A value comes with whether the lease is held under which it was stored.",
            storing_wakes_watchers:
                "All watchers of a key hear that something was stored.",
            an_erased_value_is_gone:
                "What was erased is not loaded any more.",
            storing_twice_is_no_error:
                "The holder can store the same again, and something else after it.",
            a_value_has_a_limit:
                "The longest value is stored, and a longer one refused.",
        }
    } };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __lock_core_inspect_laws {
    ([$($then:tt)+] $($arguments:tt)*) => { $($then)+! { $($arguments)*
        inspect {
            an_inspection_shows_holders_and_waiters:
                "Every live lease is shown and every place in the queue, and no other.",
            an_inspection_keeps_secrets:
                "Nothing that is shown proves ownership.",
            a_forced_release_ends_every_lease:
                "After a forced release nobody holds the key, and renewals say so.",
            a_forced_release_serves_the_queue:
                "A forced release hands the key to the first in line.",
            tokens_increase_after_a_forced_release:
                "Tokens increase also after a forced release.",
        }
    } };
}

__lock_core_shared_laws! { [suite]
    /// The laws of [`SharedBackend`] beside those under *Sharing* and *Converting* in the contract of
    /// [`Backend`](crate::Backend).
    shared(SharedBackend, PROMISED)
}

__lock_core_joint_laws! { [suite]
    /// The laws of [`JointBackend`].
    joint(JointBackend, PROMISED)
}

__lock_core_permit_laws! { [suite]
    /// The laws of [`PermitBackend`] beside those under *Counting* in the contract of
    /// [`Backend`](crate::Backend).
    permits(PermitBackend, PROMISED)
}

__lock_core_cell_laws! { [suite]
    /// The laws of [`CellBackend`].
    cell(CellBackend, PROMISED)
}

__lock_core_inspect_laws! { [suite]
    /// The laws of [`InspectBackend`].
    inspect(InspectBackend, PROMISED)
}
