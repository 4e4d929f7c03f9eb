//! Which versions of etcd have the fix of etcd #15247. Pure.

use lock_core::{Error, ErrorKind};

/// What a version means for leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// It has the fix.
    Safe,
    /// It lacks the fix: a leader whose disk stalls may end leases that were renewed.
    Unsafe,
    /// It lacks what this crate needs.
    Old,
    /// It is no version.
    Odd,
}

/// Judges the version that a member names.
///
/// Without the fix, a leader whose disk stalls can revoke leases that a later leader has renewed: etcd #15247. 3.4.31,
/// 3.5.13 and 3.6.0 are the first versions of their lines with the fix. No version protects the leases from a leader
/// whose process was stopped.
pub(crate) fn judge(version: &str) -> Judgement {
    match parts(version) {
        None => Judgement::Odd,
        Some((..3, ..) | (3, ..4, _)) => Judgement::Old,
        Some((3, 4, ..31) | (3, 5, ..13)) => Judgement::Unsafe,
        Some(_) => Judgement::Safe,
    }
}

/// Refuses a member of this version, unless any version will do.
pub(crate) fn check(version: &str, any: bool) -> Result<(), Error> {
    let (kind, message) = match judge(version) {
        Judgement::Safe => return Ok(()),
        Judgement::Unsafe if any => return Ok(()),
        Judgement::Unsafe => (
            ErrorKind::Unsupported,
            format!(
                "etcd {version} may end leases that were renewed (etcd #15247): \
                 use 3.4.31, 3.5.13, 3.6 or newer, or allow it by `allow_unsafe_version()` \
                 or the option `?allow_unsafe_version=true` of the URL"
            ),
        ),
        Judgement::Old => (ErrorKind::Unsupported, format!("etcd {version} is older than 3.4")),
        Judgement::Odd => (
            ErrorKind::Protocol,
            format!("the server calls its version {version:?}, which is no version of etcd"),
        ),
    };
    Err(Error::new(kind, message))
}

/// The three numbers of a version. What follows them, such as `-rc.1`, does not count.
fn parts(version: &str) -> Option<(u32, u32, u32)> {
    let numbers = version.split(['-', '+']).next()?;
    let mut numbers = numbers.split('.').map(str::parse::<u32>);
    let parts = (numbers.next()?.ok()?, numbers.next()?.ok()?, numbers.next()?.ok()?);
    numbers.next().is_none().then_some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_that_end_renewed_leases_are_refused() {
        for safe in ["3.4.31", "3.4.100", "3.5.13", "3.5.21+git", "3.6.0", "3.6.0-rc.1", "4.0.0"] {
            assert!(check(safe, false).is_ok(), "{safe}");
        }
        for unsafe_one in ["3.4.0", "3.4.23", "3.4.30", "3.5.0", "3.5.1", "3.5.12"] {
            let error = check(unsafe_one, false).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{unsafe_one}");
            assert!(error.to_string().contains(unsafe_one) && error.to_string().contains("15247"));
            assert!(check(unsafe_one, true).is_ok(), "{unsafe_one}");
        }
        assert_eq!(check("3.3.27", true).unwrap_err().kind(), ErrorKind::Unsupported);
    }

    #[test]
    fn what_is_no_version_is_refused() {
        for odd in ["", "3", "3.4", "3.4.x", "3.4.23.1", "etcd"] {
            assert_eq!(check(odd, true).unwrap_err().kind(), ErrorKind::Protocol, "{odd}");
        }
    }
}
