//! `dlock top`: the locks of a store, live in the terminal.
//!
//! `model`, `row` and `keys` decide and are pure. `draw` draws. `scan` asks the store. This file joins them.

mod draw;
mod keys;
mod model;
mod row;
mod scan;
mod screen;

pub(crate) use self::draw::holder;

use std::io::{self, IsTerminal};
use std::pin::pin;
use std::time::{Duration, Instant};

use crossterm::event::{Event, EventStream, KeyEventKind};
use futures::StreamExt;
use futures::future::{BoxFuture, FutureExt};
use futures::stream::FuturesUnordered;
use lock_core::{Error, ErrorKind, Inspection, Key};
use lock_sync::Locks;
use ratatui::DefaultTerminal;
use tokio::sync::{mpsc, watch};
use tokio::time::{MissedTickBehavior, interval, timeout};

use self::draw::Around;
use self::keys::{Act, press};
use self::model::Model;
use self::scan::{News, Pace, Wish};
use self::screen::Screen;
use crate::tell::tell;
use crate::view::audit::{Outcome, Requester};
use crate::view::ending::{Forced, force, tokens};
use crate::view::records::name;
use crate::view::shown::count;
use crate::view::signals::Ends;

/// How long a message stays on the screen.
const MESSAGE: Duration = Duration::from_secs(8);
/// How long after the end of the terminal the signal of a hang-up may come.
const HANG_UP: Duration = Duration::from_millis(200);

/// What to show, and how.
pub(crate) struct Top {
    pub(crate) locks: Locks,
    /// The store, without credentials.
    pub(crate) store: String,
    pub(crate) prefix: String,
    pub(crate) interval: Duration,
    /// How many keys to look at in an interval.
    pub(crate) keys: u32,
    pub(crate) requester: Requester,
    pub(crate) has_colors: bool,
    /// Whether the store has a queue. Otherwise the numbers of waiters are unknown.
    pub(crate) has_queue: bool,
}

/// Shows the locks until the user leaves, or a signal ends the program. Returns the signal.
pub(crate) async fn run(top: Top) -> io::Result<Option<i32>> {
    let mut ends = Ends::new()?;
    let mut screen = Screen::open()?;
    let (ended, audits) = {
        let mut session = Session::new(&top);
        let ended = session.run(&top, &mut screen.terminal, &mut ends).await;
        (ended, session.audits)
    };
    drop(screen);
    // Only now, because the screen would hide these lines.
    for line in audits {
        tell(line);
    }
    ended
}

/// Whether there is a terminal to draw on and to read keys from.
pub(crate) fn has_terminal() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// A forced release, or why it was not sent.
type Released = (Key, Result<Forced, Error>);

/// The state between two events.
struct Session {
    model: Model,
    around: Around,
    message_since: Option<Instant>,
    wish: watch::Sender<Wish>,
    releases: FuturesUnordered<BoxFuture<'static, Released>>,
    /// Tells the releases that nothing waits for the store any more.
    leaving: watch::Sender<bool>,
    audits: Vec<String>,
    /// Whether the screen shows the first page of the store.
    has_begun: bool,
}

impl Session {
    fn new(top: &Top) -> Self {
        let Top { has_colors, has_queue, .. } = *top;
        let store = top.store.clone();
        Self {
            model: Model::new(Instant::now()),
            around: Around { store, has_colors, has_queue, ..Around::default() },
            message_since: None,
            wish: watch::Sender::default(),
            releases: FuturesUnordered::new(),
            leaving: watch::Sender::default(),
            audits: Vec::new(),
            has_begun: false,
        }
    }

    async fn run(
        &mut self,
        top: &Top,
        terminal: &mut DefaultTerminal,
        ends: &mut Ends,
    ) -> io::Result<Option<i32>> {
        let (sender, mut news) = mpsc::channel(4);
        let pace = Pace { period: top.interval, keys: top.keys };
        let prefix = top.prefix.clone().into_bytes();
        let scan = scan::run(top.locks.clone(), prefix, pace, self.wish.subscribe(), sender);
        let scan = tokio::spawn(scan);
        let mut events = EventStream::new();
        let mut ticks = interval(top.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let ended = loop {
            let draws = tokio::select! {
                signal = ends.next() => break Ok(Some(signal)),
                event = events.next() => match event {
                    Some(Ok(event)) => match self.react(event, top) {
                        Some(draws) => draws,
                        None => break Ok(None),
                    },
                    Some(Err(error)) => break gone(ends, Err(error)).await,
                    None => break gone(ends, Ok(None)).await,
                },
                Some(news) = news.recv() => self.hear(news),
                Some(released) = self.releases.next(), if !self.releases.is_empty() => {
                    self.released(released)
                }
                _ = ticks.tick() => self.tick(),
            };
            if draws && let Err(error) = self.draw(terminal) {
                break gone(ends, Err(error)).await;
            }
        };
        scan.abort();
        self.leave().await;
        ended
    }

    /// Ends the releases under way. Each of them that was sent gets its audit line.
    async fn leave(&mut self) {
        self.leaving.send_replace(true);
        while let Some(released) = self.releases.next().await {
            self.released(released);
        }
    }

    fn draw(&mut self, terminal: &mut DefaultTerminal) -> io::Result<()> {
        terminal.draw(|frame| draw::draw(frame, &mut self.model, &self.around)).map(drop)
    }

    /// Something happened at the terminal. Returns whether to draw, or `None` if the user leaves.
    fn react(&mut self, event: Event, top: &Top) -> Option<bool> {
        match event {
            Event::Key(key) if key.kind == KeyEventKind::Press => {
                match press(&mut self.model, &mut self.around.focus, key) {
                    Act::Quit => return None,
                    act => self.act(act, top),
                }
                Some(true)
            }
            event => Some(matches!(event, Event::Resize(..))),
        }
    }

    fn tick(&mut self) -> bool {
        let now = Instant::now();
        if !self.around.is_paused {
            self.model.arrange(now);
        }
        if self.message_since.is_some_and(|since| now.duration_since(since) > MESSAGE) {
            (self.message_since, self.around.message) = (None, None);
        }
        self.wish();
        true
    }

    /// Tells the walk which locks to look at out of turn.
    fn wish(&mut self) {
        let wish = Wish { hot: self.model.hot(), is_paused: self.around.is_paused };
        self.wish.send_replace(wish);
    }

    /// The store has answered. Returns whether to draw at once. Otherwise the next tick draws.
    fn hear(&mut self, news: News) -> bool {
        let now = Instant::now();
        match news {
            News::Locks(locks) => self.model.listed(locks, now),
            News::RoundOver => self.model.round_over(now),
            News::Failed(error) => {
                self.say(format!("cannot look at the store: {error}"));
                return true;
            }
        }
        let is_first = !std::mem::replace(&mut self.has_begun, true);
        if is_first {
            self.model.arrange(now);
        }
        is_first
    }

    fn act(&mut self, act: Act, top: &Top) {
        match act {
            Act::Draw | Act::Quit => {}
            Act::Pause => {
                self.around.is_paused = !self.around.is_paused;
                self.wish();
            }
            Act::Release(key, seen) => {
                self.say(format!("ending the leases on {} …", name(&key)));
                let (locks, requester) = (top.locks.clone(), top.requester.clone());
                let leaving = self.leaving.subscribe();
                let release = async move {
                    let released = release(&locks, &requester, &key, &seen, leaving).await;
                    (key, released)
                };
                self.releases.push(release.boxed());
            }
        }
    }

    fn released(&mut self, (key, released): Released) -> bool {
        let outcome = released.map_or_else(Outcome::Failed, |Forced { outcome, line }| {
            self.audits.push(line);
            outcome
        });
        match outcome {
            Outcome::Ended(ended) => {
                self.say(format!("{} ended on {}", count(ended, "lease"), name(&key)));
            }
            Outcome::Failed(error) => self.say(format!("cannot release {}: {error}", name(&key))),
            Outcome::Left => {}
        }
        true
    }

    fn say(&mut self, message: String) {
        (self.message_since, self.around.message) = (Some(Instant::now()), Some(message));
    }
}

/// The terminal is gone. If its end is a hang-up, the signal comes in the same moment.
async fn gone(ends: &mut Ends, otherwise: io::Result<Option<i32>>) -> io::Result<Option<i32>> {
    let signal = timeout(HANG_UP, ends.next()).await;
    signal.map_or(otherwise, |signal| Ok(Some(signal)))
}

/// Ends the leases on a lock, if its holders are still those that the user saw. Writes the audit line to the logs.
async fn release(
    locks: &Locks,
    requester: &Requester,
    key: &Key,
    seen: &Inspection,
    mut leaving: watch::Receiver<bool>,
) -> Result<Forced, Error> {
    let mut leaving = pin!(async { drop(leaving.wait_for(|is_leaving| *is_leaving).await) });
    let before = tokio::select! {
        before = locks.inspect(key.clone()) => before?,
        () = &mut leaving => {
            return Err(Error::new(ErrorKind::ShuttingDown, "dlock ended before it asked"));
        }
    };
    if tokens(&before) != tokens(seen) {
        let what = "its holders have changed, and none was ended";
        return Err(Error::new(ErrorKind::NotHeld, what));
    }
    Ok(force(locks, requester, key, &before, leaving).await)
}
