//! The scripts that run in the server.
//!
//! The frequent cases have *quick* scripts: they name as few keys and make as few calls as possible, and answer `?`
//! where a *full* script has to decide. A full script consists of parts, in the order in which they need one another.
//! Its first and its last part put the number of the request into every answer.

use crate::wire::Script;

// Each script begins with its verb, as observers know it.

/// A full script: its errors also name the request.
macro_rules! full {
    ($verb:literal: $($part:literal),+) => {
        Script::new($verb, concat!(
            include_str!("scripts/begin.lua"),
            $(include_str!(concat!("scripts/", $part)),)+
            include_str!("scripts/end.lua")
        ))
    };
}

/// A full script that brings the value beside the lock with a grant.
macro_rules! valued {
    ($verb:literal: $($part:literal),+) => {
        Script::new($verb, concat!(
            include_str!("scripts/value_begin.lua"),
            include_str!("scripts/begin.lua"),
            $(include_str!(concat!("scripts/", $part)),)+
            include_str!("scripts/value_end.lua")
        ))
    };
}

/// A request for a lease, as a script of this kind. `$limit` are the parts for permits, and `$how` decides.
macro_rules! acquire {
    ($kind:ident [$($limit:literal)?] $how:literal) => {
        $kind!(
            "acquire": "keys.lua",
            "acquire.lua",
            "lock.lua",
            "state.lua",
            "read.lua",
            "inbox.lua",
            "places.lua",
            "leases.lua",
            $($limit,)?
            "queue.lua",
            "join.lua",
            "acquire_on.lua",
            $how,
            "acquire_line.lua",
            "acquire_join.lua"
        )
    };
}

/// A quick script: only its parts.
macro_rules! quick {
    ($verb:literal: $($parts:tt)+) => { quick_by!(new $verb: $($parts)+) };
}

/// As [`quick`], where grants name their term.
macro_rules! quick_with_terms {
    ($verb:literal: $($parts:tt)+) => { quick_by!(naming_terms $verb: $($parts)+) };
}

macro_rules! quick_by {
    ($new:ident $verb:literal: $($part:literal),+ $(,)?) => {
        Script::$new($verb, concat!($(include_str!(concat!("scripts/", $part)),)+))
    };
}

/// For an exclusive lease on a free lock: a script of this kind, between other parts.
macro_rules! quick_acquire {
    ($kind:ident, [$($before:literal)?], [$($after:literal)?]) => {
        $kind!(
            "acquire": $($before,)?
            "acquire_quick.lua",
            "term.lua",
            "acquire_quick_take.lua",
            "acquire_quick_state.lua",
            "acquire_quick_free.lua",
            "plain.lua",
            "acquire_quick_on.lua",
            "acquire_quick_held.lua",
            "acquire_quick_own.lua",
            "acquire_quick_left.lua",
            $($after)?
        )
    };
}

/// For an exclusive lease on a free lock.
pub(crate) static QUICK_ACQUIRE: Script = quick_acquire!(quick, [], []);
/// As [`QUICK_ACQUIRE`], and brings the value beside the lock.
pub(crate) static VALUE_ACQUIRE: Script =
    quick_acquire!(quick, ["acquire_value.lua"], ["acquire_value_on.lua"]);
/// Writes the value and releases an exclusive lease on a lock that no claim waits for.
pub(crate) static VALUE_RELEASE: Script = quick!("commit": "value_quick.lua");
/// Writes the value and releases an exclusive lease, if a claim waits.
pub(crate) static VALUE_HAND_OVER: Script =
    quick!("commit": "value_on.lua", "inbox.lua", "hand_over_quick.lua", "value_on_end.lua");
/// For an exclusive lease. Names the lock and no other key.
pub(crate) static QUICK_RENEW: Script = quick!("renew": "renew_quick.lua");
/// For an exclusive lease on a lock that no claim waits for.
pub(crate) static QUICK_RELEASE: Script = quick!("release": "release_quick.lua");
/// For a claim behind an exclusive lease.
pub(crate) static QUICK_WAIT: Script = quick!("acquire": "inbox.lua", "wait_quick.lua");
/// For an exclusive lease, if a claim waits.
pub(crate) static QUICK_HAND_OVER: Script = quick!("release": "inbox.lua", "hand_over_quick.lua");
/// For an exclusive lease, while the slot of its keys is moved.
pub(crate) static SINGLE_RELEASE: Script = quick!("release": "release_single.lua");

/// As [`QUICK_ACQUIRE`], where grants name their term.
pub(crate) static TERM_ACQUIRE: Script = quick_acquire!(quick_with_terms, [], []);
/// As [`VALUE_ACQUIRE`], where grants name their term.
pub(crate) static TERM_VALUE_ACQUIRE: Script =
    quick_acquire!(quick_with_terms, ["acquire_value.lua"], ["acquire_value_on.lua"]);
/// As [`VALUE_HAND_OVER`], where grants name their term.
pub(crate) static TERM_VALUE_HAND_OVER: Script = quick_with_terms!(
    "commit": "value_on.lua",
    "term.lua",
    "inbox.lua",
    "hand_over_term.lua",
    "hand_over_quick.lua",
    "hand_over_term_on.lua",
    "value_on_end.lua"
);
/// As [`QUICK_RENEW`], where grants name their term.
pub(crate) static TERM_RENEW: Script = quick!("renew": "renew_term.lua");
/// As [`QUICK_RELEASE`], where grants name their term.
pub(crate) static TERM_RELEASE: Script = quick!("release": "release_term.lua");
/// For the state alone, after [`SINGLE_RELEASE`].
pub(crate) static NOTE_RELEASE: Script = quick!("release": "release_note.lua");
/// As [`QUICK_WAIT`], where grants name their term.
pub(crate) static TERM_WAIT: Script =
    quick!("acquire": "wait_term.lua", "inbox.lua", "wait_quick.lua");
/// As [`QUICK_HAND_OVER`], where grants name their term.
pub(crate) static TERM_HAND_OVER: Script = quick_with_terms!("release": "term.lua", "inbox.lua", "hand_over_term.lua", "hand_over_quick.lua", "hand_over_term_on.lua");

/// For exclusive, shared and upgradable leases.
pub(crate) static ACQUIRE: Script = acquire!(full [] "acquire_alone.lua");
/// As [`ACQUIRE`], and brings the value beside the lock.
pub(crate) static ACQUIRE_WITH_VALUE: Script = acquire!(valued [] "acquire_alone.lua");
/// For permits, and for joint leases.
pub(crate) static ACQUIRE_COUNTED: Script = acquire!(full ["limit.lua"] "acquire_counted.lua");
pub(crate) static ACQUIRE_TOGETHER: Script = full!("acquire": "together.lua", "keys.lua", "lock.lua", "state.lua", "inbox.lua", "places.lua", "together_on.lua");
pub(crate) static RENEW: Script = full!(
    "renew": "keys.lua",
    "renew.lua",
    "lock.lua",
    "state.lua",
    "read.lua",
    "leases.lua",
    "limit.lua",
    "renew_on.lua"
);
/// For many leases, each exclusive.
pub(crate) static RENEW_MANY: Script =
    full!("renew": "renew_many.lua", "lock.lua", "state.lua", "many.lua", "renew_many_on.lua");
/// For many claims that have a place in the queue of their lock.
pub(crate) static KEEP_MANY: Script = full!("acquire": "keep_many.lua", "lock.lua", "state.lua", "inbox.lua", "places.lua", "many.lua", "keep_many_on.lua");
pub(crate) static RELEASE: Script = full!(
    "release": "keys.lua",
    "release.lua",
    "lock.lua",
    "state.lua",
    "read.lua",
    "inbox.lua",
    "places.lua",
    "leases.lua",
    "queue.lua",
    "release_on.lua"
);
/// Asks for messages about the releases of a lock.
pub(crate) static LISTEN: Script =
    full!("listen": "listen.lua", "lock.lua", "state.lua", "read.lua", "listen_on.lua");

pub(crate) static PERMITS: Script = full!(
    "permits": "keys.lua",
    "permits.lua",
    "lock.lua",
    "state.lua",
    "read.lua",
    "inbox.lua",
    "places.lua",
    "leases.lua",
    "limit.lua",
    "queue.lua",
    "line.lua",
    "permits_on.lua"
);
pub(crate) static FORGET: Script = full!(
    "forget": "keys.lua",
    "forget.lua",
    "lock.lua",
    "state.lua",
    "read.lua",
    "inbox.lua",
    "places.lua",
    "leases.lua",
    "limit.lua",
    "queue.lua",
    "forget_on.lua"
);
pub(crate) static INSPECT: Script = full!(
    "inspect": "keys.lua",
    "inspect.lua",
    "lock.lua",
    "state.lua",
    "read.lua",
    "inbox.lua",
    "places.lua",
    "leases.lua",
    "queue.lua",
    "line.lua",
    "inspect_on.lua"
);
/// One step of a walk through the keys of a server.
pub(crate) static LIST: Script = full!("list": "list.lua");
pub(crate) static INTRODUCE: Script = full!("introduce": "introduce.lua");
pub(crate) static LABELS: Script = full!("labels": "labels.lua");
pub(crate) static FORCE_RELEASE: Script = full!(
    "force_release": "keys.lua",
    "force.lua",
    "lock.lua",
    "state.lua",
    "read.lua",
    "inbox.lua",
    "places.lua",
    "leases.lua",
    "queue.lua",
    "force_on.lua"
);
pub(crate) static STORE: Script = full!("store": "holds.lua", "cell_store.lua");
pub(crate) static LOAD: Script = full!("load": "holds.lua", "cell_load.lua");
pub(crate) static UNDECLARE: Script = full!("undeclare": "holds.lua", "undeclare.lua");
pub(crate) static LOOK: Script = full!("look": "look.lua");
/// Finds out which commands the user may not run.
pub(crate) static RIGHTS: Script = full!("check": "rights.lua");

/// Writes a marker, for grants that replicas confirm.
pub(crate) static COMMIT: Script = full!("confirm": "commit.lua");

/// For an exclusive lease by votes, on a free lock.
pub(crate) static QUICK_VOTE: Script = full!(
    "vote": "vote_quick.lua",
    "server.lua",
    "run.lua",
    "vote_guard.lua",
    "plain.lua",
    "vote_refused.lua",
    "vote_quick_on.lua"
);
/// For leases by votes, in every mode but permits.
pub(crate) static VOTE: Script = full!(
    "vote": "keys.lua",
    "vote.lua",
    "server.lua",
    "run.lua",
    "vote_guard.lua",
    "vote_keys.lua",
    "lock.lua",
    "state.lua",
    "vote_tokens.lua",
    "read.lua",
    "inbox.lua",
    "places.lua",
    "vote_refused.lua",
    "leases.lua",
    "queue.lua",
    "acquire_on.lua",
    "vote_on.lua",
    "acquire_alone.lua",
    "acquire_line.lua",
    "vote_busy.lua"
);
pub(crate) static CONFIRM: Script = full!(
    "confirm": "keys.lua",
    "confirm.lua",
    "lock.lua",
    "state.lua",
    "read.lua",
    "leases.lua",
    "confirm_on.lua"
);
pub(crate) static STANDING: Script = full!(
    "standing": "standing.lua",
    "server.lua",
    "run.lua",
    "record.lua",
    "node.lua",
    "standing_on.lua"
);
pub(crate) static VOUCH: Script =
    full!("vouch": "vouch.lua", "server.lua", "run.lua", "vouch_on.lua");

/// Whether the server may have forgotten leases, and for how long it sits out.
pub(crate) static RECALL: Script =
    full!("recall": "recall.lua", "server.lua", "record.lua", "recall_on.lua");

/// Whether a script may grant a lease to the client that calls it, or a place in the queue.
pub(crate) fn asks(script: &'static Script) -> bool {
    let asking: [&'static Script; 11] = [
        &QUICK_ACQUIRE,
        &TERM_ACQUIRE,
        &VALUE_ACQUIRE,
        &TERM_VALUE_ACQUIRE,
        &ACQUIRE_WITH_VALUE,
        &QUICK_WAIT,
        &TERM_WAIT,
        &KEEP_MANY,
        &ACQUIRE,
        &ACQUIRE_COUNTED,
        &ACQUIRE_TOGETHER,
    ];
    asking.iter().any(|it| std::ptr::eq(*it, script))
}

/// Whether the last argument of a script is the term that a grant names, as the client knows it.
pub(crate) fn is_told_term(script: &'static Script) -> bool {
    let told: [&'static Script; 4] =
        [&TERM_ACQUIRE, &TERM_HAND_OVER, &TERM_VALUE_ACQUIRE, &TERM_VALUE_HAND_OVER];
    told.iter().any(|it| std::ptr::eq(*it, script))
}

/// The scripts of a mutex. Every connection sends each of them ahead of its first call. The scripts that are not here
/// are loaded when the server says that it does not know them.
///
/// A server that wants a password closes the connection of a client that sends more than 16 KiB in one piece before
/// the password, and could not say what is missing. So the script that queues claims is not among these, nor the one
/// that releases in full.
pub(crate) fn usual(terms: bool) -> impl Iterator<Item = &'static Script> {
    let quick: [&'static Script; 5] = if terms {
        [&TERM_ACQUIRE, &TERM_RENEW, &TERM_RELEASE, &TERM_WAIT, &TERM_HAND_OVER]
    } else {
        [&QUICK_ACQUIRE, &QUICK_RENEW, &QUICK_RELEASE, &QUICK_WAIT, &QUICK_HAND_OVER]
    };
    let full: [&'static Script; 2] = [&LISTEN, &RENEW];
    quick.into_iter().chain(full).map(move |script| script.with_terms(terms))
}

/// Every script, where grants name their `terms` or do not.
pub(crate) fn all(terms: bool) -> impl Iterator<Item = &'static Script> {
    let others: [&'static Script; 27] = [
        &ACQUIRE,
        &RELEASE,
        &ACQUIRE_WITH_VALUE,
        &VALUE_RELEASE,
        &SINGLE_RELEASE,
        &RENEW_MANY,
        &KEEP_MANY,
        &ACQUIRE_COUNTED,
        &ACQUIRE_TOGETHER,
        &PERMITS,
        &UNDECLARE,
        &FORGET,
        &INSPECT,
        &LIST,
        &INTRODUCE,
        &LABELS,
        &FORCE_RELEASE,
        &STORE,
        &LOAD,
        &LOOK,
        &RIGHTS,
        &QUICK_VOTE,
        &VOTE,
        &CONFIRM,
        &STANDING,
        &VOUCH,
        &RECALL,
    ];
    let of_terms: [&'static Script; 2] = [&NOTE_RELEASE, &COMMIT];
    let of_values: [&'static Script; 2] = if terms {
        [&TERM_VALUE_ACQUIRE, &TERM_VALUE_HAND_OVER]
    } else {
        [&VALUE_ACQUIRE, &VALUE_HAND_OVER]
    };
    let others = others.into_iter().chain(of_values);
    let others = others.map(move |script| script.with_terms(terms));
    usual(terms).chain(others).chain(of_terms.into_iter().filter(move |_| terms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_that_come_first_are_short_enough_for_a_server_that_wants_a_password() {
        for script in usual(false).chain(usual(true)) {
            assert!(script.body().len() < 16 * 1024 - 64, "{}", script.body().len());
        }
    }
}
