//! The tables of the laws of capabilities.

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
                "A downgrade keeps its tokens and lets in the readers that are first in the queue.",
            an_upgrade_waits_for_readers:
                "An upgrade is granted only when its owner is the last reader, with higher tokens.",
            an_upgrade_goes_before_those_in_line:
                "A waiting upgrade comes before all other waiters.",
            a_waiting_upgrade_keeps_its_lease:
                "Until the upgrade is granted, the lease stays as it was, and holds back new readers.",
            an_upgrade_ends_with_its_lease:
                "When a lease is over, the wait for its upgrade is over too.",
            an_upgrade_never_shortens_the_lease:
                "An upgraded lease has at least the time that it had left before.",
            an_upgrade_can_leave_the_line:
                "A holder that repeats its upgrade without asking for a place gives up its place, and keeps its lease.",
            an_upgradable_holder_hears_that_it_is_alone:
                "When the last reader beside an upgradable one lets go, all watchers hear of it.",
            a_repeated_conversion_returns_the_same_grant:
                "A conversion that is repeated after it was granted returns its tokens again.",
            converting_what_is_not_held_fails:
                "A lease that is over, or that another owner holds, is not converted.",
            impossible_conversions_are_refused:
                "A conversion that cannot be done safely is refused, and the lease stays.",
        }
    } };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __lock_core_joint_laws {
    ([$($then:tt)+] $($arguments:tt)*) => { $($then)+! { $($arguments)*
        joint {
            a_store_with_groups_says_so:
                "A store that has joint holders says so to code that knows it as a plain backend.",
            a_group_holds_a_key_together:
                "Members of a group that holds the key are granted it at once, before all waiters.",
            a_group_has_one_set_of_tokens:
                "All members of a group share their tokens, and a renewal brings no others.",
            groups_exclude_each_other:
                "While a group holds the key, the key is busy for other groups and in every other mode.",
            a_group_holds_until_its_last_member_leaves:
                "The key passes on when the last member has let go, and not before.",
            each_member_has_its_own_lease:
                "A member's lease that expires ends no other member's lease.",
            a_group_that_returns_gets_new_tokens:
                "A group that comes again after all its members have left gets higher tokens.",
            a_group_in_line_is_granted_together:
                "When the first member of a group is granted the key, so are all waiters of that group.",
        }
    } };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __lock_core_permit_laws {
    ([$($then:tt)+] $($arguments:tt)*) => { $($then)+! { $($arguments)*
        permits {
            the_first_user_declares_the_limit:
                "A request that declares another limit than the first user fails with both limits, even if all permits are free.",
            the_state_of_a_semaphore_can_be_seen:
                "Every client sees how many permits there are, how many are held and how many requests wait.",
            added_permits_serve_the_waiters:
                "Permits that are added go to the waiters first, and to later requests afterwards.",
            more_than_there_are_can_be_waited_for:
                "A request for more permits than there are, even if there are none, waits until there are enough.",
            added_permits_wake_every_watcher:
                "All watchers of a semaphore hear that permits were added.",
            only_free_permits_can_be_removed:
                "Only permits that no claim holds or waits for can be removed.",
            a_changed_limit_stays:
                "A changed limit applies to every client, even if no client has held a permit since.",
            a_lease_can_give_back_some_permits:
                "A lease that is converted to fewer permits keeps its tokens, and the freed permits go to the waiters, also after its number was forgotten.",
            forgotten_permits_are_gone_for_good:
                "Forgetting a lease ends it, and its permits do not come back.",
            forgetting_twice_takes_once:
                "Forgetting a lease again, or a lease that is not held, takes no permit away.",
            a_closed_semaphore_grants_nothing:
                "After closing, every request fails, every waiter is woken, and holders keep their permits.",
        }
        declaring {
            the_last_declaration_sets_the_limit:
                "A declaration replaces the limit, whatever was declared before, and serves the waiters.",
            an_earlier_declaration_goes_on_under_the_limit:
                "Requests that declare an earlier number are served under the limit as it is, and requests with another number are refused.",
            a_repeated_declaration_changes_nothing:
                "A number that was declared last can be declared again, and undoes no change.",
            a_smaller_limit_ends_no_lease:
                "After a declaration of fewer permits, every lease stays, and no permit is granted until there is room.",
        }
        undeclaring {
            only_the_exclusive_holder_can_undeclare:
                "A claim that does not hold the key alone cannot remove what the semaphore keeps.",
            an_undeclared_semaphore_begins_anew:
                "After its numbers were removed, a semaphore is open, the next user declares its limit, and tokens go on increasing.",
            undeclaring_twice_is_no_error:
                "The holder can remove the numbers again, and also where there are none.",
        }
    } };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __lock_core_cell_laws {
    ([$($then:tt)+] $($arguments:tt)*) => { $($then)+! { $($arguments)*
        cell {
            a_stored_value_can_be_loaded:
                "Every client loads the value that was stored last, byte for byte, with the writer's token.",
            a_value_outlives_its_lease:
                "A value stays after the lease of its writer was released or has expired.",
            only_the_holder_can_store:
                "A client that does not hold the key stores nothing.",
            a_value_with_a_lower_token_is_refused:
                "A value is not replaced by one with a lower token.",
            loading_tells_whether_the_writer_still_holds:
                "A load says whether the lease under which the value was stored is still held.",
            what_was_written_is_settled:
                "Once a value is reported as written, every later load returns it.",
            the_holder_loads_all_that_there_is:
                "Under its claim the holder loads the value stored last, and no earlier holder can replace it.",
            a_conclusive_load_is_final:
                "A conclusive load shows whether a value without an answer was stored: none appears later.",
            storing_wakes_watchers:
                "All watchers of a key hear that a value was stored.",
            an_erased_value_is_gone:
                "A value that was erased is not loaded any more.",
            storing_twice_is_no_error:
                "The holder can store a value twice, and another value after it.",
            a_value_has_a_limit:
                "A value of the greatest length is stored, and a longer one is refused.",
        }
        committing {
            a_grant_brings_what_its_holder_would_load:
                "If a grant brings a value, its holder would load that value.",
            a_pushed_grant_brings_what_its_holder_would_load:
                "If a grant that a hint announces brings a value, its holder would load that value.",
            a_commit_stores_and_releases:
                "After a commit every client loads the value, with the token of the holder, and the key is free.",
            only_the_holder_can_commit:
                "A commit under a claim that does not hold the key changes nothing and says so.",
            committing_twice_is_no_error:
                "A commit that is repeated is done, and does not touch the lease of the next holder.",
            a_commit_passes_the_key_on:
                "A commit wakes watchers, and hands the key to the first claim in the queue.",
        }
    } };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __lock_core_inspect_laws {
    ([$($then:tt)+] $($arguments:tt)*) => { $($then)+! { $($arguments)*
        inspect {
            an_inspection_shows_holders_and_waiters:
                "An inspection shows every live lease and every place in the queue, and nothing else.",
            an_inspection_keeps_secrets:
                "An inspection shows nothing that proves ownership.",
            an_inspection_shows_labels:
                "An inspection shows the label of the client of each lease and of each place.",
            a_label_ends_with_its_time:
                "A store shows a label for as long as it was told to keep the label, and no longer.",
            an_inspection_shows_how_long_claims_wait:
                "An inspection shows for how long each claim has been in the queue, and keeping a place is not joining anew.",
            a_forced_release_ends_every_lease:
                "After a forced release no client holds the key, and renewals say so.",
            a_forced_release_serves_the_queue:
                "A forced release hands the key to the first claim in the queue.",
            tokens_increase_after_a_forced_release:
                "Tokens increase after a forced release, too.",
        }
        listing {
            a_list_shows_each_lock_of_its_prefix:
                "A list shows each lock of its prefix with its holders and waiters, and no other lock.",
            a_list_comes_in_pages:
                "A list comes in bounded pages and has an end, whatever locks come and go.",
        }
    } };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __lock_core_quorum_laws {
    ([$($then:tt)+] $($arguments:tt)*) => { $($then)+! { $($arguments)*
        voting {
            a_vote_is_a_lease:
                "Votes are given, repeated, dated, renewed and released as leases are, and expire as leases do.",
            a_vote_keeps_to_its_mode:
                "Readers' votes are given beside one another, and a writer's vote only alone.",
            a_vote_gets_no_place:
                "A ballot that is refused gets no place in the node's queue.",
            a_vote_overtakes_no_waiter:
                "A waiter in the node's own queue comes before every ballot.",
            votes_agree_on_their_tokens:
                "The last token of a vote is the floor if that is above all earlier tokens, and else the next number.",
            tokens_increase_from_vote_to_vote:
                "Whatever the floors are, tokens are above those of all earlier votes, grants and renewals.",
            a_wild_floor_is_bounded:
                "A floor that is far ahead of the time puts tokens an hour ahead, and no more.",
            a_repeated_vote_is_the_same:
                "A ballot that is repeated brings its first tokens again, whatever the floor is now.",
            a_late_release_ends_no_other_ballot:
                "The release of a ballot that arrives before its vote, or after the vote for the next ballot of the claim, ends no other ballot.",
            a_refusal_names_the_holder:
                "A refusal names the holder of the key, and of several holders the one whose lease ends last.",
            a_vote_for_the_shortest_lease:
                "A node votes for a lease of the shortest length that it names.",
            permits_are_not_voted_on:
                "A ballot for permits is refused as unsupported, and holds nothing.",
        }
        confirming {
            a_token_is_confirmed_while_its_lease_is_held:
                "Only the claim that holds the key can confirm a token, any number of times.",
            a_stale_token_is_not_confirmed:
                "A token is not confirmed after a higher one was given out or confirmed.",
            a_confirmed_token_is_never_reissued:
                "All tokens that are given out after a confirmed token are above it.",
        }
        guarding {
            a_ballot_for_another_record_gets_no_vote:
                "A node votes on a ballot only while its record is the one that the ballot expects.",
            a_restarted_node_abstains:
                "A restarted server counts as a new one, for which no client has vouched.",
            a_node_that_forgot_abstains:
                "After a server has lost its leases, it abstains from ballots that expect a standing.",
            an_unknown_node_abstains:
                "A server that no client has vouched for abstains from ballots that expect a standing.",
            an_abstention_holds_nothing:
                "A node that abstains grants no lease and ends none.",
            a_quarantine_is_the_same_for_all:
                "Every client sees one quarantine, however often the client looks.",
            a_node_votes_once_vouched_for:
                "After one client has vouched for a node, the node votes for every client.",
            a_stale_vouch_has_no_effect:
                "Vouching for a quarantine that is past, or that never existed, ends none.",
            a_quarantine_ends_by_the_clock_of_the_node:
                "A quarantine ends by itself after twice the longest lease that any client named in it.",
            a_quarantine_without_a_clock_goes_on:
                "A quarantine does not end by itself if the terms of one client rule that out.",
            a_lease_longer_than_vouched_for_is_refused:
                "A lease longer than any that was vouched for is refused, with both times in the message.",
            vouching_again_only_lengthens:
                "Vouching for longer leases allows them, and vouching for shorter ones forbids none.",
            a_server_is_told_from_another:
                "All clients of one server see one name, and clients of another server see another name.",
            a_reassigned_node_votes_for_its_new_members:
                "A node that was reassigned abstains from ballots for its earlier membership, and keeps its leases.",
            only_the_named_membership_is_replaced:
                "Reassigning a node from a membership that it does not have changes nothing.",
            an_admitted_node_is_quarantined:
                "A node that was admitted to a quorum is in a quarantine that no client has seen before.",
        }
    } };
}

__lock_core_shared_laws! { [suite]
    /// The laws of [`SharedBackend`] in addition to those under *Sharing* in the contract of
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
    /// The laws of [`PermitBackend`] in addition to those under *Counting* in the contract of
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
