//! The scripts that run in the server.
//!
//! The frequent cases have *quick* scripts: they name as few keys and make as few calls as possible, and answer
//! `?` where a *full* script has to decide. A full script is put together from parts, in the order in which they
//! are needed. What is around them all has every answer name the request that it is for.

use std::sync::LazyLock;

use crate::wire::Script;

/// A script whose errors name the request as well.
macro_rules! full {
    ($($part:literal),+) => {
        LazyLock::new(|| {
            Script::new(concat!(
                include_str!("scripts/begin.lua"),
                $(include_str!(concat!("scripts/", $part)),)+
                include_str!("scripts/end.lua")
            ))
        })
    };
}

/// A script that is nothing but its parts.
macro_rules! quick {
    ($($part:literal),+) => {
        LazyLock::new(|| {
            Script::new(concat!($(include_str!(concat!("scripts/", $part)),)+))
        })
    };
}

/// For a lock that is free, to be held alone.
pub(crate) static QUICK_ACQUIRE: LazyLock<Script> =
    quick!("acquire_quick.lua", "plain.lua", "acquire_quick_on.lua");
/// For a lease that is held alone. Names the lock and no other key.
pub(crate) static QUICK_RENEW: LazyLock<Script> = quick!("renew_quick.lua");
/// For a lease that is held alone, on a lock that no claim waits for.
pub(crate) static QUICK_RELEASE: LazyLock<Script> = quick!("release_quick.lua");
/// For a claim behind a lease that is held alone.
pub(crate) static QUICK_WAIT: LazyLock<Script> = quick!("wait_quick.lua");
/// For a lease that is held alone, if a claim waits.
pub(crate) static QUICK_HAND_OVER: LazyLock<Script> = quick!("hand_over_quick.lua");
/// For a lease that is held alone, while the slot of its keys is moved.
pub(crate) static SINGLE_RELEASE: LazyLock<Script> = quick!("release_single.lua");

/// For leases that are held by one alone, or by readers.
pub(crate) static ACQUIRE: LazyLock<Script> = full!(
    "keys.lua",
    "acquire.lua",
    "lock.lua",
    "state.lua",
    "read.lua",
    "places.lua",
    "leases.lua",
    "queue.lua",
    "join.lua",
    "acquire_on.lua",
    "acquire_alone.lua",
    "acquire_line.lua",
    "acquire_join.lua"
);
/// For permits, and for leases that are held jointly.
pub(crate) static ACQUIRE_COUNTED: LazyLock<Script> = full!(
    "keys.lua",
    "acquire.lua",
    "lock.lua",
    "state.lua",
    "read.lua",
    "places.lua",
    "leases.lua",
    "limit.lua",
    "queue.lua",
    "join.lua",
    "acquire_on.lua",
    "acquire_counted.lua",
    "acquire_line.lua",
    "acquire_join.lua"
);
pub(crate) static ACQUIRE_TOGETHER: LazyLock<Script> =
    full!("together.lua", "keys.lua", "lock.lua", "state.lua", "places.lua", "together_on.lua");
pub(crate) static RENEW: LazyLock<Script> = full!(
    "keys.lua",
    "renew.lua",
    "lock.lua",
    "state.lua",
    "read.lua",
    "leases.lua",
    "limit.lua",
    "renew_on.lua"
);
/// For many leases, each of a lock that is held alone.
pub(crate) static RENEW_MANY: LazyLock<Script> =
    full!("renew_many.lua", "lock.lua", "state.lua", "many.lua", "renew_many_on.lua");
/// For many claims that have a place in the queue of their lock.
pub(crate) static KEEP_MANY: LazyLock<Script> =
    full!("keep_many.lua", "lock.lua", "state.lua", "places.lua", "many.lua", "keep_many_on.lua");
pub(crate) static RELEASE: LazyLock<Script> = full!(
    "keys.lua",
    "release.lua",
    "lock.lua",
    "state.lua",
    "read.lua",
    "places.lua",
    "leases.lua",
    "queue.lua",
    "release_on.lua"
);
/// Has the releases of a lock be told.
pub(crate) static LISTEN: LazyLock<Script> =
    full!("listen.lua", "lock.lua", "state.lua", "read.lua", "listen_on.lua");

pub(crate) static PERMITS: LazyLock<Script> = full!(
    "keys.lua",
    "permits.lua",
    "lock.lua",
    "state.lua",
    "read.lua",
    "places.lua",
    "leases.lua",
    "limit.lua",
    "queue.lua",
    "line.lua",
    "permits_on.lua"
);
pub(crate) static FORGET: LazyLock<Script> = full!(
    "keys.lua",
    "forget.lua",
    "lock.lua",
    "state.lua",
    "read.lua",
    "places.lua",
    "leases.lua",
    "limit.lua",
    "queue.lua",
    "forget_on.lua"
);
pub(crate) static INSPECT: LazyLock<Script> = full!(
    "keys.lua",
    "inspect.lua",
    "lock.lua",
    "state.lua",
    "read.lua",
    "places.lua",
    "leases.lua",
    "queue.lua",
    "line.lua",
    "inspect_on.lua"
);
pub(crate) static FORCE_RELEASE: LazyLock<Script> = full!(
    "keys.lua",
    "force.lua",
    "lock.lua",
    "state.lua",
    "read.lua",
    "places.lua",
    "leases.lua",
    "queue.lua",
    "force_on.lua"
);
pub(crate) static STORE: LazyLock<Script> = full!("holds.lua", "cell_store.lua");
pub(crate) static LOAD: LazyLock<Script> = full!("holds.lua", "cell_load.lua");
pub(crate) static LOOK: LazyLock<Script> = full!("look.lua");

/// For a lock that is free, to be held alone by votes.
pub(crate) static QUICK_VOTE: LazyLock<Script> = full!(
    "vote_quick.lua",
    "node.lua",
    "vote_guard.lua",
    "plain.lua",
    "vote_refused.lua",
    "vote_quick_on.lua"
);
/// For leases that are votes, in every mode but permits.
pub(crate) static VOTE: LazyLock<Script> = full!(
    "keys.lua",
    "vote.lua",
    "node.lua",
    "vote_guard.lua",
    "vote_keys.lua",
    "lock.lua",
    "state.lua",
    "vote_tokens.lua",
    "read.lua",
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
pub(crate) static CONFIRM: LazyLock<Script> = full!(
    "keys.lua",
    "confirm.lua",
    "lock.lua",
    "state.lua",
    "read.lua",
    "leases.lua",
    "confirm_on.lua"
);
pub(crate) static STANDING: LazyLock<Script> = full!("standing.lua", "node.lua", "standing_on.lua");
pub(crate) static VOUCH: LazyLock<Script> = full!("vouch.lua", "node.lua", "vouch_on.lua");

/// The scripts of a mutex, which every connection loads in advance. The others are loaded when they are
/// needed.
///
/// A server that wants a password closes the connection of a client that sends more than 16 KiB in one piece before it
/// gives one, and could not say what is missing. So the script that lets claims wait is not among these.
pub(crate) fn usual() -> [&'static Script; 8] {
    let [wait, hand_over] = [&QUICK_WAIT, &QUICK_HAND_OVER];
    [&QUICK_ACQUIRE, &QUICK_RENEW, &QUICK_RELEASE, wait, hand_over, &LISTEN, &RENEW, &RELEASE]
}

/// Every script.
pub(crate) fn all() -> impl Iterator<Item = &'static Script> {
    let others: [&Script; 18] = [
        &ACQUIRE,
        &SINGLE_RELEASE,
        &RENEW_MANY,
        &KEEP_MANY,
        &ACQUIRE_COUNTED,
        &ACQUIRE_TOGETHER,
        &PERMITS,
        &FORGET,
        &INSPECT,
        &FORCE_RELEASE,
        &STORE,
        &LOAD,
        &LOOK,
        &QUICK_VOTE,
        &VOTE,
        &CONFIRM,
        &STANDING,
        &VOUCH,
    ];
    usual().into_iter().chain(others)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_that_come_first_are_short_enough_for_a_server_that_wants_a_password() {
        for script in usual() {
            assert!(script.body().len() < 16 * 1024 - 64, "{}", script.body().len());
        }
    }
}
