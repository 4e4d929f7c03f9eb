//! The token to ask all nodes for.

use std::collections::HashMap;
use std::time::SystemTime;

use lock_core::{FencingToken, Key};

use crate::guarded::Guarded;
use crate::sweep::Sweep;

/// The highest token of each key that is ahead of the clock.
#[derive(Debug, Default)]
pub(crate) struct Floors(Guarded<Last>);

#[derive(Debug, Default)]
struct Last {
    tokens: HashMap<Key, FencingToken>,
    sweep: Sweep,
}

impl Floors {
    /// The last token to ask all nodes for, when so many tokens are wanted. It is at least the time, and so far above
    /// the last known token of this key that there is room for all of them.
    pub(crate) fn floor(&self, key: &Key, wanted: u32) -> FencingToken {
        let known = self.0.lock().tokens.get(key).copied();
        let above = known.map(|last| last.get().saturating_add(u64::from(wanted)));
        FencingToken::new(above.unwrap_or(0)).max(time())
    }

    /// Notes a token that was given out. Now and then, tokens that the time has overtaken are forgotten: they say
    /// nothing any more.
    pub(crate) fn raise(&self, key: &Key, token: FencingToken) {
        let mut last = self.0.lock();
        let Last { tokens, sweep } = &mut *last;
        let mut now = None;
        sweep.run(tokens, |last| *last > *now.get_or_insert_with(time));
        let last = tokens.entry(key.clone()).or_insert(token);
        *last = token.max(*last);
    }
}

fn time() -> FencingToken {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    FencingToken::floor(since_1970.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep;

    #[test]
    fn the_floor_is_above_what_is_known_and_not_behind_the_time() {
        let (floors, key) = (Floors::default(), Key::new("a").unwrap());
        let before = time();
        assert!(floors.floor(&key, 10) >= before);
        let ahead = FencingToken::new(time().get() + (1 << 40));
        floors.raise(&key, ahead);
        assert_eq!(floors.floor(&key, 10).get(), ahead.get() + 10);
        for number in 0..10 * sweep::MIN as u64 {
            floors.raise(&Key::new(number.to_string()).unwrap(), FencingToken::new(number));
        }
        assert!(floors.0.lock().tokens.len() <= 2 * sweep::MIN);
        assert_eq!(floors.floor(&key, 1).get(), ahead.get() + 1);
    }
}
