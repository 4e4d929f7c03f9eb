//! The tables of the laws of abilities.

use futures::future::BoxFuture;

use super::super::scene::{Scene, Terms};
use super::super::verdict::Check;
use super::super::{Harness, Suite, laws};
use super::{Law, suite};
use crate::SharedBackend;
use crate::{
    CellBackend, ConvertBackend, InspectBackend, JointBackend, Mode, PermitBackend, QuorumNode,
};

const PROMISED: Terms = Terms { mode: Mode::Exclusive, promised: true };
const UNPROMISED: Terms = Terms { mode: Mode::Exclusive, promised: false };

#[doc(hidden)]
#[macro_export]
macro_rules! __lock_core_shared_laws {
    ([$($then:tt)+] $($arguments:tt)*) => { $($then)+! { $($arguments)*
        shared {
            every_way_to_share_is_served:
                "No mode of readers and writers is answered as unsupported.",
        }
    } };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __lock_core_convert_laws {
    ([$($then:tt)+] $($arguments:tt)*) => { $($then)+! { $($arguments)*
        converting {
            every_conversion_is_served:
                "No conversion between modes that the backend serves is answered as unsupported.",
            a_downgrade_leaves_no_gap:
                "A writer becomes a reader at once, and no other writer gets in between.",
            a_downgrade_lets_readers_in:
                "A downgrade keeps its tokens and lets in those readers who are first in line.",
            an_upgrade_waits_for_readers:
                "An upgrade is granted to the last reader alone, with higher tokens.",
            an_upgrade_goes_before_those_in_line:
                "Who waits for an upgrade comes before all others who wait.",
            a_waiting_upgrade_keeps_its_lease:
                "Until it is upgraded, a lease stays what it was, and holds back new readers.",
            an_upgrade_ends_with_its_lease:
                "When the lease is over, so is the wait for its upgrade.",
            an_upgrade_never_shortens_the_lease:
                "An upgraded lease has at least the time that it had before.",
            an_upgrade_can_leave_the_line:
                "Who asks for its upgrade again without a place gives up the one it had, and holds on.",
            an_upgradable_holder_hears_that_it_is_alone:
                "When the last reader beside an upgradable one lets go, all watchers hear of it.",
            a_repeated_conversion_returns_the_same_grant:
                "Who asks again for a conversion that it has gets the same tokens.",
            converting_what_is_not_held_fails:
                "A lease that is over, or another's, is not converted.",
            impossible_conversions_are_refused:
                "A conversion that there is no safe way for is refused, and the lease stays.",
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
            what_was_written_is_settled:
                "What was reported as written every later load returns.",
            the_holder_loads_all_that_there_is:
                "What the holder loads under its claim is what was stored before, and stays.",
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

#[doc(hidden)]
#[macro_export]
macro_rules! __lock_core_quorum_laws {
    ([$($then:tt)+] $($arguments:tt)*) => { $($then)+! { $($arguments)*
        voting {
            a_vote_is_a_lease:
                "A vote is given, repeated, dated, renewed, released and ends as a lease is.",
            a_vote_keeps_to_its_mode:
                "Readers vote beside readers, and writers alone.",
            a_vote_queues_nobody:
                "Who is refused a vote has no place in the node's queue.",
            a_vote_overtakes_nobody:
                "Who waits in the node's own queue comes before those who ask for a vote.",
            votes_agree_on_their_tokens:
                "Tokens end with the floor where that is above all before, and with the next elsewhere.",
            tokens_increase_from_vote_to_vote:
                "Whatever the floors are, tokens are above those of all votes, grants and renewals before.",
            a_wild_floor_is_bounded:
                "A floor that is far ahead of the time puts tokens an hour ahead, and no more.",
            a_repeated_vote_is_the_same:
                "A vote that is asked for again brings the same tokens, whatever the floor is now.",
            a_refusal_names_the_holder:
                "A refusal names who holds the key, of several the one whose lease ends last.",
            permits_are_not_voted_on:
                "A ballot for permits is refused as unsupported, and holds nothing.",
        }
        confirming {
            a_token_is_confirmed_while_its_lease_is_held:
                "Only the claim that holds the key confirms a token, as often as it likes.",
            a_stale_token_is_not_confirmed:
                "A token is not confirmed after a higher one was given out or confirmed.",
            a_confirmed_token_is_never_reissued:
                "All tokens that are given out after a confirmed one are above it.",
        }
        guarding {
            an_unknown_node_abstains:
                "A server that nobody has vouched for takes no guarded ballot.",
            a_restarted_node_abstains:
                "After a restart a server is another, and nobody has vouched for that.",
            a_node_that_forgot_abstains:
                "After a server has lost its leases it takes no guarded ballot.",
            an_abstention_holds_nothing:
                "Who asked a node that abstained holds nothing there, and loses nothing.",
            a_quarantine_is_the_same_for_all:
                "Every client sees the same quarantine, as often as it looks.",
            a_node_votes_once_vouched_for:
                "After one client has vouched for a node it votes for every client.",
            a_stale_vouch_has_no_effect:
                "Vouching for a quarantine that is past, or never was, ends none.",
            a_lease_longer_than_vouched_for_is_refused:
                "A lease for which nobody has vouched is refused, with both times in the message.",
            vouching_again_only_lengthens:
                "Vouching for longer leases allows them, and vouching for shorter ones forbids none.",
            a_server_is_told_from_another:
                "All clients of a server see the same name, and those of another server another.",
        }
    } };
}

__lock_core_shared_laws! { [suite]
    /// The laws of [`SharedBackend`] beside those under *Sharing* and *Converting* in the contract of
    /// [`Backend`](crate::Backend).
    shared(SharedBackend, PROMISED)
}

__lock_core_convert_laws! { [suite]
    /// The laws of [`ConvertBackend`].
    convert(ConvertBackend, UNPROMISED)
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

__lock_core_quorum_laws! { [suite]
    /// The laws of [`QuorumNode`].
    quorum(QuorumNode, UNPROMISED)
}
