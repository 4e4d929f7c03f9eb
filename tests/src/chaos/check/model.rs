//! A perfect lock, simulated: what it does passes every checker, and one thing changed in that is seen.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use lock_core::{FencingToken, Instant};

use super::scene::PATIENCE;
use super::{Findings, Property, Terms, check};
use crate::Random;
use crate::chaos::Deployment;
use crate::chaos::history::{Deed, Event, Op, Patience, Refusal, Way};
use crate::chaos::resource::Tally;

const TTL: u64 = 1_000_000;

/// Everything below is in microseconds.
type Time = u64;

fn at(time: Time) -> Instant {
    Instant::from_nanos(time * 1_000)
}

/// One key of a perfect store, and tasks of several clients that use it.
struct World {
    random: Random,
    events: Vec<Event>,
    todo: BinaryHeap<Reverse<(Time, u64, usize)>>,
    actions: Vec<Option<Action>>,
    key: &'static str,
    ways: Vec<Way>,
    permits: u32,
    holders: Vec<(usize, Way)>,
    queue: VecDeque<usize>,
    visits: Vec<Visit>,
    token: u64,
    /// Of each client, when it dies.
    deaths: Vec<Option<Time>>,
    next: Vec<Op>,
    until: Time,
}

#[derive(Clone, Copy)]
enum Action {
    Ask(usize, u32),
    Got(usize),
    GiveUp(usize),
    Act(usize),
    Turned(usize),
    Leave(usize),
    Release(usize),
}

struct Visit {
    client: usize,
    task: u32,
    op: Op,
    way: Way,
    token: u64,
    over: bool,
    served: bool,
}

impl World {
    /// So much time of it.
    fn live(seed: u64, key: &'static str, ways: &[Way], until: Time) -> Vec<Event> {
        let mut world = Self {
            random: Random::from_seed(seed),
            events: Vec::new(),
            todo: BinaryHeap::new(),
            actions: Vec::new(),
            key,
            ways: ways.to_vec(),
            permits: 3,
            holders: Vec::new(),
            queue: VecDeque::new(),
            visits: Vec::new(),
            token: 0,
            deaths: vec![None; 4],
            next: vec![0; 4],
            until,
        };
        if world.random.percent(30) {
            world.deaths[3] = Some(until / 2);
        }
        for client in 0..4 {
            for task in 0..3 {
                let begin = world.some(5_000);
                world.later(begin, Action::Ask(client, task));
            }
        }
        while let Some(Reverse((time, _, number))) = world.todo.pop() {
            if let Some(action) = world.actions[number].take() {
                world.act(time, action);
            }
        }
        // They are there to the end.
        for client in 0..4 {
            let uses = Deed::Uses { files: 1, threads: 1, tasks: 1, memory: 1 };
            world.say(until + 20 * TTL, client, uses);
        }
        world.events.sort_by_key(|event| event.at);
        world.events
    }

    fn some(&mut self, limit: Time) -> Time {
        1 + self.random.below(limit as usize) as Time
    }

    fn later(&mut self, time: Time, action: Action) {
        self.todo.push(Reverse((time, self.actions.len() as u64, self.actions.len())));
        self.actions.push(Some(action));
    }

    fn is_dead(&self, client: usize, time: Time) -> bool {
        self.deaths[client].is_some_and(|death| death <= time)
    }

    fn say(&mut self, time: Time, client: usize, deed: Deed) {
        if !self.is_dead(client, time) {
            self.events.push(Event { at: at(time), client: format!("c{client}"), deed });
        }
    }

    fn act(&mut self, time: Time, action: Action) {
        match action {
            Action::Ask(client, task) => self.ask(time, client, task),
            Action::Got(visit) => self.got(time, visit),
            Action::GiveUp(visit) => self.give_up(time, visit),
            Action::Act(visit) => self.turn(time, visit),
            Action::Turned(visit) => self.turned(time, visit),
            Action::Leave(visit) => self.leave(time, visit),
            Action::Release(visit) => self.release(time, visit),
        }
    }

    fn ask(&mut self, time: Time, client: usize, task: u32) {
        if time > self.until || self.is_dead(client, time) {
            return;
        }
        let way = *self.random.pick(&self.ways.clone());
        let tries = self.random.percent(20);
        let op = self.next[client];
        self.next[client] += 1;
        let visit = self.visits.len();
        self.visits.push(Visit { client, task, op, way, token: 0, over: false, served: false });
        let key = self.key.to_owned();
        let limit = (!tries && self.random.percent(20)).then(|| self.some(20_000));
        let patience = match limit {
            _ if tries => Patience::None,
            Some(limit) => Patience::Within(Duration::from_micros(limit)),
            None => PATIENCE,
        };
        self.say(time, client, Deed::Ask { op, task, key, way, patience });
        self.queue.push_back(visit);
        self.serve(time + 1);
        if self.visits[visit].served {
            return;
        }
        if tries {
            self.queue.retain(|it| *it != visit);
            self.say(time + 2, client, Deed::Not { op, why: Refusal::Busy });
            self.again(time, visit);
        } else if let Some(limit) = limit {
            self.later(time + limit, Action::GiveUp(visit));
        }
    }

    /// Those at the head of the queue come in, as far as there is room.
    fn serve(&mut self, time: Time) {
        while let Some(&visit) = self.queue.front() {
            let way = self.visits[visit].way;
            let taken: u32 = self.holders.iter().map(|(_, way)| count(*way)).sum();
            let room = self.holders.iter().all(|(_, there)| there.stands(way))
                && taken + count(way) <= self.permits;
            if !room {
                return;
            }
            self.queue.pop_front();
            let joins = matches!(way, Way::Owner(_)).then(|| self.holders.first()).flatten();
            let token = match joins {
                Some(&(other, _)) => self.visits[other].token,
                None => {
                    self.token += 1;
                    self.token
                }
            };
            self.holders.push((visit, way));
            (self.visits[visit].token, self.visits[visit].served) = (token, true);
            let hears = time + self.some(300);
            self.later(hears, Action::Got(visit));
        }
    }

    fn got(&mut self, time: Time, visit: usize) {
        let Visit { client, op, token, .. } = self.visits[visit];
        let token = FencingToken::new(token);
        self.say(time, client, Deed::Got { op, token, valid_until: at(time + TTL) });
        let hold = self.some(3_000);
        self.later(time + hold, Action::Act(visit));
    }

    fn give_up(&mut self, time: Time, visit: usize) {
        if self.queue.contains(&visit) {
            self.queue.retain(|it| *it != visit);
            let Visit { client, op, .. } = self.visits[visit];
            self.say(time, client, Deed::Not { op, why: Refusal::TimedOut });
            self.again(time, visit);
            self.serve(time + 1);
        }
    }

    /// Sometimes what is held becomes another, if that can be had at once.
    fn turn(&mut self, time: Time, visit: usize) {
        let Visit { client, op, way, .. } = self.visits[visit];
        let alone = self.holders.len() == 1;
        let to = match way {
            Way::Upgradable if alone => Way::Write,
            Way::Write if self.key == "w0" => Way::Read,
            Way::Permits(2) => Way::Permits(1),
            _ => return self.leave(time, visit),
        };
        if self.random.percent(50) {
            return self.leave(time, visit);
        }
        self.say(
            time,
            client,
            Deed::Turn { op, way: to, patience: Patience::None, valid_until: at(time + TTL) },
        );
        self.visits[visit].way = to;
        if to == Way::Write {
            self.token += 1;
            self.visits[visit].token = self.token;
        }
        self.holders.iter_mut().filter(|it| it.0 == visit).for_each(|it| it.1 = to);
        self.serve(time + 1);
        let hears = time + self.some(300);
        self.later(hears, Action::Turned(visit));
    }

    fn turned(&mut self, time: Time, visit: usize) {
        let Visit { client, op, token, .. } = self.visits[visit];
        let token = FencingToken::new(token);
        self.say(time, client, Deed::Turned { op, token, valid_until: at(time + TTL) });
        let hold = self.some(2_000);
        self.later(time + hold, Action::Leave(visit));
    }

    fn leave(&mut self, time: Time, visit: usize) {
        let Visit { client, op, .. } = self.visits[visit];
        self.say(time, client, Deed::Leave { op, valid_until: at(time + TTL) });
        let death = self.deaths[client].filter(|death| *death <= time);
        let released = death.map_or(time + 100, |death| death + TTL);
        self.later(released.max(time), Action::Release(visit));
    }

    fn release(&mut self, time: Time, visit: usize) {
        let Visit { client, op, over, .. } = self.visits[visit];
        if !std::mem::replace(&mut self.visits[visit].over, true) && !over {
            self.holders.retain(|(it, _)| *it != visit);
            self.say(time + 100, client, Deed::Left { op, confirmed: true, why: None });
            self.again(time + 100, visit);
            self.serve(time + 1);
        }
    }

    fn again(&mut self, time: Time, visit: usize) {
        let pause = self.some(4_000);
        let Visit { client, task, .. } = self.visits[visit];
        self.later(time + pause, Action::Ask(client, task));
    }
}

fn count(way: Way) -> u32 {
    if let Way::Permits(count) = way { count } else { 0 }
}

const MUTEX: (&str, &[Way]) = ("m0", &[Way::Write]);
const RWLOCK: (&str, &[Way]) = ("w0", &[Way::Read, Way::Read, Way::Upgradable, Way::Write]);
const SEMAPHORE: (&str, &[Way]) = ("s0", &[Way::Permits(1), Way::Permits(2), Way::Permits(3)]);
const REENTRANT: (&str, &[Way]) = ("o0", &[Way::Owner(1), Way::Owner(2), Way::Owner(3)]);

fn history(seed: u64, (key, ways): (&'static str, &[Way])) -> Vec<Event> {
    World::live(seed, key, ways, 400_000)
}

fn judge(events: &[Event]) -> Findings {
    let mut terms = Terms::new(Deployment::Redis, Duration::from_micros(TTL));
    terms.overtakes = Some(0);
    terms.margin = Duration::from_micros(2);
    check(events, &Tally::default(), &terms)
}

/// The properties that are broken when the history is changed in this way, over several seeds. The change says
/// whether it found anything to change.
#[track_caller]
fn breaks(
    kind: (&'static str, &[Way]),
    property: Property,
    change: impl Fn(&mut Vec<Event>, &mut Random) -> Option<()>,
) {
    let mut changed = 0;
    for seed in 0..20 {
        let mut events = history(seed, kind);
        if change(&mut events, &mut Random::from_seed(seed)).is_some() {
            changed += 1;
            events.sort_by_key(|event| event.at);
            let found: Vec<_> = judge(&events).violations;
            assert!(found.iter().any(|it| it.property == property), "seed {seed}: {found:#?}");
        }
    }
    assert!(changed >= 15, "{changed}");
}

/// The places of all events that are of this kind, in random order.
fn places(events: &[Event], random: &mut Random, of: impl Fn(&Deed) -> bool) -> Vec<usize> {
    let all: Vec<usize> = (0..events.len()).filter(|place| of(&events[*place].deed)).collect();
    random.some(all.len(), all.len()).into_iter().map(|place| all[place]).collect()
}

fn op(deed: &Deed) -> Option<Op> {
    let words = deed.to_string();
    if matches!(deed, Deed::Uses { .. }) { None } else { words.split(' ').nth(1)?.parse().ok() }
}

fn is_of(event: &Event, other: &Event) -> bool {
    event.client == other.client && op(&event.deed) == op(&other.deed)
}

#[test]
fn a_perfect_lock_is_found_to_be_perfect() {
    for seed in 0..40 {
        for kind in [MUTEX, RWLOCK, SEMAPHORE, REENTRANT] {
            let findings = judge(&history(seed, kind));
            assert_eq!(findings.violations, [], "seed {seed}, {}", kind.0);
            assert!(findings.holds > 100, "seed {seed}, {}: {}", kind.0, findings.holds);
        }
    }
}

#[test]
fn a_hold_that_lasts_into_the_next_is_seen() {
    for kind in [MUTEX, RWLOCK] {
        breaks(kind, Property::Exclusion, |events, random| {
            // A writer leaves when the next one, who has not waited for anybody else, has come.
            let leaves = places(events, random, |deed| matches!(deed, Deed::Leave { .. }));
            let (leave, later) = leaves.into_iter().find_map(|leave| {
                let whose = |event: &&Event| is_of(event, &events[leave]);
                let asks = events.iter().find(whose)?;
                let turned =
                    events.iter().filter(whose).any(|it| matches!(it.deed, Deed::Turn { .. }));
                let writes = matches!(asks.deed, Deed::Ask { way: Way::Write, .. }) && !turned;
                let next = events[leave..].iter().find(|it| matches!(it.deed, Deed::Got { .. }))?;
                // It is not the last of its client: that may be dead by then.
                (writes && next.client != events[leave].client && next.client != "c3")
                    .then_some((leave, next.at + Duration::from_micros(1)))
            })?;
            let ends = events
                .iter()
                .position(|it| is_of(it, &events[leave]) && matches!(it.deed, Deed::Left { .. }))?;
            (events[leave].at, events[ends].at) = (later, later.max(events[ends].at));
            Some(())
        });
    }
}

#[test]
fn two_tokens_that_are_exchanged_are_seen() {
    for kind in [MUTEX, SEMAPHORE] {
        breaks(kind, Property::Tokens, |events, random| {
            let got = places(events, random, |deed| matches!(deed, Deed::Got { .. }));
            let pair = got.iter().find_map(|&one| {
                // The other asked after this one was had. A permit is the first of its client.
                let first = |place: &usize| {
                    let client = &events[*place].client;
                    kind != SEMAPHORE || events[..*place].iter().all(|it| it.client != *client)
                };
                let asks = (one..events.len())
                    .filter(|place| matches!(events[*place].deed, Deed::Ask { .. }))
                    .find(first)?;
                let other = (asks..events.len()).find(|place| {
                    is_of(&events[*place], &events[asks])
                        && matches!(events[*place].deed, Deed::Got { .. })
                })?;
                Some((one, other))
            });
            let (one, other) = pair?;
            let token = |place: usize| match events[place].deed {
                Deed::Got { token, .. } => token,
                _ => FencingToken::new(0),
            };
            let tokens = [(one, token(other)), (other, token(one))];
            for (place, new) in tokens {
                if let Deed::Got { token, .. } = &mut events[place].deed {
                    *token = new;
                }
            }
            Some(())
        });
    }
}

#[test]
fn a_conversion_that_changes_its_token_or_does_not_is_seen() {
    breaks(RWLOCK, Property::Conversions, |events, random| {
        let turned = places(events, random, |deed| matches!(deed, Deed::Turned { .. }));
        let &place = turned.first()?;
        let had = events.iter().find_map(|it| match it.deed {
            Deed::Got { token, .. } if is_of(it, &events[place]) => Some(token),
            _ => None,
        })?;
        if let Deed::Turned { token, .. } = &mut events[place].deed {
            *token = if *token == had { FencingToken::new(had.get() + 1) } else { had };
        }
        Some(())
    });
}

#[test]
fn a_permit_too_many_is_seen() {
    breaks(SEMAPHORE, Property::Permits, |events, random| {
        // Somebody is certainly there when another comes, and has all of them.
        let got = places(events, random, |deed| matches!(deed, Deed::Got { .. }));
        let place = got.into_iter().find(|&place| {
            let inside = |it: &Event| {
                !is_of(it, &events[place])
                    && it.client != "c3"
                    && matches!(it.deed, Deed::Got { .. })
                    && !events[..place].iter().any(|end| {
                        is_of(end, it) && matches!(end.deed, Deed::Leave { .. } | Deed::Left { .. })
                    })
            };
            events[place].client != "c3" && events[..place].iter().any(inside)
        })?;
        let asks = events.iter().position(|it| is_of(it, &events[place]))?;
        if let Deed::Ask { way, .. } = &mut events[asks].deed {
            *way = Way::Permits(3);
        }
        Some(())
    });
}

#[test]
fn a_waiter_that_is_forgotten_is_seen() {
    for kind in [MUTEX, RWLOCK, SEMAPHORE, REENTRANT] {
        breaks(kind, Property::Wakeups, |events, random| {
            let got = places(events, random, |deed| matches!(deed, Deed::Got { .. }));
            let waits = |it: &Event, place: usize| {
                is_of(it, &events[place])
                    && matches!(it.deed, Deed::Ask { patience, .. } if !patience.tries())
            };
            let place = got.into_iter().find(|&place| {
                events[place].client != "c3" && events.iter().any(|it| waits(it, place))
            })?;
            let lost = events[place].clone();
            events.retain(|it| !is_of(it, &lost) || matches!(it.deed, Deed::Ask { .. }));
            Some(())
        });
    }
}

#[test]
fn an_operation_that_never_ends_is_seen() {
    breaks(MUTEX, Property::Errors, |events, random| {
        let left = places(events, random, |deed| matches!(deed, Deed::Left { .. }));
        let place = left.into_iter().find(|&place| events[place].client != "c3")?;
        events.remove(place);
        Some(())
    });
}

#[test]
fn a_try_that_lies_is_seen() {
    for kind in [MUTEX, RWLOCK, SEMAPHORE, REENTRANT] {
        breaks(kind, Property::Tries, |events, _| {
            // When all have long left.
            let (op, client) = (1_000_000, "c0".to_owned());
            let end = events.iter().rev().find(|it| matches!(it.deed, Deed::Left { .. }))?.at;
            let end = end + Duration::from_secs(5);
            let (key, way) = (kind.0.to_owned(), kind.1[0]);
            let asks = Deed::Ask { op, task: 9, key, way, patience: Patience::None };
            events.push(Event { at: end, client: client.clone(), deed: asks });
            let deed = Deed::Not { op, why: Refusal::Busy };
            events.push(Event { at: end + Duration::from_millis(1), client, deed });
            Some(())
        });
    }
}

#[test]
fn who_is_served_out_of_turn_is_seen() {
    breaks(MUTEX, Property::Order, |events, random| {
        // Two of a client that waited at once are exchanged, from their grants on.
        let waits = |place: usize| {
            let asks = &events[place];
            let tries = matches!(asks.deed, Deed::Ask { patience: Patience::None, .. });
            let got = events[place..]
                .iter()
                .find(|it| is_of(it, asks) && matches!(it.deed, Deed::Got { .. }))?;
            (!tries && asks.client != "c3").then_some((asks.at, got.at, op(&asks.deed)?))
        };
        let asks = places(events, random, |deed| matches!(deed, Deed::Ask { .. }));
        let (client, one, other) = asks.iter().find_map(|&first| {
            let (_, got, one) = waits(first)?;
            let meets = |second: &usize| {
                let (asked, _, other) = waits(*second)?;
                let client = &events[first].client;
                let later = events[first].at + Duration::from_micros(10) < asked && asked < got;
                (events[*second].client == *client && later).then(|| (client.clone(), one, other))
            };
            asks.iter().find_map(meets)
        })?;
        for event in events.iter_mut().filter(|event| event.client == client) {
            if !matches!(event.deed, Deed::Ask { .. }) {
                let number = op(&event.deed);
                let new = if number == Some(one) {
                    other
                } else if number == Some(other) {
                    one
                } else {
                    continue;
                };
                let mut words: Vec<String> =
                    event.deed.to_string().split(' ').map(str::to_owned).collect();
                words[1] = new.to_string();
                event.deed = words.join(" ").parse().ok()?;
            }
        }
        Some(())
    });
}

#[test]
fn what_happens_twice_is_seen() {
    breaks(MUTEX, Property::History, |events, random| {
        let got = places(events, random, |deed| matches!(deed, Deed::Got { .. }));
        let again = events[*got.first()?].clone();
        events.push(again);
        Some(())
    });
}

/// Sweeps, not comparisons of all with all.
#[test]
fn a_long_history_takes_seconds() {
    let mut events = Vec::new();
    for (seed, kind) in [MUTEX, RWLOCK, SEMAPHORE, REENTRANT].into_iter().enumerate() {
        events.extend(World::live(100 + seed as u64, kind.0, kind.1, 20_000_000).into_iter().map(
            |mut event| {
                event.client += kind.0;
                event
            },
        ));
    }
    events.sort_by_key(|event| event.at);
    let begin = on_processor();
    let findings = judge(&events);
    let took = on_processor().saturating_sub(begin);
    assert_eq!(findings.violations, []);
    assert!(findings.holds > 40_000, "{}", findings.holds);
    assert!(took < Duration::from_secs(15), "{took:?} for {} events", events.len());
}

/// How long this thread has run: others may keep the processors busy meanwhile.
fn on_processor() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
