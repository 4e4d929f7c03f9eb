//! The state of a lock, as the quick scripts return it, and the tokens that follow from it.
//!
//! A state begins with the server's clock at the grant, 16 digits of microseconds. One more character says how much
//! lower the highest token is than four times that clock, counted from 2020: `-` for nothing, or a digit. Only the
//! scripts read the rest (`scripts/state.lua`).

use lock_core::{FencingToken, TokenRange};

use crate::hub::{number, tokens};

/// The beginning of 2020, in microseconds.
const EPOCH: u64 = 1_577_836_800_000_000;
/// The number of digits of a clock.
const DIGITS: usize = 16;
/// The most tokens that one grant reserves.
const MOST_TOKENS: u64 = 40_000;

/// The highest token that a state has given out.
fn latest(state: &[u8]) -> Option<u64> {
    let (clock, rest) = state.split_at_checked(DIGITS)?;
    let below = match rest.first()? {
        b'-' => 0,
        digit @ b'1'..=b'3' => u64::from(digit - b'0'),
        _ => return None,
    };
    let quarters = number::<u64>(clock)?.checked_sub(EPOCH)?.checked_mul(4)?;
    quarters.checked_sub(below)
}

/// The highest token of the grant that left this state to its holder. The holder may have reserved more since.
pub(crate) fn granted(state: &[u8]) -> Option<TokenRange> {
    let mut fields = state.split(|byte| *byte == b' ').skip(1);
    let token = match fields.find_map(|field| field.strip_prefix(b"g")) {
        Some(token) => number(token)?,
        None => latest(state)?,
    };
    tokens(token, token)
}

/// The tokens of a grant that left this state and found the one before: the last of a range, or a single one if there
/// was no readable state before.
pub(crate) fn reserved(state: &[u8], before: Option<&[u8]>, count: u32) -> Option<TokenRange> {
    let last = latest(state)?;
    // A forgotten state may have given out tokens up to here.
    let Some(before) = before.and_then(latest) else { return tokens(last, last) };
    let count = u64::from(count).clamp(1, MOST_TOKENS);
    tokens((last + 1).saturating_sub(count).max(before + 1), last)
}

/// The beginning of a state with this highest token: the clock, and how much lower the token is.
pub(crate) fn clock_of(token: FencingToken) -> (u64, &'static [u8]) {
    /// More than any clock says.
    const NEVER: u64 = 10u64.pow(DIGITS as u32) - 1;
    let below: &[u8] = match token.get() % 4 {
        0 => b"-",
        1 => b"3",
        2 => b"2",
        _ => b"1",
    };
    (EPOCH.saturating_add(token.get().div_ceil(4)).min(NEVER), below)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOON: &[u8] = b"1795000000000000-0123456789abcdef";

    #[test]
    fn tokens_follow_from_the_clock() {
        assert_eq!(latest(NOON), Some(868_652_800_000_000));
        assert_eq!(latest(b"1795000000000000-"), Some(868_652_800_000_000));
        assert_eq!(latest(b"17950000000000003"), Some(868_652_799_999_997));
        assert_eq!(latest(b"1577836800000000-"), Some(0));
        for bad in
            ["", "1795000000000000", "1795000000000000x", "17950000000000004", "w795000000000000-"]
        {
            assert_eq!(latest(bad.as_bytes()), None, "{bad}");
        }
        for too_early in ["1577836799999999-", "0000000000000000-", "15778368000000001"] {
            assert_eq!(latest(too_early.as_bytes()), None, "{too_early}");
        }
    }

    #[test]
    fn a_grant_is_remembered_while_its_holder_reserves_more() {
        let granted = |state: &[u8]| granted(state).map(|it| it.last().get());
        assert_eq!(granted(NOON), Some(868_652_800_000_000));
        assert_eq!(granted(b"1795000000000000-0123456789abcdef i0a l g77"), Some(77));
        assert_eq!(granted(b"1795000000000000-0123456789abcdef gx"), None);
    }

    #[test]
    fn a_range_ends_with_its_grant_and_begins_after_the_one_before() {
        let count = |before, count| reserved(NOON, before, count).map(|it| it.count().get());
        assert_eq!(count(None, 64), Some(1));
        assert_eq!(count(Some(&b"1794000000000000-"[..]), u32::MAX), Some(40_000));
        assert_eq!(count(Some(&b"1794999999999999-"[..]), 64), Some(4));
        assert_eq!(count(Some(&b"17949999999999992"[..]), 64), Some(6));
        assert_eq!(count(Some(&b"1794000000000000- ia1"[..]), 64), Some(64));
        // Such a grant would give a token out twice.
        assert_eq!(count(Some(NOON), 64), None);
        // This state says nothing of tokens.
        assert_eq!(count(Some(b"nonsense"), 64), Some(1));
    }

    proptest! {
        #[test]
        fn a_token_is_told_by_its_clock(token in 0u64..1 << 53) {
            let (clock, below) = clock_of(FencingToken::new(token));
            let state = [format!("{clock:016}").as_bytes(), below].concat();
            prop_assert_eq!(latest(&state), Some(token));
        }

        #[test]
        fn ranges_do_not_overlap(clocks in prop::collection::btree_set(0u64..1 << 50, 2), count: u32) {
            let [before, after] = [0, 1].map(|nth| {
                format!("{}-", EPOCH + clocks.iter().nth(nth).copied().unwrap_or_default())
            });
            let range = reserved(after.as_bytes(), Some(before.as_bytes()), count).unwrap();
            prop_assert!(range.first().get() > latest(before.as_bytes()).unwrap());
            prop_assert_eq!(Some(range.last().get()), latest(after.as_bytes()));
        }
    }
}
