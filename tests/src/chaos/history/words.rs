//! An event as a line of words, and back.

use std::fmt;
use std::str::{FromStr, SplitAsciiWhitespace};
use std::time::Duration;

use lock_core::{FencingToken, Instant};

use super::{Deed, Patience, Refusal, Way};

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read => f.write_str("read"),
            Self::Upgradable => f.write_str("upgradable"),
            Self::Write => f.write_str("write"),
            Self::Permits(count) => write!(f, "permits:{count}"),
            Self::Owner(number) => write!(f, "owner:{number}"),
        }
    }
}

impl FromStr for Way {
    type Err = ();

    fn from_str(word: &str) -> Result<Self, ()> {
        Ok(match word.split_once(':') {
            None if word == "read" => Self::Read,
            None if word == "upgradable" => Self::Upgradable,
            None if word == "write" => Self::Write,
            Some(("permits", count)) => Self::Permits(count.parse().map_err(drop)?),
            Some(("owner", number)) => Self::Owner(number.parse().map_err(drop)?),
            _ => return Err(()),
        })
    }
}

impl fmt::Display for Patience {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("tries"),
            Self::Within(limit) => write!(f, "waits:{}", limit.as_nanos()),
        }
    }
}

impl FromStr for Patience {
    type Err = ();

    fn from_str(word: &str) -> Result<Self, ()> {
        match word.split_once(':') {
            None if word == "tries" => Ok(Self::None),
            Some(("waits", nanos)) => {
                nanos.parse().map(|nanos| Self::Within(Duration::from_nanos(nanos))).map_err(drop)
            }
            _ => Err(()),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy => f.write_str("busy"),
            Self::TimedOut => f.write_str("timed-out"),
            Self::GivenUp => f.write_str("given-up"),
            Self::Lost => f.write_str("lost"),
            Self::Closed => f.write_str("closed"),
            Self::Failed(kind) => write!(f, "failed:{kind}"),
        }
    }
}

impl FromStr for Refusal {
    type Err = ();

    fn from_str(word: &str) -> Result<Self, ()> {
        Ok(match word.split_once(':') {
            None if word == "busy" => Self::Busy,
            None if word == "timed-out" => Self::TimedOut,
            None if word == "given-up" => Self::GivenUp,
            None if word == "lost" => Self::Lost,
            None if word == "closed" => Self::Closed,
            Some(("failed", kind)) => Self::Failed(kind.to_owned()),
            _ => return Err(()),
        })
    }
}

impl fmt::Display for Deed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ask { op, task, key, way, patience } => {
                write!(f, "ask {op} {task} {key} {way} {patience}")
            }
            Self::Got { op, token, valid_until } => {
                write!(f, "got {op} {} {}", token.get(), nanos(valid_until))
            }
            Self::Not { op, why } => write!(f, "not {op} {why}"),
            Self::Turn { op, way, patience, valid_until } => {
                write!(f, "turn {op} {way} {patience} {}", nanos(valid_until))
            }
            Self::Turned { op, token, valid_until } => {
                write!(f, "turned {op} {} {}", token.get(), nanos(valid_until))
            }
            Self::Kept { op, why } => write!(f, "kept {op} {why}"),
            Self::Still { op, valid_until } => write!(f, "still {op} {}", nanos(valid_until)),
            Self::Lost { op } => write!(f, "lost {op}"),
            Self::Leave { op, valid_until } => write!(f, "leave {op} {}", nanos(valid_until)),
            Self::Left { op, confirmed, why } => {
                let why = why.as_ref().map_or("nothing".to_owned(), Refusal::to_string);
                write!(f, "left {op} {confirmed} {why}")
            }
            Self::Forgot { op } => write!(f, "forgot {op}"),
            Self::Wrote { op, token, accepted, valid_until } => {
                write!(f, "wrote {op} {} {accepted} {}", token.get(), nanos(valid_until))
            }
            _ => self.beside_holds(f),
        }
    }
}

impl Deed {
    /// Writes a deed that is not about a hold: about limits, barriers, cells and the process.
    fn beside_holds(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Resize { key, limit } => write!(f, "resize {key} {limit}"),
            Self::Resized { key, limit: Some(limit) } => write!(f, "resized {key} {limit}"),
            Self::Resized { key, limit: None } => write!(f, "resized {key} unknown"),
            Self::Arrive { op, key, of } => write!(f, "arrive {op} {key} {of}"),
            Self::Pass { op, leads } => write!(f, "pass {op} {leads}"),
            Self::Look { op, task, key } => write!(f, "look {op} {task} {key}"),
            Self::Make { op } => write!(f, "make {op}"),
            Self::Made { op, value: Some(value) } => write!(f, "made {op} {value}"),
            Self::Made { op, value: None } => write!(f, "made {op} nothing"),
            Self::Saw { op, value: Some(value) } => write!(f, "saw {op} {value}"),
            Self::Saw { op, value: None } => write!(f, "saw {op} nothing"),
            Self::Collapse => f.write_str("collapse"),
            Self::Late { millis } => write!(f, "late {millis}"),
            Self::Uses { files, threads, tasks, memory } => {
                write!(f, "uses {files} {threads} {tasks} {memory}")
            }
            Self::Fault { step, what } => write!(f, "fault {step} {what}"),
            Self::Healed { step } => write!(f, "healed {step}"),
            // Deeds about holds are written above.
            _ => self.about_stored_values(f),
        }
    }
}

impl FromStr for Deed {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut words = Words(text.split_ascii_whitespace());
        let verb: String = words.next()?;
        let deed = Self::read(&verb, &mut words)?;
        if words.0.next().is_some() { Err(()) } else { Ok(deed) }
    }
}

impl Deed {
    fn read(verb: &str, words: &mut Words<'_>) -> Result<Self, ()> {
        Ok(match verb {
            "ask" => Self::Ask {
                op: words.next()?,
                task: words.next()?,
                key: words.next()?,
                way: words.next()?,
                patience: words.next()?,
            },
            "got" => {
                Self::Got { op: words.next()?, token: words.token()?, valid_until: words.at()? }
            }
            "not" => Self::Not { op: words.next()?, why: words.next()? },
            "turn" => Self::Turn {
                op: words.next()?,
                way: words.next()?,
                patience: words.next()?,
                valid_until: words.at()?,
            },
            "turned" => {
                Self::Turned { op: words.next()?, token: words.token()?, valid_until: words.at()? }
            }
            "kept" => Self::Kept { op: words.next()?, why: words.next()? },
            "still" => Self::Still { op: words.next()?, valid_until: words.at()? },
            "lost" => Self::Lost { op: words.next()? },
            "leave" => Self::Leave { op: words.next()?, valid_until: words.at()? },
            "left" => Self::Left {
                op: words.next()?,
                confirmed: words.next()?,
                why: words.unless_nothing()?,
            },
            "forgot" => Self::Forgot { op: words.next()? },
            "wrote" => Self::Wrote {
                op: words.next()?,
                token: words.token()?,
                accepted: words.next()?,
                valid_until: words.at()?,
            },
            other => Self::read_beside_holds(other, words)?,
        })
    }

    /// Reads a deed that is not about a hold.
    fn read_beside_holds(verb: &str, words: &mut Words<'_>) -> Result<Self, ()> {
        Ok(match verb {
            "resize" => Self::Resize { key: words.next()?, limit: words.next()? },
            "resized" => {
                let (key, limit): (_, String) = (words.next()?, words.next()?);
                let limit =
                    if limit == "unknown" { None } else { Some(limit.parse().map_err(drop)?) };
                Self::Resized { key, limit }
            }
            "arrive" => Self::Arrive { op: words.next()?, key: words.next()?, of: words.next()? },
            "pass" => Self::Pass { op: words.next()?, leads: words.next()? },
            "look" => Self::Look { op: words.next()?, task: words.next()?, key: words.next()? },
            "make" => Self::Make { op: words.next()? },
            "made" => Self::Made { op: words.next()?, value: words.unless_nothing()? },
            "saw" => Self::Saw { op: words.next()?, value: words.unless_nothing()? },
            "collapse" => Self::Collapse,
            "late" => Self::Late { millis: words.next()? },
            "uses" => Self::Uses {
                files: words.next()?,
                threads: words.next()?,
                tasks: words.next()?,
                memory: words.next()?,
            },
            "fault" => Self::Fault { step: words.next()?, what: words.next()? },
            "healed" => Self::Healed { step: words.next()? },
            other => Self::read_about_stored_values(other, words)?,
        })
    }
}

fn nanos(at: &Instant) -> u64 {
    at.as_nanos()
}

pub(super) struct Words<'a>(SplitAsciiWhitespace<'a>);

impl Words<'_> {
    pub(super) fn next<T: FromStr>(&mut self) -> Result<T, ()> {
        self.0.next().ok_or(())?.parse().map_err(drop)
    }

    pub(super) fn token(&mut self) -> Result<FencingToken, ()> {
        self.next().map(FencingToken::new)
    }

    pub(super) fn unless_nothing<T: FromStr>(&mut self) -> Result<Option<T>, ()> {
        let word: String = self.next()?;
        if word == "nothing" { Ok(None) } else { word.parse().map(Some).map_err(drop) }
    }

    fn at(&mut self) -> Result<Instant, ()> {
        self.next().map(Instant::from_nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Sight;
    use super::*;

    fn other_deeds() -> Vec<Deed> {
        let (op, at, token) = (7, Instant::from_nanos(u64::MAX), FencingToken::new(u64::MAX));
        let key = || "it".to_owned();
        let patience = Patience::Within(Duration::from_nanos(1_500));
        vec![
            Deed::Ask { op, task: 0, key: key(), way: Way::Write, patience: Patience::None },
            Deed::Got { op, token, valid_until: at },
            Deed::Turn { op, way: Way::Permits(1), patience, valid_until: at },
            Deed::Turned { op, token, valid_until: at },
            Deed::Still { op, valid_until: at },
            Deed::Lost { op },
            Deed::Leave { op, valid_until: at },
            Deed::Left { op, confirmed: true, why: None },
            Deed::Forgot { op },
            Deed::Resize { key: key(), limit: 4 },
            Deed::Resized { key: key(), limit: Some(4) },
            Deed::Resized { key: key(), limit: None },
            Deed::Wrote { op, token, accepted: false, valid_until: at },
            Deed::Arrive { op, key: key(), of: 3 },
            Deed::Pass { op, leads: true },
            Deed::Look { op, task: 2, key: key() },
            Deed::Make { op },
            Deed::Made { op, value: Some(9) },
            Deed::Made { op, value: None },
            Deed::Saw { op, value: Some(9) },
            Deed::Saw { op, value: None },
            Deed::Found { op, sight: Sight { version: None, value: Some(0) } },
            Deed::Store { op, value: 9, base: 0 },
            Deed::Stored { op, version: token },
            Deed::Unstored { op, why: Refusal::Lost, certain: true },
            Deed::Peek { op, task: 1, key: key() },
            Deed::Peeked { op, sight: Sight { version: Some(token), value: Some(9) } },
            Deed::Follow { op, task: 1, key: key() },
            Deed::Heard { op, sight: Sight { version: Some(token), value: None } },
            Deed::Unfollow { op },
            Deed::Collapse,
            Deed::Late { millis: 12 },
            Deed::Uses { files: 1, threads: 2, tasks: 3, memory: 4 },
            Deed::Fault { step: 1, what: "kill-server-0".to_owned() },
            Deed::Healed { step: 1 },
        ]
    }

    #[test]
    fn every_deed_is_read_as_it_was_written() {
        let op = 7;
        let key = || "it".to_owned();
        let ways = [Way::Read, Way::Upgradable, Way::Write, Way::Permits(3), Way::Owner(9)];
        let patience = Patience::Within(Duration::from_nanos(1_500));
        let asks = ways.map(|way| Deed::Ask { op, task: 2, key: key(), way, patience });
        let refusals = [
            Refusal::Busy,
            Refusal::TimedOut,
            Refusal::GivenUp,
            Refusal::Lost,
            Refusal::Closed,
            Refusal::Failed("Timeout".to_owned()),
        ];
        let kept = refusals.clone().map(|why| Deed::Kept { op, why });
        let lefts = refusals.clone().map(|why| Deed::Left { op, confirmed: false, why: Some(why) });
        let nots = refusals.map(|why| Deed::Not { op, why });
        for deed in asks.into_iter().chain(nots).chain(kept).chain(lefts).chain(other_deeds()) {
            let line = deed.to_string();
            assert_eq!(line.parse(), Ok(deed), "{line}");
            assert_eq!(format!("{line} more").parse::<Deed>(), Err(()), "{line}");
        }
        for line in ["", "ask", "got 1 2", "hum 1"] {
            assert_eq!(line.parse::<Deed>(), Err(()), "{line}");
        }
    }
}
