//! The secret of the owner of a lease.

use std::fmt;

use crate::{ClientMark, Error, ErrorKind};

/// The secret that proves ownership of one lease: 128 bits from the operating system.
///
/// Any client that knows the token can release or renew the lease, so `Debug` does not show it. Every
/// acquisition draws a new token. When an answer was lost, the client repeats the request with the same
/// token and so learns the outcome.
///
/// The [example](crate::Claim#examples) of a claim shows it.
///
/// # What is secret
///
/// The last 40 bits may be the [mark](ClientMark) of the client, which other clients see, and the first 32 bits are the
/// [tag](Self::tag), which rivals in a quorum see. The 56 bits between the two are random, and differ from attempt to
/// attempt. A client that knows all else would have to guess them, with a request for each guess, while the lease
/// lives. Without a quorum 88 bits are secret.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct OwnerToken([u8; Self::DIGITS]);

impl OwnerToken {
    /// The number of hexadecimal digits of a token.
    pub(crate) const DIGITS: usize = 32;

    /// Draws a token.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Other`] if the operating system gives no random bytes.
    pub fn generate() -> Result<Self, Error> {
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(|error| {
            Error::with_source(ErrorKind::Other, "no random bytes from the system", error)
        })?;
        Ok(Self::from_bytes(random))
    }

    /// The token with these 128 bits, which come from elsewhere.
    ///
    /// [`OwnerTag::of_stored`](crate::OwnerTag::of_stored) has an example.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut hex = [0; 32];
        for (pair, byte) in hex.chunks_exact_mut(2).zip(bytes) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        Self(hex)
    }

    /// This token, with the mark of the client that draws it in place of its last 40 bits.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_core::{ClientMark, OwnerToken};
    ///
    /// let me = ClientMark::generate()?;
    /// assert_eq!(OwnerToken::generate()?.of_client(me).client(), me);
    /// # Ok::<(), lock_core::Error>(())
    /// ```
    #[must_use]
    pub fn of_client(mut self, client: ClientMark) -> Self {
        self.0[Self::DIGITS - ClientMark::DIGITS..].copy_from_slice(client.digits());
        self
    }

    /// The mark of the client that drew this token. Of a client without a mark, these are random bits.
    pub fn client(&self) -> ClientMark {
        let mut digits = [b'0'; ClientMark::DIGITS];
        digits.copy_from_slice(&self.0[Self::DIGITS - ClientMark::DIGITS..]);
        ClientMark::of_token(digits)
    }

    /// The bytes that the digits spell.
    #[cfg(feature = "document")]
    pub(crate) fn bytes(&self) -> [u8; 16] {
        let nibble = |digit: u8| if digit <= b'9' { digit & 15 } else { (digit & 7) + 9 };
        std::array::from_fn(|at| nibble(self.0[2 * at]) << 4 | nibble(self.0[2 * at + 1]))
    }

    /// The secret as 32 hexadecimal digits, as it is stored. Never log it.
    ///
    /// [`OwnerTag::of_stored`](crate::OwnerTag::of_stored) has an example.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for OwnerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnerToken(redacted)")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::OwnerTag;

    #[test]
    fn tokens_differ_and_hide() {
        let one = OwnerToken::generate().unwrap();
        assert_ne!(one, OwnerToken::generate().unwrap());
        let shown = format!("{one:?}");
        assert!(!shown.contains(std::str::from_utf8(one.expose()).unwrap()), "{shown}");
    }

    #[test]
    fn the_digits_are_those_of_the_bytes() {
        let token = OwnerToken::from_bytes(*b"\x00\x01\xfe\xff456789abcdef");
        assert_eq!(token.expose(), b"0001feff343536373839616263646566");
    }

    #[cfg(feature = "document")]
    proptest! {
        #[test]
        fn the_bytes_are_those_that_it_was_made_of(bytes: [u8; 16]) {
            prop_assert_eq!(OwnerToken::from_bytes(bytes).bytes(), bytes);
        }
    }

    proptest! {
        #[test]
        fn tokens_are_as_many_as_their_bytes(one: [u8; 16], other: [u8; 16]) {
            let (a, b) = (OwnerToken::from_bytes(one), OwnerToken::from_bytes(other));
            prop_assert_eq!(a == b, one == other);
            prop_assert_eq!(OwnerTag::of_stored(a.expose()), Some(a.tag()));
            prop_assert_eq!(a.tag(), OwnerTag::new(u32::from_be_bytes([one[0], one[1], one[2], one[3]])));
        }

        /// A value that another client stored has a tag only if it looks like a token, and does no harm.
        #[test]
        fn only_what_looks_like_a_token_has_a_tag(
            stored in prop_oneof![
                prop::collection::vec(any::<u8>(), 0..40),
                "[0-9a-fA-F]{31,33}".prop_map(String::into_bytes),
                "[+0-9a-f]{32}".prop_map(String::into_bytes),
            ],
        ) {
            let is_token = stored.len() == 32 && stored.iter().all(u8::is_ascii_hexdigit);
            prop_assert_eq!(OwnerTag::of_stored(&stored).is_some(), is_token);
        }
    }
}
