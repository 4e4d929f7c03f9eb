//! The values of stored mutexes.

use lock_sync::{Codec, CodecError};

/// A value. Its bytes follow from its number, so half a value shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Page {
    /// The number, which is unique in a run; `None` if the bytes are those of no value.
    pub(crate) number: Option<u64>,
}

impl Page {
    /// The initial value.
    pub(crate) const FIRST: Self = Self { number: Some(0) };

    pub(crate) fn new(number: u64) -> Self {
        Self { number: Some(number) }
    }

    /// Its bytes: of many lengths, and different in every part.
    pub(crate) fn bytes(number: u64) -> Vec<u8> {
        /// Every so many values is longer than what travels with a grant.
        const LONG: u64 = 8;

        let words = if number.is_multiple_of(LONG) { 150 } else { 1 + number % 16 };
        let text = |word: u64| format!("{number:016x}.{word};");
        (0..=words).map(text).collect::<String>().into_bytes()
    }

    /// The value of these bytes.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let number = bytes.get(..16).and_then(|digits| std::str::from_utf8(digits).ok());
        let number = number.and_then(|digits| u64::from_str_radix(digits, 16).ok());
        Self { number: number.filter(|number| Self::bytes(*number) == bytes) }
    }
}

/// The codec of pages. It reads whatever it gets: the checkers judge that.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pages;

impl Codec<Page> for Pages {
    fn encode(&self, page: &Page) -> Result<Vec<u8>, CodecError> {
        page.number.map(Page::bytes).ok_or_else(|| CodecError::new("it is no value"))
    }

    fn decode(&self, bytes: &[u8]) -> Result<Page, CodecError> {
        Ok(Page::of(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_read_again_and_half_of_it_or_a_mixture_is_none() {
        let none = Page { number: None };
        for number in [0, 7, 8, u64::MAX] {
            let bytes = Page::bytes(number);
            assert_eq!(Page::of(&bytes), Page::new(number));
            assert_eq!(Page::of(&bytes[..bytes.len() / 2]), none);
            let other = Page::bytes(number ^ 16);
            let mixed = [&bytes[..bytes.len() / 2], &other[other.len() / 2..]].concat();
            assert_eq!(Page::of(&mixed), none);
        }
        assert_eq!(Page::of(b""), none);
        assert!(Pages.encode(&none).is_err());
    }
}
