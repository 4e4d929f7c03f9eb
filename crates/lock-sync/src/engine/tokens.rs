//! The fencing tokens of a lease.

use lock_core::{FencingToken, TokenRange};

/// When a lease that stays has fewer tokens than this, the process asks for more.
pub(super) const LOW_TOKENS: u32 = 1024;

/// The tokens that the store reserved for a lease and that no hold has yet, in ascending order.
#[derive(Debug)]
pub(super) struct Tokens {
    range: TokenRange,
    used: u32,
    /// A later range that is not adjacent to the first.
    more: Option<TokenRange>,
    /// The process has asked for more tokens since a hold last got one.
    pub(super) asked: bool,
    /// A holder waits for one more token, until the store has answered a request for tokens.
    pub(super) wanted: bool,
}

impl Tokens {
    pub(super) fn new(range: TokenRange) -> Self {
        Self { range, used: 0, more: None, asked: false, wanted: false }
    }

    #[inline]
    pub(super) fn take(&mut self) -> Option<FencingToken> {
        if self.range.nth(self.used).is_none() {
            self.range = self.more.take()?;
            self.used = 0;
        }
        let token = self.range.nth(self.used)?;
        self.used += 1;
        (self.asked, self.wanted) = (false, false);
        Some(token)
    }

    #[inline]
    pub(super) fn left(&self) -> u32 {
        let more = self.more.map_or(0, |more| more.count().get());
        (self.range.count().get() - self.used).saturating_add(more)
    }

    /// Adds a range above all others. Tokens that do not fit are skipped, never repeated.
    pub(super) fn add(&mut self, range: TokenRange) {
        let last = self.more.map_or(self.range.last(), |more| more.last());
        if range.first() <= last {
            return;
        }
        if self.more.is_none()
            && range.first().get() == last.get() + 1
            && let Some(count) = self.range.count().checked_add(range.count().get())
        {
            self.range = TokenRange::new(self.range.first(), count);
        } else {
            self.more = Some(range);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    fn range(first: u64, count: u32) -> TokenRange {
        TokenRange::new(FencingToken::new(first), NonZeroU32::new(count).unwrap())
    }

    fn drain(mut tokens: Tokens) -> Vec<u64> {
        let left = tokens.left();
        let all: Vec<u64> = std::iter::from_fn(|| tokens.take()).map(|token| token.get()).collect();
        assert_eq!(all.len() as u32, left);
        all
    }

    #[test]
    fn ranges_that_adjoin_become_one() {
        let mut tokens = Tokens::new(range(5, 2));
        tokens.take();
        tokens.add(range(7, 2));
        assert!(tokens.more.is_none());
        tokens.add(range(20, 2));
        assert_eq!(drain(tokens), [6, 7, 8, 20, 21]);
    }

    #[test]
    fn tokens_are_skipped_rather_than_repeated() {
        let mut tokens = Tokens::new(range(5, 2));
        tokens.add(range(4, 3));
        tokens.add(range(10, 2));
        tokens.add(range(11, 2));
        tokens.add(range(30, 1));
        assert_eq!(drain(tokens), [5, 6, 30]);
    }
}
