//! Modes as the scripts know them.

use std::fmt;

use lock_core::{Acquire, Error, ErrorKind, Mode};

/// A mode as the scripts know it: `x`, `s`, `u`, or `p2/5` for two of five permits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Code(Mode);

impl Code {
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`] for a mode that this crate does not know.
    pub(crate) fn of(mode: Mode) -> Result<Self, Error> {
        match mode {
            Mode::Exclusive | Mode::Shared | Mode::Upgradable | Mode::Permits { .. } => {
                Ok(Self(mode))
            }
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
            _ => f.write_str("s"),
        }
    }
}

/// Refuses a request that no store could grant.
///
/// # Errors
///
/// [`ErrorKind::InvalidConfig`] for more permits than there are, and for a conversion that does not
/// exist.
pub(crate) fn check(request: &Acquire) -> Result<(), Error> {
    let invalid = |message| Err(Error::new(ErrorKind::InvalidConfig, message));
    let mode = request.claim.mode;
    if let Mode::Permits { take, of } = mode
        && take > of
    {
        return invalid(format!("{take} permits were asked for, but there are only {of}"));
    }
    match (request.from, mode) {
        (None, _)
        | (Some(Mode::Exclusive), Mode::Shared | Mode::Upgradable)
        | (Some(Mode::Upgradable), Mode::Shared | Mode::Exclusive) => Ok(()),
        (Some(from), to) => invalid(format!("a lease cannot be converted from {from:?} to {to:?}")),
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
        ] {
            assert_eq!(Code::of(mode).unwrap().to_string(), code);
        }
    }

    #[test]
    fn four_conversions_exist() {
        let permits = Mode::Permits { take: 1, of: 1 };
        let modes = [Mode::Exclusive, Mode::Shared, Mode::Upgradable, permits];
        let mut possible = Vec::new();
        for from in modes {
            for to in modes {
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
            ]
        );
    }

    #[test]
    fn nobody_gets_more_permits_than_there_are() {
        let ask = |take, of| check(&request(Mode::Permits { take, of }));
        assert!(ask(0, 0).is_ok() && ask(5, 5).is_ok());
        assert_eq!(ask(6, 5).unwrap_err().kind(), ErrorKind::InvalidConfig);
    }
}
