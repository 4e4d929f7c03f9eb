//! Modes as the scripts know them.

use std::fmt::{self, Write as _};

use lock_core::{Acquire, Error, ErrorKind, Mode};

/// A mode as the scripts know it: `x`, `s`, `u`, `p2/5` for two of five permits, or `j` and the secret of
/// a group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Code(Mode);

impl Code {
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`] for a mode that this crate does not know.
    pub(crate) fn of(mode: Mode) -> Result<Self, Error> {
        match mode {
            Mode::Exclusive
            | Mode::Shared
            | Mode::Upgradable
            | Mode::Permits { .. }
            | Mode::Joint { .. } => Ok(Self(mode)),
            _ => {
                Err(Error::new(ErrorKind::Unsupported, format!("{mode:?} locks are not there yet")))
            }
        }
    }

    /// Whether the mode may be left out among the arguments of a script.
    pub(crate) fn is_understood(self) -> bool {
        self.0 == Mode::Exclusive
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Mode::Exclusive => f.write_str("x"),
            Mode::Upgradable => f.write_str("u"),
            Mode::Permits { take, of } => write!(f, "p{take}/{of}"),
            Mode::Joint { group } => {
                f.write_str("j")?;
                group.expose().iter().try_for_each(|digit| f.write_char(char::from(*digit)))
            }
            _ => f.write_str("s"),
        }
    }
}

/// Refuses a conversion that does not exist.
///
/// # Errors
///
/// [`ErrorKind::InvalidConfig`].
pub(crate) fn check(request: &Acquire) -> Result<(), Error> {
    match (request.from, request.claim.mode) {
        (None, _)
        | (Some(Mode::Exclusive), Mode::Shared | Mode::Upgradable)
        | (Some(Mode::Upgradable), Mode::Shared | Mode::Exclusive) => Ok(()),
        (Some(Mode::Permits { take, of }), Mode::Permits { take: rest, of: same })
            if of == same && (1..=take).contains(&rest) =>
        {
            Ok(())
        }
        (Some(from), to) => Err(Error::new(
            ErrorKind::InvalidConfig,
            format!("a lease cannot be converted from {from:?} to {to:?}"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lock_core::{Claim, Key, OwnerToken, Ttl};

    use super::*;

    fn request(mode: Mode) -> Acquire {
        let owner = OwnerToken::from_bytes([7; 16]);
        let claim = Claim::exclusive(Key::new("a").unwrap(), owner).in_mode(mode);
        Acquire::new(claim, Ttl::new(Duration::from_secs(1)).unwrap())
    }

    #[test]
    fn every_mode_has_a_code() {
        for (mode, code) in [
            (Mode::Exclusive, "x"),
            (Mode::Shared, "s"),
            (Mode::Upgradable, "u"),
            (Mode::Permits { take: 2, of: 5 }, "p2/5"),
            (
                Mode::Joint { group: OwnerToken::from_bytes([0xAB; 16]) },
                "jabababababababababababababababab",
            ),
        ] {
            assert_eq!(Code::of(mode).unwrap().to_string(), code);
        }
    }

    #[test]
    fn five_conversions_exist() {
        let permits = |take, of| Mode::Permits { take, of };
        let joint = Mode::Joint { group: OwnerToken::from_bytes([1; 16]) };
        let readers = [Mode::Exclusive, Mode::Shared, Mode::Upgradable, joint];
        let counted = [permits(0, 4), permits(2, 4), permits(3, 4), permits(2, 5)];
        let modes = readers.into_iter().chain(counted).collect::<Vec<_>>();
        let mut possible = Vec::new();
        for &from in &modes {
            for &to in modes.iter().filter(|to| **to != from) {
                if check(&request(to).converting(from)).is_ok() {
                    possible.push((from, to));
                }
            }
        }
        assert_eq!(
            possible,
            [
                (Mode::Exclusive, Mode::Shared),
                (Mode::Exclusive, Mode::Upgradable),
                (Mode::Upgradable, Mode::Exclusive),
                (Mode::Upgradable, Mode::Shared),
                (permits(3, 4), permits(2, 4)),
            ]
        );
        assert!(check(&request(permits(2, 4)).converting(permits(2, 4))).is_ok());
    }
}
