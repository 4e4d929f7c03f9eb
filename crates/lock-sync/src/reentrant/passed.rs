//! The text that passes an owner to another process.

use std::error::Error as StdError;
use std::fmt;
use std::str::FromStr;

use lock_core::{Backend, Capability, Error, JointBackend, OwnerToken};

use super::Owner;
use crate::Locks;

/// An [`Owner`] on its way to another process. [`Owner::pass`] makes it, and [`Locks::owner`] turns it into an owner
/// there.
///
/// [`expose`](Self::expose) returns the text, and [`parse`](str::parse) reads it. `serde` uses this text as well.
/// Protect the text like a password. `Debug` does not show it.
///
/// # Examples
///
/// ```
/// use lock_sync::{Owner, PassedOwner};
///
/// let passed = Owner::new()?.pass();
/// assert_eq!(passed.expose().parse::<PassedOwner>()?, passed);
/// assert!("not an owner".parse::<PassedOwner>().is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PassedOwner {
    token: OwnerToken,
}

impl<B: ?Sized> Locks<B> {
    /// Makes the owner that another process has passed to this one, to enter the locks that this
    /// owner holds.
    ///
    /// See [`Owner`](Owner#handing-it-to-another-process). No request is sent.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`](lock_core::ErrorKind) if the type of the backend is [erased](Locks::erase), and the
    /// backend lacks the capability.
    ///
    /// # Over other backends
    ///
    /// The call needs a backend with [joint holders](JointBackend), because two processes then hold one lock. A quorum
    /// lacks them, so over a quorum the call does not compile:
    ///
    /// ```compile_fail,E0277
    /// use lock_core::{Backend, Error};
    /// use lock_sync::{Locks, Owner, PassedOwner};
    ///
    /// fn enter<B: Backend>(locks: &Locks<B>, passed: &PassedOwner) -> Result<Owner, Error> {
    ///     locks.owner(passed) // `B` may lack joint holders
    /// }
    /// ```
    pub fn owner(&self, passed: &PassedOwner) -> Result<Owner, Error>
    where
        // Here, and not on the block: so the compiler's message for a backend without the capability says what to do.
        B: JointBackend,
    {
        self.backend.require(Capability::Join)?;
        Ok(passed.owner())
    }
}

impl Owner {
    /// The text by which another process enters the locks of this owner: [`Locks::owner`](crate::Locks::owner) turns it
    /// into an owner there.
    pub fn pass(&self) -> PassedOwner {
        PassedOwner { token: self.token() }
    }
}

impl PassedOwner {
    /// The secret, as 32 hexadecimal digits. Never log it.
    pub fn expose(&self) -> String {
        String::from_utf8_lossy(self.token.expose()).into_owned()
    }

    fn owner(self) -> Owner {
        Owner::from_token(self.token)
    }
}

/// Reads the text that [`expose`](PassedOwner::expose) returned.
///
/// The error does not repeat a wrong text, because the text may be a secret with a typing error.
impl FromStr for PassedOwner {
    type Err = ParseOwnerError;

    fn from_str(text: &str) -> Result<Self, ParseOwnerError> {
        let digits: &[u8; 2 * BYTES] = text
            .as_bytes()
            .try_into()
            .map_err(|_| ParseOwnerError(Malformed::Length(text.len())))?;
        let mut bytes = [0; BYTES];
        for (index, digit) in digits.iter().enumerate() {
            let value = match digit {
                b'0'..=b'9' => digit - b'0',
                b'a'..=b'f' => digit - b'a' + 10,
                _ => return Err(ParseOwnerError(Malformed::Digit(index))),
            };
            bytes[index / 2] = bytes[index / 2] << 4 | value;
        }
        Ok(Self { token: OwnerToken::from_bytes(bytes) })
    }
}

/// Does not show the secret.
impl fmt::Debug for PassedOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PassedOwner(redacted)")
    }
}

impl serde::Serialize for PassedOwner {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.expose())
    }
}

impl<'de> serde::Deserialize<'de> for PassedOwner {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl serde::de::Visitor<'_> for Visitor {
            type Value = PassedOwner;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an owner of 32 hexadecimal digits")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<PassedOwner, E> {
                text.parse().map_err(E::custom)
            }
        }

        deserializer.deserialize_str(Visitor)
    }
}

/// Why a text is not an [`PassedOwner`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseOwnerError(Malformed);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Malformed {
    /// The text has this number of bytes.
    Length(usize),
    /// The byte at this index is not a digit.
    Digit(usize),
}

impl fmt::Display for ParseOwnerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Malformed::Length(bytes) => {
                write!(f, "an owner has 32 hexadecimal digits, not {bytes} bytes")
            }
            Malformed::Digit(index) => {
                write!(f, "an owner has 32 lower-case hexadecimal digits: byte {index} is not one")
            }
        }
    }
}

impl StdError for ParseOwnerError {}

const BYTES: usize = 16;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn it_hides_and_tells() {
        assert_eq!(format!("{:?}", Owner::new().unwrap()), "Owner(redacted)");
        let owner = Owner::new().unwrap().pass();
        assert_eq!(format!("{owner:?}"), "PassedOwner(redacted)");
        assert_ne!(owner.expose(), Owner::new().unwrap().pass().expose());
        assert_eq!(owner.expose().len(), 32);
    }

    #[test]
    fn what_is_no_owner_is_said_without_repeating_it() {
        let message = |text: &str| text.parse::<PassedOwner>().unwrap_err().to_string();
        assert_eq!(message(""), "an owner has 32 hexadecimal digits, not 0 bytes");
        let slip = "0123456789abcdef0123456789abcdeF";
        assert_eq!(
            message(slip),
            "an owner has 32 lower-case hexadecimal digits: byte 31 is not one"
        );
    }

    proptest! {
        #[test]
        fn every_owner_survives_being_written_down(bytes: [u8; BYTES]) {
            let owner = PassedOwner { token: OwnerToken::from_bytes(bytes) };
            let read = owner.expose().parse::<PassedOwner>().unwrap();
            prop_assert_eq!(read, owner);
        }

        #[test]
        fn nothing_else_is_an_owner(text in "(?s).{0,40}|[0-9a-fA-Fg]{32}") {
            let digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
            let is_owner = text.len() == 32 && text.bytes().all(digit);
            match text.parse::<PassedOwner>() {
                Ok(owner) => prop_assert!(is_owner && owner.expose() == text),
                Err(error) => {
                    prop_assert!(!is_owner);
                    prop_assert!(text.len() < 8 || !error.to_string().contains(&text));
                }
            }
        }
    }

    #[test]
    fn it_is_serialized_as_its_text() {
        let owner = Owner::new().unwrap().pass();
        let json = serde_json::to_string(&owner).unwrap();
        assert_eq!(json, format!("\"{}\"", owner.expose()));
        let read: PassedOwner = serde_json::from_str(&json).unwrap();
        assert_eq!(read, owner);
        let error = serde_json::from_str::<PassedOwner>("\"me\"").unwrap_err().to_string();
        assert!(error.contains("32 hexadecimal digits, not 2 bytes"), "{error}");
        let error = serde_json::from_str::<PassedOwner>("7").unwrap_err().to_string();
        assert!(error.contains("an owner of 32 hexadecimal digits"), "{error}");
    }
}
