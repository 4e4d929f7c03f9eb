//! The version of the server, and the faults of old versions.

use lock_core::check::{Findings, Severity};

use super::super::facts::Facts;
use super::super::info::Info;

/// The releases that end the faults of Lua of October 2025 (CVE-2025-49844, -46817, -46818 and -46819), one for each
/// line of versions that got one.
const FIXED_IN_REDIS: [[u32; 3]; 5] = [[6, 2, 20], [7, 2, 11], [7, 4, 6], [8, 0, 4], [8, 2, 2]];
const FIXED_IN_VALKEY: [[u32; 3]; 3] = [[7, 2, 11], [8, 0, 6], [8, 1, 4]];

/// The first version with everything that the scripts need.
const OLDEST: [u32; 3] = [5, 0, 0];

/// What is known of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Absent,
    /// This release ends it.
    Ends([u32; 3]),
    /// No release of this line ended it, so only the distributor of the server knows.
    Unknown,
}

pub(super) fn find(facts: &Facts, found: &mut Findings<'_>) {
    let Some((info, version)) = facts.info.known().and_then(|it| Some((it, parse(it)?))) else {
        return;
    };
    let shown = info.version().unwrap_or_default();
    if version < OLDEST {
        found.add(
            Severity::Critical,
            "old-version",
            format!("the server has version {shown}"),
            "the scripts of locks need commands and rules of Redis 5",
            "run Redis 6.2 or later, or Valkey",
        );
    }
    let reason = "a user who may run scripts may be able to run other code in the server, and so take every lock";
    match fault(version, info.get("valkey_version").is_some()) {
        Fault::Absent => {}
        Fault::Ends([major, minor, patch]) => found.add(
            Severity::Warning,
            "script-faults",
            format!("version {shown} has known faults in scripts (CVE-2025-49844 and others)"),
            reason,
            format!(
                "run {major}.{minor}.{patch} or later, unless the distributor of the server has corrected this version"
            ),
        ),
        Fault::Unknown => found.add(
            Severity::Unknown,
            "script-faults",
            format!(
                "version {shown}: no release of its line corrects the known faults in scripts (CVE-2025-49844 and others)"
            ),
            reason,
            "ask the distributor of the server whether its package corrects these faults, or run a newer line",
        ),
    }
}

fn parse(info: &Info) -> Option<[u32; 3]> {
    let mut numbers = info.version()?.split(['.', '-']).map(|part| part.parse::<u32>().ok());
    let first = numbers.next()??;
    let mut next = || numbers.next().flatten().unwrap_or(0);
    Some([first, next(), next()])
}

fn fault(version: [u32; 3], is_valkey: bool) -> Fault {
    let fixed = if is_valkey { &FIXED_IN_VALKEY[..] } else { &FIXED_IN_REDIS[..] };
    match fixed.iter().find(|it| it[..2] == version[..2]) {
        Some(first) if version < *first => Fault::Ends(*first),
        Some(_) => Fault::Absent,
        None if fixed.iter().all(|it| version > *it) => Fault::Absent,
        None => Fault::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_ends_with_a_release_of_each_line() {
        for (version, is_valkey, expected) in [
            ([6, 2, 19], false, Fault::Ends([6, 2, 20])),
            ([6, 2, 20], false, Fault::Absent),
            ([7, 0, 15], false, Fault::Unknown),
            ([7, 4, 5], false, Fault::Ends([7, 4, 6])),
            ([8, 4, 0], false, Fault::Absent),
            ([8, 1, 3], true, Fault::Ends([8, 1, 4])),
            ([8, 1, 8], true, Fault::Absent),
            ([9, 0, 0], true, Fault::Absent),
            ([5, 0, 14], false, Fault::Unknown),
        ] {
            assert_eq!(fault(version, is_valkey), expected, "{version:?}");
        }
    }

    #[test]
    fn a_version_is_three_numbers_or_fewer() {
        let of = |text: &str| parse(&Info::parse(format!("redis_version:{text}").as_bytes()));
        assert_eq!(of("7.0.15"), Some([7, 0, 15]));
        assert_eq!(of("8.0-rc1"), Some([8, 0, 0]));
        assert_eq!(of("unstable"), None);
    }
}
