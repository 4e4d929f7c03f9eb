//! Fencing tokens.

use std::fmt;
use std::num::{NonZeroU32, TryFromIntError};
use std::time::Duration;

/// A number that grows with every exclusive grant of a lock.
///
/// Hand the token to the resource that the lock protects, and let the resource refuse every token that is
/// lower than the highest token it has seen. That protects the resource even from a holder that was paused
/// past the end of its lease and does not know it yet (Kleppmann, *How to do distributed locking*, 2016).
///
/// Successive exclusive grants of one key carry increasing tokens. Numbers may be skipped. Tokens of
/// different keys are not comparable. Tokens are public: never use one as proof of ownership.
///
/// Each acquisition of permits has a unique fencing token, which the parts of a split permit share. The token
/// is higher than every token of a grant that ended before the permit's own grant was asked for. A permit's
/// grant is the grant of the lease that the permit is a part of; a process passes the permits of one lease
/// from task to task. Tokens of grants that overlap in time have no order.
///
/// The backends of this family give out the greater of two numbers: the last token plus one, and the time as
/// [`floor`](Self::floor) counts it. So tokens increase even if a store forgot its counter. They stay
/// below 2⁵³ until 2091, so a resource that keeps them in a double loses nothing.
///
/// # Keeping a token
///
/// A column of the type BIGINT holds every token that these backends give out in the next 70 000 years.
/// `i64::try_from(token)` fails only for a number from 2⁶³ on, which no backend of this family gives out before that.
/// With the feature `serde`, a token is serialized as its number.
///
/// ```
/// use lock_core::FencingToken;
///
/// let token = FencingToken::new(871_234_567_890_123);
/// let column = i64::try_from(token)?; // … SET fence = $1 WHERE fence <= $1
/// assert_eq!(FencingToken::try_from(column)?, token);
/// # Ok::<_, std::num::TryFromIntError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(u64);

impl FencingToken {
    /// The token with this number.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The lowest token that a store may give out at this time since 1970: the quarters of a
    /// microsecond since 2020.
    ///
    /// The unit is so small because a process that passes a lock from task to task uses more than a million
    /// tokens in a second, and tokens must not stay ahead of the clock.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use lock_core::FencingToken;
    ///
    /// let new_year_2020 = Duration::from_secs(1_577_836_800);
    /// assert_eq!(FencingToken::floor(new_year_2020 + Duration::from_micros(3)).get(), 12);
    /// ```
    pub const fn floor(since_1970: Duration) -> Self {
        const EPOCH: Duration = Duration::from_secs(1_577_836_800);
        let quarters = since_1970.saturating_sub(EPOCH).as_nanos() / 250;
        Self(if quarters > u64::MAX as u128 { u64::MAX } else { quarters as u64 })
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<FencingToken> for u64 {
    fn from(token: FencingToken) -> Self {
        token.0
    }
}

/// The number as SQL databases store it.
impl TryFrom<FencingToken> for i64 {
    type Error = TryFromIntError;

    fn try_from(token: FencingToken) -> Result<Self, TryFromIntError> {
        token.0.try_into()
    }
}

/// The token with a number that a database has stored. A negative number is an error.
impl TryFrom<i64> for FencingToken {
    type Error = TryFromIntError;

    fn try_from(number: i64) -> Result<Self, TryFromIntError> {
        number.try_into().map(Self)
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for FencingToken {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for FencingToken {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        u64::deserialize(deserializer).map(Self)
    }
}

/// A run of consecutive fencing tokens that one grant reserves.
///
/// A process that passes a lease from task to task without asking the store gives each holder the
/// next token of the range. The whole range is below the first token of the next grant.
///
/// It comes with a grant: the [example](crate::Claim#examples) of a claim shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TokenRange {
    first: u64,
    count: NonZeroU32,
}

impl TokenRange {
    /// `count` tokens, beginning with `first`.
    pub const fn new(first: FencingToken, count: NonZeroU32) -> Self {
        Self { first: first.0, count }
    }

    /// One token.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::num::NonZeroU32;
    /// use lock_core::{FencingToken, TokenRange};
    ///
    /// let seven = FencingToken::new(7);
    /// let range = TokenRange::new(seven, NonZeroU32::new(3).unwrap());
    /// assert_eq!((range.first(), range.last(), range.count().get()), (seven, FencingToken::new(9), 3));
    /// assert_eq!(range.nth(3), None);
    /// assert_eq!(TokenRange::single(seven).last(), seven);
    /// ```
    pub const fn single(token: FencingToken) -> Self {
        Self::new(token, NonZeroU32::MIN)
    }

    /// The lowest token: that of the first holder.
    pub const fn first(&self) -> FencingToken {
        FencingToken(self.first)
    }

    /// The highest token.
    pub const fn last(&self) -> FencingToken {
        FencingToken(self.first.saturating_add(self.count.get() as u64 - 1))
    }

    /// The token of the holder that comes after `index` others, if the range reaches that far.
    pub fn nth(&self, index: u32) -> Option<FencingToken> {
        (index < self.count.get()).then(|| FencingToken(self.first.saturating_add(index.into())))
    }

    /// The number of tokens.
    pub const fn count(&self) -> NonZeroU32 {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_range_ends_where_it_says() {
        let range = TokenRange::new(FencingToken::new(7), NonZeroU32::new(3).unwrap());
        assert_eq!(range.nth(0), Some(range.first()));
        assert_eq!(range.nth(2), Some(range.last()));
        assert_eq!(range.nth(3), None);
        assert_eq!(range.last().get(), 9);
    }

    #[test]
    fn a_token_fits_into_a_bigint_column_and_comes_back() {
        let most = FencingToken::new(i64::MAX as u64);
        assert_eq!(i64::try_from(most), Ok(i64::MAX));
        assert_eq!(FencingToken::try_from(i64::MAX), Ok(most));
        assert!(i64::try_from(FencingToken::new(1 << 63)).is_err());
        assert!(FencingToken::try_from(-1).is_err());
        // What the docs promise.
        let in_70_000_years = Duration::from_secs(70_000 * 366 * 24 * 3600);
        assert!(i64::try_from(FencingToken::floor(in_70_000_years)).is_ok());
    }

    #[cfg(feature = "serde")]
    #[test]
    fn a_token_is_serialized_as_its_number() {
        for number in [0, 7, u64::MAX] {
            let text = serde_json::to_string(&FencingToken::new(number)).unwrap();
            assert_eq!(text, number.to_string());
            let token: FencingToken = serde_json::from_str(&text).unwrap();
            assert_eq!(token.get(), number);
        }
        assert!(serde_json::from_str::<FencingToken>("-1").is_err());
    }

    proptest! {
        /// Whatever a store says, tokens increase within a range, or stay at the highest number.
        #[test]
        fn tokens_never_go_down_in_a_range(
            first in prop_oneof![any::<u64>(), (0..9u64).prop_map(|below| u64::MAX - below)],
            count in prop_oneof![1..9u32, (0..9u32).prop_map(|below| u32::MAX - below)],
            index: u32,
        ) {
            let range = TokenRange::new(FencingToken::new(first), NonZeroU32::new(count).unwrap());
            prop_assert!(range.first() <= range.last());
            for index in [index, count - 1, count] {
                let token = range.nth(index);
                prop_assert_eq!(token.is_some(), index < count);
                let within = |token| range.first() <= token && token <= range.last();
                prop_assert!(token.is_none_or(within));
            }
        }

        #[test]
        fn the_floor_rises_with_the_time(one: Duration, other: Duration) {
            let (early, late) = (one.min(other), one.max(other));
            prop_assert!(FencingToken::floor(early) <= FencingToken::floor(late));
        }
    }
}
