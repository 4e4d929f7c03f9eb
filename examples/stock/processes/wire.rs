//! Visits as lines of text, between a child and its parent.

use std::time::Duration;

use lock_core::{FencingToken, Instant};

use crate::report::{Hold, Outcome, Visit};

/// A visit as a line of its outcome and, with the lock, the instant, the time and the token.
pub(super) fn line(visit: &Visit) -> String {
    let outcome = match visit.outcome {
        Outcome::Bought => "bought",
        Outcome::SoldOut => "sold-out",
        Outcome::Refused => "refused",
        Outcome::Lost => "lost",
    };
    match visit.hold {
        Some(Hold { since, time, token }) => {
            format!("{outcome} {} {} {token}", since.as_nanos(), time.as_nanos())
        }
        None => outcome.to_owned(),
    }
}

/// The visit of a buyer, from such a line.
pub(super) fn parse(buyer: &str, line: &str) -> Option<Visit> {
    let mut words = line.split(' ');
    let outcome = match words.next()? {
        "bought" => Outcome::Bought,
        "sold-out" => Outcome::SoldOut,
        "refused" => Outcome::Refused,
        "lost" => Outcome::Lost,
        _ => return None,
    };
    let numbers: Vec<u64> = words.map(|word| word.parse().ok()).collect::<Option<_>>()?;
    let hold = match numbers[..] {
        [] => None,
        [since, time, token] => Some(Hold {
            since: Instant::from_nanos(since),
            time: Duration::from_nanos(time),
            token: FencingToken::new(token),
        }),
        _ => return None,
    };
    Some(Visit { buyer: buyer.to_owned(), hold, outcome })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn visits_survive_the_pipe() {
        let hold = Hold {
            since: Instant::from_nanos(5),
            time: Duration::from_nanos(7),
            token: FencingToken::new(9),
        };
        for outcome in [Outcome::Bought, Outcome::SoldOut, Outcome::Refused, Outcome::Lost] {
            for hold in [Some(hold), None] {
                let visit = Visit { buyer: "process 1".to_owned(), hold, outcome };
                assert_eq!(parse("process 1", &line(&visit)), Some(visit));
            }
        }
        for bad in ["", "bought 1", "stolen", "bought 1 2 x"] {
            assert_eq!(parse("process 1", bad), None, "{bad}");
        }
    }
}
