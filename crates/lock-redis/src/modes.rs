//! Modes in the notation of the scripts.

use std::fmt::{self, Write as _};

use lock_core::{Error, ErrorKind, Mode};

/// A mode in the notation of the scripts: `x`, `s`, `u`, `p2/5` for two of five permits, or `j` and the
/// secret of a group.
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

    /// Whether the mode may be omitted from the arguments of a script.
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

#[cfg(test)]
mod tests {
    use lock_core::OwnerToken;

    use super::*;

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
}
