//! A perfect lock, simulated: every checker accepts its history, and notices one change in it.

mod world;

use std::time::Duration;

use lock_core::FencingToken;

use self::world::{TTL, World};
use super::{Findings, Property, Terms, check};
use crate::Random;
use crate::chaos::Deployment;
use crate::chaos::history::{Deed, Event, Op, Patience, Refusal, Way};
use crate::chaos::resource::Tally;

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

/// The properties that are broken when the history is changed in this way, over several seeds. The change
/// returns whether it found a place.
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

/// The places of all events of this kind, in random order.
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
            // A writer leaves when the next one, which has waited for no other task, has come.
            let leaves = places(events, random, |deed| matches!(deed, Deed::Leave { .. }));
            let (leave, later) = leaves.into_iter().find_map(|leave| {
                let whose = |event: &&Event| is_of(event, &events[leave]);
                let asks = events.iter().find(whose)?;
                let turned =
                    events.iter().filter(whose).any(|it| matches!(it.deed, Deed::Turn { .. }));
                let writes = matches!(asks.deed, Deed::Ask { way: Way::Write, .. }) && !turned;
                let next = events[leave..].iter().find(|it| matches!(it.deed, Deed::Got { .. }))?;
                // It is not the last of its client: the client may be dead by then.
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
                // The other asked after this one was granted. A permit is the first of its client.
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
        // One task is certainly there when another comes, and has all permits.
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
fn a_waiter_that_is_served_out_of_turn_is_found() {
    breaks(MUTEX, Property::Order, |events, random| {
        // Two tasks of a client that waited at once are exchanged, from their grants on.
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

/// The checkers are sweeps, and compare not all with all.
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

/// How long this thread has run: other threads may keep the processors busy meanwhile.
fn on_processor() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
