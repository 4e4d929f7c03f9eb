//! The owner of a reentrant lock.

use std::error::Error as StdError;
use std::fmt;
use std::str::FromStr;

use lock_core::{Error, Mode, OwnerToken};

/// The owner that holds a [`ReentrantMutex`](crate::ReentrantMutex), and may lock it again.
///
/// It is a secret of 128 bits: a party that knows it can enter all locks that the owner holds. It does not belong to
/// a task, a thread or a process, and does not say where it came from. It cannot be cloned, and locking
/// borrows it mutably. So one owner is not in two places at once by accident.
///
/// # Handing it to another process
///
/// An owner can be in two places on purpose: [`expose`](Self::expose) turns it into a text, and
/// [`parse`](Self::parse) reads that text. `serde` uses this text as well. The process that receives the owner enters
/// the locks that the sender holds, without waiting for the sender. Each lock is free when both processes have given
/// it up. So a service that holds a lock and calls another service does not wait for itself.
/// Protect the text like a password. `Debug` does not show it.
///
/// # Examples
///
/// ```
/// use lock_core::memory::MemoryBackend;
/// use lock_sync::{Locks, Owner, OwnerGuard};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let store = MemoryBackend::new();
/// let ours = Locks::new(store.client()).reentrant_mutex("orders/42", ())?;
/// let mut owner = Owner::new()?;
/// let mut guard = ours.lock_as(&mut owner).await?;
/// let message = guard.split().1.expose();
///
/// // In another process, which was sent the message:
/// let theirs = Locks::new(store.client()).reentrant_mutex("orders/42", ())?;
/// let mut sender = Owner::parse(&message)?;
/// let entered = theirs.lock_as(&mut sender).await?;
/// let token = |guard| OwnerGuard::lease(guard).fencing_token();
/// assert_eq!(token(&entered), token(&guard));
/// # Ok(())
/// # }
/// ```
pub struct Owner {
    token: OwnerToken,
}

impl Owner {
    /// Generates a new owner.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Other`](lock_core::ErrorKind) if the operating system gives no random bytes.
    pub fn new() -> Result<Self, Error> {
        OwnerToken::generate().map(Self::from_token)
    }

    /// Reads an owner from the text that [`expose`](Self::expose) returned.
    ///
    /// # Errors
    ///
    /// [`ParseOwnerError`] for every other text. The error does not repeat the text, which may be a secret with a
    /// typing error.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_sync::Owner;
    ///
    /// let owner = Owner::new()?;
    /// assert_eq!(Owner::parse(&owner.expose())?.expose(), owner.expose());
    /// assert!(Owner::parse("somebody").is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn parse(text: &str) -> Result<Self, ParseOwnerError> {
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
        Ok(Self::from_token(OwnerToken::from_bytes(bytes)))
    }

    /// The secret, as 32 hexadecimal digits. Never log it.
    pub fn expose(&self) -> String {
        String::from_utf8_lossy(self.token.expose()).into_owned()
    }

    pub(super) fn from_token(token: OwnerToken) -> Self {
        Self { token }
    }

    pub(super) fn token(&self) -> OwnerToken {
        self.token
    }
}

/// The mode in which an owner with this token holds a lock.
pub(super) fn mode(token: OwnerToken) -> Mode {
    Mode::Joint { group: token }
}

impl FromStr for Owner {
    type Err = ParseOwnerError;

    fn from_str(text: &str) -> Result<Self, ParseOwnerError> {
        Self::parse(text)
    }
}

/// Does not show the secret.
impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Owner(redacted)")
    }
}

impl serde::Serialize for Owner {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.expose())
    }
}

impl<'de> serde::Deserialize<'de> for Owner {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl serde::de::Visitor<'_> for Visitor {
            type Value = Owner;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an owner of 32 hexadecimal digits")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Owner, E> {
                Owner::parse(text).map_err(E::custom)
            }
        }

        deserializer.deserialize_str(Visitor)
    }
}

/// Why a text is not an [`Owner`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseOwnerError(Malformed);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Malformed {
    /// It has this number of bytes.
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
        let owner = Owner::new().unwrap();
        assert_eq!(format!("{owner:?}"), "Owner(redacted)");
        assert_ne!(owner.expose(), Owner::new().unwrap().expose());
        assert_eq!(owner.expose().len(), 32);
    }

    #[test]
    fn what_is_no_owner_is_said_without_repeating_it() {
        let message = |text: &str| text.parse::<Owner>().unwrap_err().to_string();
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
            let owner = Owner::from_token(OwnerToken::from_bytes(bytes));
            let read = Owner::parse(&owner.expose()).unwrap();
            prop_assert_eq!(read.token(), owner.token());
        }

        #[test]
        fn nothing_else_is_an_owner(text in "(?s).{0,40}|[0-9a-fA-Fg]{32}") {
            let digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
            let is_owner = text.len() == 32 && text.bytes().all(digit);
            match Owner::parse(&text) {
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
        let owner = Owner::new().unwrap();
        let json = serde_json::to_string(&owner).unwrap();
        assert_eq!(json, format!("\"{}\"", owner.expose()));
        let read: Owner = serde_json::from_str(&json).unwrap();
        assert_eq!(read.token(), owner.token());
        let error = serde_json::from_str::<Owner>("\"me\"").unwrap_err().to_string();
        assert!(error.contains("32 hexadecimal digits, not 2 bytes"), "{error}");
        let error = serde_json::from_str::<Owner>("7").unwrap_err().to_string();
        assert!(error.contains("an owner of 32 hexadecimal digits"), "{error}");
    }
}
