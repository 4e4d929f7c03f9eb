//! The scripts that run in the server.
//!
//! Each is put together from parts, in the order in which they are needed: a script that finds a lock
//! free does not pay for what it would need otherwise. What is around them all has every answer name the
//! request that it is for.

use std::sync::LazyLock;

use crate::wire;

macro_rules! script {
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

/// For leases that are held by one alone, or by readers.
pub(crate) static ACQUIRE: LazyLock<Script> = script!(
    "keys.lua",
    "acquire.lua",
    "tokens.lua",
    "acquire_free.lua",
    "clock.lua",
    "places.lua",
    "acquire_wait.lua",
    "leases.lua",
    "queue.lua",
    "join.lua",
    "acquire_on.lua",
    "acquire_alone.lua",
    "acquire_line.lua",
    "acquire_join.lua"
);
/// For permits, and for leases that are held jointly.
pub(crate) static ACQUIRE_COUNTED: LazyLock<Script> = script!(
    "keys.lua",
    "acquire.lua",
    "tokens.lua",
    "clock.lua",
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
    script!("together.lua", "keys.lua", "tokens.lua", "clock.lua", "together_on.lua");
pub(crate) static RENEW: LazyLock<Script> = script!(
    "keys.lua",
    "tokens.lua",
    "renew_exclusive.lua",
    "clock.lua",
    "leases.lua",
    "limit.lua",
    "renew.lua"
);
pub(crate) static RELEASE: LazyLock<Script> = script!(
    "keys.lua",
    "release_alone.lua",
    "tokens.lua",
    "clock.lua",
    "places.lua",
    "release_on.lua",
    "leases.lua",
    "queue.lua",
    "release.lua"
);

pub(crate) static PERMITS: LazyLock<Script> = script!(
    "keys.lua",
    "permits.lua",
    "tokens.lua",
    "clock.lua",
    "leases.lua",
    "limit.lua",
    "queue.lua",
    "line.lua",
    "permits_on.lua"
);
pub(crate) static FORGET: LazyLock<Script> = script!(
    "keys.lua",
    "forget.lua",
    "tokens.lua",
    "clock.lua",
    "leases.lua",
    "limit.lua",
    "queue.lua",
    "forget_on.lua"
);
pub(crate) static INSPECT: LazyLock<Script> = script!(
    "keys.lua",
    "inspect.lua",
    "tokens.lua",
    "clock.lua",
    "leases.lua",
    "queue.lua",
    "line.lua",
    "inspect_on.lua"
);
pub(crate) static FORCE_RELEASE: LazyLock<Script> = script!(
    "keys.lua",
    "force.lua",
    "tokens.lua",
    "clock.lua",
    "leases.lua",
    "queue.lua",
    "force_on.lua"
);
pub(crate) static STORE: LazyLock<Script> = script!("cell_store.lua");
pub(crate) static LOAD: LazyLock<Script> = script!("cell_load.lua");
pub(crate) static LOOK: LazyLock<Script> = script!("look.lua");

/// For leases that are votes, in every mode but permits.
pub(crate) static VOTE: LazyLock<Script> = script!(
    "keys.lua",
    "node.lua",
    "vote.lua",
    "tokens.lua",
    "vote_tokens.lua",
    "acquire_free.lua",
    "vote_refused.lua",
    "clock.lua",
    "leases.lua",
    "queue.lua",
    "acquire_on.lua",
    "vote_on.lua",
    "acquire_alone.lua",
    "acquire_line.lua",
    "vote_busy.lua"
);
pub(crate) static CONFIRM: LazyLock<Script> =
    script!("keys.lua", "confirm.lua", "clock.lua", "leases.lua", "confirm_on.lua");
pub(crate) static STANDING: LazyLock<Script> =
    script!("standing.lua", "node.lua", "standing_on.lua");
pub(crate) static VOUCH: LazyLock<Script> = script!("vouch.lua", "node.lua", "vouch_on.lua");

/// The scripts of a mutex, which every connection loads in advance. The others are loaded when they are
/// needed.
pub(crate) fn usual() -> [&'static Script; 3] {
    [&ACQUIRE, &RENEW, &RELEASE]
}

/// Every script.
pub(crate) fn all() -> impl Iterator<Item = &'static Script> {
    let others: [&Script; 13] = [
        &ACQUIRE_COUNTED,
        &ACQUIRE_TOGETHER,
        &PERMITS,
        &FORGET,
        &INSPECT,
        &FORCE_RELEASE,
        &STORE,
        &LOAD,
        &LOOK,
        &VOTE,
        &CONFIRM,
        &STANDING,
        &VOUCH,
    ];
    usual().into_iter().chain(others)
}

/// A script, and the name under which a server that has loaded it knows it.
#[derive(Debug)]
pub(crate) struct Script {
    body: String,
    digest: String,
}

impl Script {
    fn new(source: &str) -> Self {
        let body = shortened(source);
        Self { digest: wire::script_digest(&body), body }
    }

    pub(crate) fn body(&self) -> &str {
        &self.body
    }

    /// The SHA-1 of the body, as 40 hexadecimal digits.
    pub(crate) fn digest(&self) -> &str {
        &self.digest
    }
}

/// What a server needs of a source: less than half of it. One that wants a password closes the connection
/// on whoever sends more than 16 KiB in one piece before giving it, and could not say what is missing.
fn shortened(source: &str) -> String {
    let lines = source.lines().map(str::trim);
    let mut body = String::with_capacity(source.len());
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with("--")) {
        // Texts are between quotes, and have none in them.
        for (index, piece) in line.split('\'').enumerate() {
            if index % 2 == 0 {
                body.push_str(&piece.replace(", ", ",").replace(" = ", "="));
            } else {
                body.extend(["'", piece, "'"]);
            }
        }
        body.push('\n');
    }
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_short_enough_for_a_server_that_wants_a_password() {
        for script in all() {
            assert!(script.body().len() < 16 * 1024 - 64, "{}", script.body().len());
        }
    }

    #[test]
    fn comments_and_spaces_stay_here_and_texts_do_not() {
        let source = "-- Why.\nif a then\n  -- Why not.\n\n  b = f(1, ', ') .. ' = '\n  return 'a -- b'\nend\n";
        assert_eq!(shortened(source), "if a then\nb=f(1,', ') .. ' = '\nreturn 'a -- b'\nend\n");
    }
}
