//! The order of fencing tokens.

use lock_core::{FencingToken, Instant};

/// One guard: when it was requested, when it was granted, and its token.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grant {
    pub(crate) asked: Instant,
    pub(crate) had: Instant,
    pub(crate) token: FencingToken,
}

/// Checks that a caller that asked after another caller had the lock got a higher token, and that
/// no two got one token.
#[track_caller]
pub(crate) fn assert_tokens_increase(grants: &[Grant]) {
    let mut by_token: Vec<u64> = grants.iter().map(|grant| grant.token.get()).collect();
    by_token.sort_unstable();
    assert!(by_token.windows(2).all(|pair| pair[0] < pair[1]), "a token was given twice");

    let (mut asked, mut had) = (grants.to_vec(), grants.to_vec());
    asked.sort_unstable_by_key(|grant| grant.asked);
    had.sort_unstable_by_key(|grant| grant.had);
    let mut before = had.into_iter().peekable();
    let mut highest: Option<Grant> = None;
    for later in asked {
        while let Some(earlier) = before.next_if(|earlier| earlier.had < later.asked) {
            highest = highest.into_iter().chain([earlier]).max_by_key(|grant| grant.token);
        }
        if let Some(earlier) = highest {
            assert!(later.token > earlier.token, "{later:?} came after {earlier:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(asked: u64, had: u64, token: u64) -> Grant {
        let at = Instant::from_nanos;
        Grant { asked: at(asked), had: at(had), token: FencingToken::new(token) }
    }

    #[test]
    fn overlapping_requests_may_be_granted_in_any_order() {
        assert_tokens_increase(&[grant(0, 5, 2), grant(1, 4, 1), grant(6, 7, 3)]);
    }

    #[test]
    #[should_panic(expected = "came after")]
    fn a_later_request_must_get_a_higher_token() {
        assert_tokens_increase(&[grant(0, 5, 2), grant(6, 7, 1)]);
    }

    #[test]
    #[should_panic(expected = "given twice")]
    fn a_token_is_given_once() {
        assert_tokens_increase(&[grant(0, 5, 2), grant(1, 6, 2)]);
    }
}
