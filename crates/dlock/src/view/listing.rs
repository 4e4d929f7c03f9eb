//! `dlock list` and `dlock inspect`: the holders and the waiters of locks.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::time::Duration;

use lock_core::check::unseen;
use lock_core::{AnyBackend, Backend, FencingToken, Holder, Inspection, Key, Limits, List, Listed};
use lock_sync::Locks;

use crate::view::records::{LockRecord, name};
use crate::view::shown::{Table, time, waiting};
use crate::view::top::holder;

/// What an inspection of the store can show.
#[derive(Debug, Clone)]
pub(crate) struct Sight {
    /// Whether there is a queue. Otherwise the number of waiters is unknown, and not zero.
    pub(crate) has_queue: bool,
    /// For how long a lease or a place may be shown after its end.
    pub(crate) late: Duration,
    /// What an inspection does not show, for people.
    unseen: Vec<String>,
}

impl Sight {
    pub(crate) fn of(store: &AnyBackend) -> Self {
        let Limits { lag, .. } = store.limits();
        Self { has_queue: store.capabilities().queues(), late: lag, unseen: unseen(store) }
    }
}

/// Prints the locks of a list, page by page. Returns whether there is a lock.
pub(crate) async fn list(
    locks: &Locks,
    sight: Sight,
    first: List,
    is_json: bool,
    out: &mut impl Write,
) -> Result<bool, Failure> {
    let mut printer = Printer::new(sight, is_json);
    let mut list = first;
    loop {
        let page = locks.list(&list).await?;
        printer.page(&page.locks, out)?;
        let Some(next) = page.next else { return Ok(printer.has_printed) };
        list = list.from(next);
    }
}

/// Prints one lock. Returns whether the lock has holders or waiters.
pub(crate) async fn inspect(
    locks: &Locks,
    sight: &Sight,
    key: Key,
    is_json: bool,
    out: &mut impl Write,
) -> Result<bool, Failure> {
    let seen = locks.inspect(key.clone()).await?;
    if is_json {
        write_json(&LockRecord::new(&key, &seen, sight), out)?;
    } else {
        out.write_all(described(&key, &seen, sight).as_bytes())?;
    }
    out.flush()?;
    Ok(seen.holding + seen.waiting > 0)
}

/// Why a command could not print all locks.
#[derive(Debug)]
pub(crate) enum Failure {
    Store(lock_core::Error),
    Output(io::Error),
}

impl From<lock_core::Error> for Failure {
    fn from(error: lock_core::Error) -> Self {
        Self::Store(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

/// Prints each lock once, though a lock may be on several pages.
struct Printer {
    sight: Sight,
    is_json: bool,
    table: Table<7>,
    has_printed: bool,
    /// Hashes of the names that were printed: a store may have millions of locks.
    printed: HashSet<u64>,
    hasher: RandomState,
}

impl Printer {
    fn new(sight: Sight, is_json: bool) -> Self {
        let (printed, hasher) = (HashSet::new(), RandomState::new());
        Self { sight, is_json, table: Table::new(), has_printed: false, printed, hasher }
    }

    fn page(&mut self, locks: &[Listed], out: &mut impl Write) -> io::Result<()> {
        let is_new = |lock: &&Listed| self.printed.insert(self.hasher.hash_one(&lock.key));
        let locks: Vec<&Listed> = locks.iter().filter(is_new).collect();
        if self.is_json {
            for lock in &locks {
                write_json(&LockRecord::new(&lock.key, &lock.inspection, &self.sight), out)?;
            }
        } else if !locks.is_empty() {
            let header = ["LOCK", "HOLDER", "MODE", "TOKEN", "LEFT", "WAITING", "WAITED"];
            let header = (!self.has_printed).then(|| header.map(ToOwned::to_owned));
            let rows = header.into_iter().chain(locks.iter().map(|lock| row(lock, &self.sight)));
            out.write_all(self.table.lines(&rows.collect::<Vec<_>>()).as_bytes())?;
        }
        self.has_printed |= !locks.is_empty();
        out.flush()
    }
}

fn write_json(record: &LockRecord, out: &mut impl Write) -> io::Result<()> {
    serde_json::to_writer(&mut *out, record)?;
    out.write_all(b"\n")
}

/// A lock on one line, with its first holder and the longest time that a claim has waited.
fn row(lock: &Listed, sight: &Sight) -> [String; 7] {
    let seen = &lock.inspection;
    let (label, mode) = holder(seen);
    let first = seen.holders.first();
    let token = first.map(token).unwrap_or_else(|| "-".to_owned());
    let left = first.map(left).unwrap_or_else(|| "-".to_owned());
    let longest = seen.waiters.iter().filter_map(|waiter| waiter.waited).max();
    let waiting = waiting(seen.waiting, sight.has_queue);
    [name(&lock.key), label, mode, token, left, waiting, waited(longest)]
}

fn waited(time_of: Option<Duration>) -> String {
    time_of.map_or("-".to_owned(), time)
}

fn token(holder: &Holder) -> String {
    holder.token.map(FencingToken::get).map_or("-".to_owned(), |token| token.to_string())
}

fn left(holder: &Holder) -> String {
    holder.remaining.map_or("no end".to_owned(), time)
}

/// A lock with all its holders and waiters, and what the store cannot show.
fn described(key: &Key, seen: &Inspection, sight: &Sight) -> String {
    let (holding, waiting) = (seen.holding, seen.waiting);
    let mut text = match (holding, waiting) {
        (0, 0) => format!("{}: free\n", name(key)),
        (1.., 0) if !sight.has_queue => {
            format!("{}: {holding} holding, waiters unknown\n", name(key))
        }
        (0, _) => format!("{}: free, {waiting} waiting\n", name(key)),
        _ => format!("{}: {holding} holding, {waiting} waiting\n", name(key)),
    };
    let label = |label: &Option<lock_core::Label>| match label {
        Some(label) => label.to_string(),
        None => "(no label)".to_owned(),
    };
    if !seen.holders.is_empty() {
        let header = ["HOLDER", "MODE", "TOKEN", "LEFT"].map(ToOwned::to_owned);
        let rows = seen
            .holders
            .iter()
            .map(|it| [label(&it.label), it.kind.to_string(), token(it), left(it)]);
        let rows: Vec<_> = [header].into_iter().chain(rows).collect();
        text.push_str(&format!("\n{}", Table::new().lines(&rows)));
        text.push_str(&more(holding, seen.holders.len()));
    }
    if !seen.waiters.is_empty() {
        let header = ["WAITER", "MODE", "WAITED", "PLACE KEPT FOR"].map(ToOwned::to_owned);
        let rows = seen.waiters.iter().map(|it| {
            [label(&it.label), it.kind.to_string(), waited(it.waited), time(it.remaining)]
        });
        let rows: Vec<_> = [header].into_iter().chain(rows).collect();
        text.push_str(&format!("\n{}", Table::new().lines(&rows)));
        text.push_str(&more(waiting, seen.waiters.len()));
    }
    text.extend(sight.unseen.iter().map(|what| format!("\nnote: {what}\n")));
    text
}

fn more(all: u64, shown: usize) -> String {
    match all.saturating_sub(shown as u64) {
        0 => String::new(),
        more => format!("and {more} more\n"),
    }
}

#[cfg(test)]
mod tests {
    use lock_core::memory::MemoryBackend;
    use lock_core::{Capabilities, Kind, Label, Waiter};

    use super::*;

    fn all() -> Sight {
        Sight::of(&AnyBackend::new(MemoryBackend::new()))
    }

    /// The view into a store like a quorum.
    fn without_queue() -> Sight {
        Sight::of(&AnyBackend::describing(MemoryBackend::new(), |store| {
            Capabilities::none().inspecting(store).without_queue()
        }))
    }

    fn seen() -> Inspection {
        let left = Duration::from_millis(8_210);
        let label = Label::new("billing@web-3:71").ok();
        let one = Holder::new(Kind::Shared, Some(FencingToken::new(7)), Some(left));
        let foreign = Holder::new(Kind::Shared, None, None);
        let waiter = Waiter::new(Kind::Exclusive, left).labelled(label.clone());
        let waiter = waiter.waiting_for(Some(Duration::from_millis(61_500)));
        Inspection::new((vec![one.labelled(label), foreign], 2), (vec![waiter], 1001))
    }

    #[test]
    fn a_lock_is_described_with_each_holder_and_waiter() {
        let key = Key::new("orders/42").unwrap();
        let expected = "\
orders/42: 2 holding, 1001 waiting

HOLDER            MODE    TOKEN  LEFT
billing@web-3:71  shared  7      8.2s
(no label)        shared  -      no end

WAITER            MODE       WAITED  PLACE KEPT FOR
billing@web-3:71  exclusive  1m01s   8.2s
and 1000 more
";
        assert_eq!(described(&key, &seen(), &all()), expected);
        assert_eq!(described(&key, &Inspection::default(), &all()), "orders/42: free\n");
    }

    #[test]
    fn the_waiters_of_a_store_without_a_queue_are_unknown() {
        let (key, mut seen) = (Key::new("orders/42").unwrap(), seen());
        (seen.waiters, seen.waiting) = (Vec::new(), 0);
        let text = described(&key, &seen, &without_queue());
        assert!(text.starts_with("orders/42: 2 holding, waiters unknown\n"), "{text}");
        assert!(
            text.ends_with("\nnote: the store has no queue, so no waiter is shown\n"),
            "{text}"
        );
        let [.., waiting, waited] = row(&Listed::new(key, seen), &without_queue());
        assert_eq!((waiting.as_str(), waited.as_str()), ("unknown", "-"));
    }

    #[test]
    fn a_list_has_one_header_and_each_lock_once() {
        let lock = |name: &str| Listed::new(Key::new(name).unwrap(), seen());
        let printed = |is_json: bool| {
            let (mut printer, mut out) = (Printer::new(all(), is_json), Vec::new());
            printer.page(&[], &mut out).unwrap();
            assert!(!printer.has_printed);
            printer.page(&[lock("a"), lock("b")], &mut out).unwrap();
            printer.page(&[lock("b"), lock("c")], &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let expected = "\
LOCK  HOLDER               MODE    TOKEN  LEFT  WAITING  WAITED
a     billing@web-3:71 +1  shared  7      8.2s  1001     1m01s
b     billing@web-3:71 +1  shared  7      8.2s  1001     1m01s
c     billing@web-3:71 +1  shared  7      8.2s  1001     1m01s
";
        assert_eq!(printed(false), expected);
        let lines = printed(true);
        let names = lines.lines().map(|line| {
            let value: serde_json::Value = serde_json::from_str(line).unwrap();
            value["lock"].as_str().unwrap().to_owned()
        });
        assert_eq!(names.collect::<Vec<_>>(), ["a", "b", "c"]);
    }
}
