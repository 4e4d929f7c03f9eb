//! What the functions of the schema tell a client. Pure.

use std::time::Duration;

use lock_core::{Grant, Hint, Instant, OwnerToken, TokenRange};

use crate::answer::{contention, micros, tokens};
use crate::naming;

/// The payload of a notification.
pub(crate) struct News {
    /// The key, as the column has it.
    pub(crate) key: Vec<u8>,
    pub(crate) what: What,
}

pub(crate) enum What {
    Released,
    Changed,
    Contended,
    Granted { owner: OwnerToken, pushed: Pushed },
    Next { owner: OwnerToken, after: Duration },
}

/// A lease that was handed over, as the server saw it.
#[derive(Clone, Debug)]
pub(crate) struct Pushed {
    tokens: TokenRange,
    /// How long it lived when it was granted.
    rest: Duration,
    /// The clock of the server at the grant, in microseconds.
    at: i64,
    contention: lock_core::Contention,
}

/// The server gave a claim its place. The request was sent at `sent`, and the server read `at` some time after that.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placed {
    pub(crate) sent: Instant,
    pub(crate) at: i64,
}

impl News {
    /// `None` for a payload of another program or of a later version.
    pub(crate) fn of(payload: &str) -> Option<Self> {
        let mut words = payload.split(' ');
        let (what, key) = (words.next()?, bytes(words.next()?)?);
        let what = match what {
            "R" => What::Released,
            "V" => What::Changed,
            "C" => What::Contended,
            "N" => {
                let owner = naming::owner_of(words.next()?)?;
                What::Next { owner, after: micros(words.next()?.parse().ok()?) }
            }
            "G" => {
                let owner = naming::owner_of(words.next()?)?;
                let tokens = tokens(words.next()?.parse().ok()?, words.next()?.parse().ok()?)?;
                let _ttl = words.next()?;
                let rest = micros(words.next()?.parse().ok()?);
                let at = words.next()?.parse().ok()?;
                let contention = contention(words.next());
                What::Granted { owner, pushed: Pushed { tokens, rest, at, contention } }
            }
            _ => return None,
        };
        Some(Self { key, what })
    }
}

impl Pushed {
    /// The grant, if its owner can know how much time it has left.
    ///
    /// The two readings of the server's clock are as far apart as place and grant. So the lease ends at least that long
    /// after the request was sent, plus its own time. The drift over all of that comes off. If the clock was set in
    /// between, the readings may claim what cannot be.
    pub(crate) fn grant(&self, placed: Placed, now: Instant) -> Option<Grant> {
        let waited = Duration::from_micros(u64::try_from(self.at.checked_sub(placed.at)?).ok()?);
        let known = now.saturating_duration_since(placed.sent);
        if waited > known + known / 100 + Duration::from_millis(2) {
            return None;
        }
        let all = waited + self.rest;
        let valid_until = placed.sent + all.saturating_sub(all / 100 + Duration::from_millis(2));
        let is_enough = valid_until.saturating_duration_since(now) >= self.rest / 2;
        is_enough.then(|| Grant::new(self.tokens, valid_until).with_contention(self.contention))
    }
}

/// The hint for a watch, without a grant.
impl From<&What> for Hint {
    fn from(what: &What) -> Self {
        match what {
            What::Released => Self::Released,
            What::Changed => Self::Changed,
            What::Contended => Self::Contended,
            What::Granted { owner, .. } => Self::Granted { owner: *owner, grant: None },
            What::Next { owner, after } => Self::Next { owner: *owner, after: *after },
        }
    }
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    let digits = hex.as_bytes();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits.len().is_multiple_of(2).then(|| digits.chunks(2).map(byte).collect())?
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const OWNER: &str = "000102030405060708090a0b0c0d0e0f";

    fn pushed(at: i64) -> Pushed {
        let news = News::of(&format!("G 6e61 {OWNER} 7 2 1000 900000 {at} q")).unwrap();
        assert_eq!(news.key, b"na");
        match news.what {
            What::Granted { pushed, .. } => pushed,
            _ => panic!("no grant"),
        }
    }

    #[test]
    fn a_grant_is_dated_from_the_place() {
        let sent = Instant::from_nanos(0);
        let placed = Placed { sent, at: 5_000_000 };
        let now = sent + Duration::from_millis(3100);
        // 3 s after the place, for 0.9 s, less 39 ms and 2 ms.
        let grant = pushed(8_000_000).grant(placed, now).unwrap();
        assert_eq!(grant.valid_until, sent + Duration::from_millis(3900 - 41));
        assert_eq!(grant.tokens.last().get(), 8);
    }

    #[test]
    fn a_grant_that_cannot_be_is_not_believed() {
        let sent = Instant::from_nanos(0);
        let placed = Placed { sent, at: 5_000_000 };
        // Before the place; after its own message; too late to be of use.
        assert!(pushed(4_000_000).grant(placed, sent + Duration::from_secs(9)).is_none());
        assert!(pushed(8_000_000).grant(placed, sent + Duration::from_secs(2)).is_none());
        assert!(pushed(8_000_000).grant(placed, sent + Duration::from_millis(3700)).is_none());
    }

    #[test]
    fn what_others_write_is_ignored() {
        for odd in ["", "R", "R 6", "R zz", "X 6e61", "G 6e61", "N 6e61 short 5", "R é0"] {
            assert!(News::of(odd).is_none(), "{odd}");
        }
        assert!(matches!(News::of("R 6e").unwrap().what, What::Released));
        let next = News::of(&format!("N 6e {OWNER} 1500")).unwrap();
        assert!(
            matches!(next.what, What::Next { after, .. } if after == Duration::from_micros(1500))
        );
    }
}
