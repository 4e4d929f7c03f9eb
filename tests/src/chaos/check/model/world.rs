//! A perfect store and its clients, simulated.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use lock_core::{FencingToken, Instant};

use super::super::scene::PATIENCE;
use crate::Random;
use crate::chaos::history::{Deed, Event, Op, Patience, Refusal, Way};

/// How long leases live.
pub(super) const TTL: u64 = 1_000_000;

/// Everything below is in microseconds.
type Time = u64;

fn at(time: Time) -> Instant {
    Instant::from_nanos(time * 1_000)
}

/// One key of a perfect store, and tasks of several clients that use it.
pub(super) struct World {
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
    /// The time of death of each client.
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
    /// The history of this much time.
    pub(super) fn live(seed: u64, key: &'static str, ways: &[Way], until: Time) -> Vec<Event> {
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
        // They live to the end.
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

    /// The first waiters of the queue enter, as far as there is room.
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

    /// Sometimes a hold is converted, if that is possible at once.
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
