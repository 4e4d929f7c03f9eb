//! The orders of the harness to a worker.

use std::io::BufRead;
use std::process;
use std::sync::mpsc;
use std::time::Duration;

use crate::voice::say;

/// An order, a line each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    /// The addressed client of the process: all, unless the order begins with `at NUMBER`.
    pub(crate) hand: Option<usize>,
    pub(crate) what: What,
}

/// Confirms that an order was executed, when the last client that executes it drops this.
#[derive(Debug)]
pub(crate) struct Done(String);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// `block MS`: blocks the thread of the tasks. Answered by `blocked MS` afterwards.
    Block(Duration),
    /// `abort N`: ends this many tasks wherever they are, and starts others. Answered by `aborted
    /// N`.
    Abort(usize),
    /// `collapse`: ends the runtime of the tasks, and starts another. Answered by `collapsed`.
    Collapse,
    /// `store …`: applies a fault to the store, which is the memory backend, at once. Answered by
    /// `stored`.
    Store(Mischief),
    /// `uses`: records the resources in use. Answered by `used`.
    Uses,
    /// `rest`: starts nothing new. Answered by `rested` when everything has ended.
    Rest,
    /// `go`: starts again after a rest. Answered by `gone on`.
    Go,
    /// `probe`: tries everything in the strongest way, at rest. Answered by `probed`.
    Probe,
    /// `shutdown`: shuts the locks down. Answered by `shut`.
    Shutdown,
}

/// The faults of the memory backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mischief {
    /// Requests fail and are not executed, until it is healed.
    Fail,
    /// This many requests are executed and their answers are lost.
    Lose(u32),
    /// Requests hang, until it is healed.
    Hang,
    /// Answers hang, until it is healed.
    HangReplies,
    /// Requests and answers take this many milliseconds, until it is healed.
    Delay(u64),
    /// The connection is cut, until it is healed.
    Cut,
    /// No hints arrive, until it is healed.
    Mute,
    /// The memory backend forgets everything.
    Forget,
    /// Watches end.
    Restart,
    Heal,
}

impl Order {
    /// `None` if the line makes no sense.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let (hand, words) = match words[..] {
            ["at", number, ref rest @ ..] => (Some(number.parse().ok()?), rest),
            ref all => (None, all),
        };
        let what = match *words {
            ["block", time] => What::Block(Duration::from_millis(time.parse().ok()?)),
            ["abort", count] => What::Abort(count.parse().ok()?),
            ["collapse"] => What::Collapse,
            ["store", ref rest @ ..] => What::Store(Mischief::parse(rest)?),
            ["uses"] => What::Uses,
            ["rest"] => What::Rest,
            ["go"] => What::Go,
            ["probe"] => What::Probe,
            ["shutdown"] => What::Shutdown,
            _ => return None,
        };
        Some(Self { hand, what })
    }
}

impl What {
    /// The words that confirm the order.
    fn done(&self) -> String {
        match self {
            Self::Block(time) => format!("blocked {}", time.as_millis()),
            Self::Abort(count) => format!("aborted {count}"),
            Self::Collapse => "collapsed".to_owned(),
            Self::Store(_) => "stored".to_owned(),
            Self::Uses => "used".to_owned(),
            Self::Rest => "rested".to_owned(),
            Self::Go => "gone on".to_owned(),
            Self::Probe => "probed".to_owned(),
            Self::Shutdown => "shut".to_owned(),
        }
    }
}

impl Done {
    pub(crate) fn of(what: &What) -> Self {
        Self(what.done())
    }
}

impl Drop for Done {
    fn drop(&mut self) {
        say(&self.0);
    }
}

impl Mischief {
    /// Whether it concerns the store, and so all of its clients.
    pub(crate) fn is_common(self) -> bool {
        matches!(self, Self::Forget | Self::Restart)
    }

    fn parse(words: &[&str]) -> Option<Self> {
        Some(match *words {
            ["fail"] => Self::Fail,
            ["lose", count] => Self::Lose(count.parse().ok()?),
            ["hang"] => Self::Hang,
            ["hang-replies"] => Self::HangReplies,
            ["delay", millis] => Self::Delay(millis.parse().ok()?),
            ["cut"] => Self::Cut,
            ["mute"] => Self::Mute,
            ["forget"] => Self::Forget,
            ["restart"] => Self::Restart,
            ["heal"] => Self::Heal,
            _ => return None,
        })
    }
}

/// The lines that come in. Their end ends the process, whatever it does.
pub(crate) fn listen() -> mpsc::Receiver<String> {
    let (lines, inbox) = mpsc::channel();
    std::thread::spawn(move || {
        let stdin = std::io::stdin().lock();
        for line in stdin.lines().map_while(Result::ok) {
            if lines.send(line).is_err() {
                break;
            }
        }
        process::exit(0);
    });
    inbox
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_understood_or_not() {
        let all = |what| Some(Order { hand: None, what });
        let time = Duration::from_millis(300);
        for (line, expected) in [
            ("block 300", all(What::Block(time))),
            ("abort 3", all(What::Abort(3))),
            ("at 2 block 300", Some(Order { hand: Some(2), what: What::Block(time) })),
            ("collapse", all(What::Collapse)),
            ("store lose 2", all(What::Store(Mischief::Lose(2)))),
            ("store hang-replies", all(What::Store(Mischief::HangReplies))),
            ("store heal", all(What::Store(Mischief::Heal))),
            ("rest", all(What::Rest)),
            ("go", all(What::Go)),
            ("at 0 probe", Some(Order { hand: Some(0), what: What::Probe })),
            ("shutdown", all(What::Shutdown)),
            ("uses", all(What::Uses)),
            ("", None),
            ("block", None),
            ("block soon", None),
            ("at x rest", None),
            ("store", None),
            ("dance", None),
        ] {
            assert_eq!(Order::parse(line), expected, "{line}");
        }
    }
}
