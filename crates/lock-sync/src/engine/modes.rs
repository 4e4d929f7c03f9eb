//! The machine in every mode, against a real store and other processes, in any order of events.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::time::Duration;

use futures::FutureExt;
use lock_core::memory::MemoryBackend;
use lock_core::{
    Acquire, Attempt, Backend, Claim, Clock, Convert, ConvertBackend, Error, ErrorKind, Hint,
    Instant, Key, Mode, OwnerToken, PermitBackend, Released, Renew, Renewal, Ttl, Watch,
};
use proptest::prelude::*;

use super::machine::{Denial, Ending, Entered, Machine, Manner, Op, Pass, Policy, Return, Ticket};
use super::queue::{Patience, WaiterId};
use super::tests::cases;
use crate::handoff::Handoff;

const TTL: Duration = Duration::from_secs(3);
const OF: u32 = 3;

/// One thing that happens. Numbers choose among what is there.
#[derive(Clone, Debug)]
enum Event {
    Enter(usize, Limit),
    Cancel(usize),
    Release(usize),
    Downgrade(usize, bool),
    Upgrade(usize, Limit),
    AbandonUpgrade,
    Split(usize),
    Forget(usize),
    Answer(usize, Answer),
    Watch(bool),
    Deliver(usize),
    Lose(usize),
    RivalAsks(usize, usize),
    RivalLeaves(usize),
    Advance(u64),
    Sleep(u64),
    TakeRelease,
    /// The store is about to be asked what is free.
    Query,
    Run,
}

#[derive(Clone, Copy, Debug)]
enum Limit {
    Try,
    Millis(u64),
    None,
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Answer {
    Truth,
    /// Applied, but the reply was lost.
    ReplyLost,
    /// Never arrived.
    Lost,
    /// Refused for good.
    Denied,
}

/// A request on its way.
#[derive(Debug)]
enum Sent {
    Attempt(Acquire),
    Convert(Convert),
    Renew(Renew, Instant),
    Release(Claim, Option<Acquire>, bool),
    Forget(Claim),
}

impl Sent {
    fn ask_for(&mut self, few: u32) {
        match self {
            Self::Attempt(request)
            | Self::Convert(Convert { request, .. })
            | Self::Release(_, Some(request), _) => {
                request.tokens = NonZeroU32::MIN.saturating_add(few - 1);
            }
            Self::Renew(request, _) => request.tokens = 0,
            Self::Release(_, None, _) | Self::Forget(_) => {}
        }
    }
}

struct Rival {
    client: MemoryBackend,
    _watch: Watch,
    claim: Option<Claim>,
    /// When it began to ask.
    began: u64,
    until: Instant,
}

/// One grant, to us or to a rival.
#[derive(Debug)]
struct Granted {
    /// Which event brought it.
    came: u64,
    token: u64,
    mode: Mode,
}

struct Waiter {
    id: WaiterId,
    began: u64,
    limit: Limit,
    want: Mode,
}

struct World {
    machine: Machine<u32>,
    /// Whether the store converts leases.
    converts: bool,
    store: MemoryBackend,
    ours: MemoryBackend,
    key: Key,
    wants: Vec<Mode>,
    manner: Manner,
    waiters: BTreeMap<u32, Waiter>,
    woken: BTreeSet<u32>,
    arrivals: u32,
    holding: Vec<(Ticket, Mode)>,
    /// The hold that is to become exclusive.
    upgrading: Option<(WaiterId, Ticket, Limit)>,
    upgrade_woken: bool,
    /// What the latest query waits for.
    returns: Vec<Return>,
    sent: Vec<Sent>,
    release_asked: bool,
    watch_asked: bool,
    watch: Option<Watch>,
    messages: Vec<Hint>,
    rivals: Vec<Rival>,
    /// The serial numbers of the holds of those who were served, by arrival.
    served: BTreeMap<u32, u64>,
    /// Their tokens by those serial numbers, and what they wanted.
    tokens: BTreeMap<u64, (u64, Mode)>,
    /// When each owner was first asked for.
    asked: Vec<(OwnerToken, u64)>,
    /// The highest token of each lease that ended, and when it did.
    ended: Vec<(u64, u64)>,
    /// The leases of this process that were granted permits: the owner, and the highest token so far.
    permits: Vec<(OwnerToken, u64)>,
    forgotten: u32,
    /// How many events there have been.
    events: u64,
    grants: Vec<Granted>,
    /// Whether some request was lost, so that leases may have to end by themselves.
    failed: bool,
    /// Where the clock of the store has to catch up: how many tokens come with a grant. Later come none.
    few: Option<u32>,
}

const UPGRADE: u32 = u32::MAX;

impl World {
    async fn new(policy: Policy, manner: Manner, wants: Vec<Mode>, few: Option<u32>) -> Self {
        let store = MemoryBackend::new();
        let key = Key::new("key").unwrap();
        let mut rivals = Vec::new();
        for _ in 0..3 {
            let client = store.client();
            let watch = client.watch(&key).await.unwrap();
            rivals.push(Rival {
                client,
                _watch: watch,
                claim: None,
                began: 0,
                until: Instant::from_nanos(0),
            });
        }
        Self {
            converts: policy.converts,
            machine: Machine::new(key.clone(), policy, Clock::tokio(), OwnerToken::generate),
            ours: store.client(),
            store,
            key,
            wants,
            manner,
            waiters: BTreeMap::new(),
            woken: BTreeSet::new(),
            arrivals: 0,
            holding: Vec::new(),
            upgrading: None,
            upgrade_woken: false,
            returns: Vec::new(),
            sent: Vec::new(),
            release_asked: false,
            watch_asked: false,
            watch: None,
            messages: Vec::new(),
            rivals,
            served: BTreeMap::new(),
            tokens: BTreeMap::new(),
            asked: Vec::new(),
            ended: Vec::new(),
            permits: Vec::new(),
            forgotten: 0,
            events: 0,
            grants: Vec::new(),
            failed: false,
            few,
        }
    }

    fn now(&self) -> Instant {
        Clock::tokio().now()
    }

    async fn event(&mut self, event: Event) {
        let now = self.now();
        let mut pass = Pass::at(now);
        self.events += 1;
        match event {
            Event::Enter(nth, limit) => {
                let want = self.wants[nth % self.wants.len()];
                self.enter(want, limit, &mut pass);
            }
            Event::Cancel(nth) => {
                let chosen = self.waiters.keys().nth(nth % self.waiters.len().max(1)).copied();
                if let Some(arrival) = chosen {
                    let waiter = self.waiters.remove(&arrival).unwrap();
                    self.machine.cancel(waiter.id, self.manner, &mut pass);
                }
            }
            Event::Release(nth) => {
                if !self.holding.is_empty() {
                    let (ticket, mode) = self.holding.swap_remove(nth % self.holding.len());
                    if mode != Mode::Shared || !self.leave(&ticket) {
                        self.machine.release(ticket.hold, self.manner, &mut pass);
                    }
                }
            }
            Event::Downgrade(nth, far) => {
                if !self.holding.is_empty() {
                    let nth = nth % self.holding.len();
                    let (ticket, mode) = &mut self.holding[nth];
                    let to = match *mode {
                        Mode::Exclusive if far || !self.converts => Mode::Shared,
                        Mode::Exclusive => Mode::Upgradable,
                        Mode::Upgradable => Mode::Shared,
                        other => other,
                    };
                    // Only where this key knows readers at all.
                    if self.wants.contains(&to) && to != *mode {
                        *mode = to;
                        self.machine.downgrade(ticket.hold, to, &mut pass);
                    }
                }
            }
            Event::Upgrade(nth, limit) => {
                let able: Vec<_> = (0..self.holding.len())
                    .filter(|nth| self.holding[*nth].1 == Mode::Upgradable)
                    .collect();
                if self.upgrading.is_none() && !able.is_empty() {
                    let (ticket, _) = self.holding.swap_remove(able[nth % able.len()]);
                    let patience = patience(limit, now);
                    let begun = self.machine.begin_upgrade(ticket.hold, patience, &mut pass);
                    match begun {
                        Ok(id) => {
                            self.upgrading = Some((id, ticket, limit));
                            self.upgrade_woken = true;
                        }
                        Err(denial) => {
                            self.check_denial(&denial, limit);
                            self.holding.push((ticket, Mode::Upgradable));
                        }
                    }
                }
            }
            Event::AbandonUpgrade => {
                if let Some((id, ticket, _)) = self.upgrading.take() {
                    self.machine.abandon_upgrade(id, &mut pass);
                    self.machine.release(ticket.hold, self.manner, &mut pass);
                }
            }
            Event::Split(nth) => {
                if !self.holding.is_empty() {
                    let nth = nth % self.holding.len();
                    let (ticket, mode) = &mut self.holding[nth];
                    if let Mode::Permits { take, of } = *mode
                        && let Some(hold) = self.machine.split(ticket.hold, 1)
                    {
                        *mode = Mode::Permits { take: take - 1, of };
                        let part = Ticket { hold, lease: ticket.lease.clone(), ..*ticket };
                        self.holding.push((part, Mode::Permits { take: 1, of }));
                    }
                }
            }
            Event::Forget(nth) => {
                if !self.holding.is_empty() {
                    let nth = nth % self.holding.len();
                    if let (_, Mode::Permits { take, .. }) = self.holding[nth]
                        && self.forgotten + take < OF
                    {
                        let (ticket, _) = self.holding.swap_remove(nth);
                        self.forgotten += take;
                        self.machine.forget(ticket.hold, self.manner, &mut pass);
                    }
                }
            }
            Event::Answer(nth, answer) => self.answer(nth, answer, &mut pass).await,
            Event::Watch(on) => self.toggle_watch(on, &mut pass).await,
            Event::Deliver(nth) => {
                self.hear();
                if !self.messages.is_empty() {
                    let message = self.messages.remove(nth % self.messages.len());
                    self.machine.hint(message, &mut pass);
                }
            }
            Event::Lose(nth) => {
                self.hear();
                if !self.messages.is_empty() {
                    self.messages.remove(nth % self.messages.len());
                }
            }
            Event::RivalAsks(nth, want) => self.rival_asks(nth, want).await,
            Event::RivalLeaves(nth) => {
                let nth = nth % self.rivals.len();
                if let Some(claim) = self.rivals[nth].claim.take() {
                    self.end_of(claim.owner);
                    let _ = self.rivals[nth].client.release(&claim).await.unwrap();
                }
            }
            Event::Advance(millis) => {
                tokio::time::advance(Duration::from_millis(millis)).await;
                pass.now = self.now();
                self.machine.tick(&mut pass);
            }
            Event::Sleep(millis) => tokio::time::advance(Duration::from_millis(millis)).await,
            Event::TakeRelease => {
                if std::mem::take(&mut self.release_asked) {
                    while let Some(Ending { claim, next, forget }) = self.machine.begin_release() {
                        self.end_of(claim.owner);
                        next.iter().for_each(|next| self.note(&next.claim));
                        self.sent.push(Sent::Release(claim, next, forget));
                    }
                }
            }
            Event::Query => {
                self.returns = self.machine.give_back_all(&mut pass);
            }
            Event::Run => self.poll_woken(&mut pass),
        }
        self.carry_out(pass);
        self.check();
    }

    fn enter(&mut self, want: Mode, limit: Limit, pass: &mut Pass<u32>) {
        let now = self.now();
        let patience = patience(limit, now);
        self.arrivals += 1;
        let (arrival, began) = (self.arrivals, self.events);
        if want == Mode::Shared
            && let Some(ticket) = self.machine.share(now, self.manner)
        {
            return self.served(arrival, began, ticket, want);
        }
        let waits = match patience {
            Patience::Forever => self.machine.join(want, &mut Some(arrival)),
            _ => None,
        };
        let joined = waits.is_some();
        let entered = match waits {
            Some(id) => Entered::Queued(id),
            None => self.machine.enter(want, patience, self.manner, pass),
        };
        match entered {
            Entered::Done(Ok(ticket)) => self.served(arrival, began, ticket, want),
            Entered::Done(Err(denial)) => self.check_denial(&denial, limit),
            Entered::Queued(id) => {
                self.waiters.insert(arrival, Waiter { id, began, limit, want });
                if !joined {
                    self.woken.insert(arrival);
                }
            }
            Entered::Attempt(id, request) => {
                self.waiters.insert(arrival, Waiter { id, began, limit, want });
                self.woken.insert(arrival);
                self.note(&request.claim);
                self.sent.push(Sent::Attempt(request));
            }
        }
    }

    fn check_denial(&self, denial: &Denial, limit: Limit) {
        match denial {
            Denial::WouldBlock => assert!(matches!(limit, Limit::Try)),
            Denial::Timeout(_) => assert!(matches!(limit, Limit::Millis(_))),
            Denial::Failed(error) => {
                assert!(self.failed, "{error:?}");
            }
            Denial::Lost(_) => {}
            Denial::Closed => panic!("nothing was closed"),
        }
    }

    fn carry_out(&mut self, mut pass: Pass<u32>) {
        for op in std::mem::take(&mut pass.ops) {
            match op {
                Op::Attempt(request) => {
                    self.note(&request.claim);
                    self.sent.push(Sent::Attempt(request));
                }
                Op::Convert(request, _) => self.sent.push(Sent::Convert(request)),
                Op::Renew(request, _) => {
                    let sent = self.now();
                    self.sent.push(Sent::Renew(request, sent));
                }
                Op::Forget(claim) => self.sent.push(Sent::Forget(claim)),
                Op::Watch => self.watch_asked = true,
                Op::Unwatch => {
                    self.watch_asked = false;
                    self.watch = None;
                    self.messages.clear();
                }
            }
        }
        self.release_asked |= self.machine.due_release().is_some();
        let woken = std::cell::RefCell::new(Vec::new());
        pass.wake_all(|waker| woken.borrow_mut().push(waker), |_| {});
        for arrival in woken.into_inner() {
            if arrival == UPGRADE {
                self.upgrade_woken = true;
            } else {
                self.woken.insert(arrival);
            }
        }
    }

    /// Only those who were woken look: a lost wake-up leaves a waiter for ever.
    fn poll_woken(&mut self, pass: &mut Pass<u32>) {
        for arrival in std::mem::take(&mut self.woken) {
            let Some(waiter) = self.waiters.get(&arrival) else { continue };
            let Some(outcome) = self.machine.poll(waiter.id, &mut Some(arrival)) else { continue };
            let Some(Waiter { began, limit, want, .. }) = self.waiters.remove(&arrival) else {
                continue;
            };
            match outcome {
                // A task that slept for too long: its guard says so, and it lets go.
                Ok(ticket) if !ticket.lease.is_valid(self.now()) => {
                    self.machine.release(ticket.hold, self.manner, pass);
                }
                Ok(ticket) => self.served(arrival, began, ticket, want),
                Err(denial) => self.check_denial(&denial, limit),
            }
        }
        if std::mem::take(&mut self.upgrade_woken)
            && let Some((id, ticket, limit)) = self.upgrading.take()
        {
            match self.machine.poll(id, &mut Some(UPGRADE)) {
                None => self.upgrading = Some((id, ticket, limit)),
                Some(Ok(stronger)) => {
                    if stronger.lease.is_valid(self.now()) {
                        assert!(stronger.token.get() > ticket.token.get(), "an old token");
                    }
                    self.holding.push((stronger, Mode::Exclusive));
                }
                Some(Err(denial)) => {
                    self.check_denial(&denial, limit);
                    self.holding.push((ticket, Mode::Upgradable));
                }
            }
        }
    }

    fn served(&mut self, arrival: u32, began: u64, ticket: Ticket, mode: Mode) {
        let serial = ticket.hold.serial();
        self.granted(began, ticket.token.get(), mode);
        if !mode.is_joint() {
            let before = self.served.range(..arrival).next_back();
            let after = self.served.range(arrival..).next();
            assert!(before.is_none_or(|(_, before)| *before < serial), "{arrival} came too early");
            assert!(after.is_none_or(|(_, after)| *after > serial), "{arrival} came too late");
            self.served.insert(arrival, serial);
        }
        let token = ticket.token.get();
        for (other, (theirs, how)) in &self.tokens {
            let (first, second, later) =
                if *other < serial { (*theirs, token, mode) } else { (token, *theirs, *how) };
            let alone = |mode: &Mode| *mode == Mode::Exclusive;
            let fine = match later {
                Mode::Permits { .. } => second != first,
                Mode::Exclusive => second > first,
                Mode::Joint { .. } if *how == mode => second >= first,
                Mode::Joint { .. } => second > first,
                // Readers have the token of whichever of their leases they are on.
                _ => second >= first || !alone(if *other < serial { how } else { &mode }),
            };
            assert!(fine, "{later:?} has {second} after {first}");
        }
        self.tokens.insert(serial, (token, mode));
        if mode.counts() {
            self.permit(&ticket);
        }
        self.holding.push((ticket, mode));
    }

    /// A permit's token is above those of all leases that ended before its own lease was asked for.
    fn permit(&mut self, ticket: &Ticket) {
        let Some(owner) = self.machine.claim(ticket.hold).map(|claim| claim.owner) else { return };
        let token = ticket.token.get();
        let asked = self.asked.iter().find(|(one, _)| *one == owner).map_or(0, |(_, asked)| *asked);
        for (before, ended) in &self.ended {
            assert!(*ended >= asked || *before < token, "a permit has {token} after {before}");
        }
        self.permits.push((owner, token));
    }

    /// The lease of this owner ends.
    fn end_of(&mut self, owner: OwnerToken) {
        let theirs = self.permits.iter().filter(|(one, _)| *one == owner);
        self.ended.extend(theirs.map(|(_, token)| *token).max().map(|token| (token, self.events)));
    }

    /// The store is asked for a lease of this owner.
    fn note(&mut self, claim: &Claim) {
        if !self.asked.iter().any(|(owner, _)| *owner == claim.owner) {
            self.asked.push((claim.owner, self.events));
        }
    }

    /// Whoever asks after somebody else was granted the lock gets a higher token.
    fn granted(&mut self, began: u64, token: u64, mode: Mode) {
        let plain = |mode: Mode| !mode.is_joint() && !mode.counts();
        let reads = |mode: Mode| matches!(mode, Mode::Shared | Mode::Upgradable);
        for before in &self.grants {
            if before.came < began
                && plain(mode)
                && plain(before.mode)
                && !(reads(mode) && reads(before.mode))
            {
                // Readers go on with the token of one who wrote, and reads now.
                let fine = before.token < token || reads(mode) && before.token == token;
                assert!(fine, "{mode:?} has {token} after {before:?}");
            }
        }
        self.grants.push(Granted { came: self.events, token, mode });
    }

    /// The short ways out.
    fn leave(&mut self, ticket: &Ticket) -> bool {
        let armed = self.machine.next_deadline().map_or(Instant::FAR_FUTURE, |next| next.at);
        self.machine.unshare(ticket.hold) || self.machine.linger(ticket.hold, self.manner, armed)
    }

    fn is_valid(&self, ticket: &Ticket) -> bool {
        ticket.lease.is_valid(self.now())
            && ticket.lease.loss(ticket.hold.serial()).is_none()
            && self.now() < ticket.hold_until
    }

    /// Whoever holds may hold together.
    fn check(&self) {
        let now = self.now();
        let upgrading = self.upgrading.iter().map(|(_, ticket, _)| (ticket, Mode::Upgradable));
        let guards = self.holding.iter().map(|(ticket, mode)| (ticket, *mode)).chain(upgrading);
        let mut valid: Vec<Mode> =
            guards.filter(|(ticket, _)| self.is_valid(ticket)).map(|(_, mode)| mode).collect();
        let theirs = self.rivals.iter().filter(|rival| now < rival.until);
        valid.extend(theirs.filter_map(|rival| rival.claim.as_ref().map(|claim| claim.mode)));
        for (nth, mode) in valid.iter().enumerate() {
            let others = valid[nth + 1..].iter().copied();
            assert!(mode.fits_beside(others, OF), "{mode:?} in {valid:?}");
        }
        self.check_tries();
        for owner in self.machine.renewing() {
            let is_it = |sent: &Sent| match sent {
                Sent::Renew(request, _) => request.claim.owner == owner,
                Sent::Convert(Convert { request, .. }) => request.claim.owner == owner,
                _ => false,
            };
            assert!(self.sent.iter().any(is_it), "an answer that will never come");
        }
        // Two guards of this process may reach the same data only if both read it, valid or not.
        let reads = |mode: &Mode| matches!(mode, Mode::Shared | Mode::Upgradable);
        let readers = self.holding.iter().filter(|(_, mode)| reads(mode)).count();
        let writers = self.holding.iter().filter(|(_, mode)| *mode == Mode::Exclusive).count();
        let upgrading = usize::from(self.upgrading.is_some());
        assert!(writers <= 1 && (writers == 0 || readers + upgrading == 0), "{:?}", self.holding);
    }

    /// Who did not come to wait waits for an answer of the store, or lets others go first for a moment.
    fn check_tries(&self) {
        let soon = self.now() + Duration::from_millis(20);
        let at_rest = self.sent.is_empty()
            && !self.release_asked
            && self.machine.next_deadline().is_none_or(|next| next.at > soon);
        if at_rest && !self.failed {
            let waits = |(arrival, waiter): (&u32, &Waiter)| {
                matches!(waiter.limit, Limit::Try) && !self.woken.contains(arrival)
            };
            let upgrades = matches!(self.upgrading, Some((.., Limit::Try))) && !self.upgrade_woken;
            let none = !self.waiters.iter().any(waits) && !upgrades;
            assert!(none, "a try that waits: {:?}", self.machine);
        }
    }

    // ---- The store ----

    async fn answer(&mut self, nth: usize, answer: Answer, pass: &mut Pass<u32>) {
        if self.sent.is_empty() {
            return;
        }
        let mut sent = self.sent.remove(nth % self.sent.len());
        if let Some(few) = self.few {
            sent.ask_for(few);
        }
        self.failed |= answer != Answer::Truth;
        let kind =
            if answer == Answer::Denied { ErrorKind::Denied } else { ErrorKind::Unreachable };
        let unknown = || Error::new(kind, "lost");
        let arrives = !matches!(answer, Answer::Lost | Answer::Denied);
        match sent {
            Sent::Attempt(request) => {
                let result =
                    if arrives { self.ours.try_acquire(&request).await } else { Err(unknown()) };
                let result = if answer == Answer::ReplyLost { Err(unknown()) } else { result };
                self.machine.attempt_done(&request.claim, result, pass);
            }
            Sent::Convert(convert) => {
                assert!(self.converts, "the store cannot do that: {convert:?}");
                let result =
                    if arrives { self.ours.convert(&convert).await } else { Err(unknown()) };
                let result = if answer == Answer::ReplyLost { Err(unknown()) } else { result };
                let claim = &convert.request.claim;
                self.machine.convert_done(claim, result, pass);
            }
            Sent::Renew(request, sent) => {
                let renewal = if arrives {
                    self.ours.renew(&request).await
                } else {
                    Renewal::Unknown(unknown())
                };
                let renewal = match answer {
                    Answer::Truth => renewal,
                    _ => Renewal::Unknown(unknown()),
                };
                self.machine.renew_done(&request.claim, sent, renewal, pass);
            }
            Sent::Release(claim, next, forget) => {
                let result = match (&next, forget) {
                    _ if !arrives => Err(unknown()),
                    (_, true) => {
                        let released = PermitBackend::forget(&self.ours, &claim).await;
                        released.map(|released| (released, None))
                    }
                    (Some(next), _) => self.ours.exchange(&claim, next).await,
                    (None, _) => self.ours.release(&claim).await.map(|released| (released, None)),
                };
                let result: Result<(Released, Option<Attempt>), _> =
                    if answer == Answer::ReplyLost { Err(unknown()) } else { result };
                self.machine.release_done(&claim, result, pass);
            }
            // The driver tries until it has been heard.
            Sent::Forget(claim) if !arrives => self.sent.push(Sent::Forget(claim)),
            Sent::Forget(claim) => {
                let _ = self.ours.release(&claim).await.unwrap();
            }
        }
    }

    async fn toggle_watch(&mut self, on: bool, pass: &mut Pass<u32>) {
        if !self.watch_asked {
            return;
        }
        if on && self.watch.is_none() {
            self.watch = Some(self.ours.watch(&self.key).await.unwrap());
            self.machine.watch_started(pass);
        } else if !on {
            self.watch = None;
            self.watch_asked = false;
            self.messages.clear();
            self.machine.watch_ended(None, pass);
        }
    }

    fn hear(&mut self) {
        if let Some(watch) = &mut self.watch {
            while let Some(Some(hint)) = watch.next().now_or_never() {
                self.messages.push(hint);
            }
        }
    }

    async fn rival_asks(&mut self, nth: usize, want: usize) {
        let nth = nth % self.rivals.len();
        let want = self.wants[want % self.wants.len()];
        let ttl = Ttl::new(TTL).unwrap();
        let rival = &mut self.rivals[nth];
        if rival.claim.is_none() {
            rival.began = self.events;
        }
        let claim = rival.claim.clone().unwrap_or_else(|| {
            Claim::exclusive(self.key.clone(), OwnerToken::generate().unwrap()).in_mode(want)
        });
        rival.claim = Some(claim.clone());
        let request = Acquire::new(claim, ttl).queued();
        let (began, mode, owner) = (rival.began, request.claim.mode, request.claim.owner);
        let answer = rival.client.try_acquire(&request).await;
        rival.until = match answer {
            Ok(Attempt::Granted(grant)) => grant.valid_until,
            _ => Instant::from_nanos(0),
        };
        if let Ok(Attempt::Granted(grant)) = answer {
            let token = grant.tokens.first().get();
            self.granted(began, token, mode);
            if mode.counts() {
                self.permits.push((owner, token));
            }
        }
    }

    // ---- The end ----

    /// Everything under way comes to an end, and holders let go if they shall.
    async fn settle(&mut self, time: Duration, let_go: bool) {
        let mut passed = Duration::ZERO;
        let mut looks = 0;
        for _ in 0..5_000 {
            self.hear();
            if !self.woken.is_empty() || self.upgrade_woken {
                self.event(Event::Run).await;
            } else if self.release_asked {
                self.event(Event::TakeRelease).await;
            } else if !self.sent.is_empty() {
                self.event(Event::Answer(0, Answer::Truth)).await;
            } else if self.watch_asked && self.watch.is_none() {
                self.event(Event::Watch(true)).await;
            } else if !self.messages.is_empty() {
                self.event(Event::Deliver(0)).await;
            } else if !self.holding.is_empty() && let_go {
                self.event(Event::Release(0)).await;
            } else if let Some(deadline) = self.machine.next_deadline()
                && passed < time
            {
                let pause = deadline.at.saturating_duration_since(self.now());
                looks = if pause.is_zero() { looks + 1 } else { 0 };
                assert!(looks < 10, "a look that changes nothing: {:?}", self.machine);
                let pause = pause + Duration::from_millis(1);
                passed = passed.saturating_add(pause);
                self.event(Event::Advance(pause.as_millis() as u64)).await;
            } else {
                break;
            }
        }
        if let_go {
            let back = |part| self.machine.is_returned(part);
            assert!(self.returns.iter().all(back), "a query waits for nothing: {:?}", self.machine);
        }
    }

    /// Everything is answered at once, and in the same way. Time stands still, so all must come to rest.
    async fn storm(&mut self, answer: Answer, hears: bool) {
        self.event(Event::Watch(hears)).await;
        for round in 0..400 {
            self.hear();
            if !self.woken.is_empty() || self.upgrade_woken {
                self.event(Event::Run).await;
            } else if self.release_asked {
                self.event(Event::TakeRelease).await;
            } else if let Some(nth) =
                self.sent.iter().position(|sent| !matches!(sent, Sent::Forget(_)))
            {
                self.event(Event::Answer(nth, answer)).await;
            } else if hears && !self.messages.is_empty() {
                self.event(Event::Deliver(0)).await;
            } else {
                return;
            }
            assert!(round < 300, "no rest while time stands still: {:?}", self.sent);
        }
    }

    /// Who is first in line waits for somebody who is in the way.
    fn check_nobody_waits_for_nothing(&self) {
        let Some(Waiter { want, .. }) = self.waiters.values().next() else { return };
        let upgrading = self.upgrading.iter().map(|_| Mode::Exclusive);
        let holds: Vec<_> = self.holding.iter().map(|(_, mode)| *mode).chain(upgrading).collect();
        // A lease that stays stronger than its readers need takes no more of them after a while.
        let is_strong = !self.converts && !holds.is_empty();
        let in_the_way = is_strong || !want.fits_beside(holds.iter().copied(), OF - self.forgotten);
        assert!(in_the_way, "{want:?} waits beside {holds:?}:\n{:?}", self.machine);
    }

    /// From here on the store answers, nobody comes, and holders let go: all must come to rest.
    async fn come_to_rest(&mut self) {
        for nth in 0..self.rivals.len() {
            self.event(Event::RivalLeaves(nth)).await;
        }
        while self.forgotten > 0 && !self.waiters.is_empty() {
            // There may never be enough for them.
            self.event(Event::Cancel(0)).await;
        }
        self.settle(Duration::from_secs(15), false).await;
        self.check_nobody_waits_for_nothing();
        self.settle(Duration::MAX, true).await;
        let waiting: Vec<_> = self.waiters.keys().collect();
        assert!(waiting.is_empty(), "waiters without an end: {waiting:?} {:?}", self.machine);
        assert!(self.upgrading.is_none(), "an upgrade without an end: {:?}", self.machine);
        assert!(self.machine.is_idle(), "no rest: {:?}", self.machine);
        assert!(self.watch.is_none(), "a watch was left behind");
        if self.failed {
            tokio::time::advance(TTL * 2).await;
        }
        assert_eq!(self.store.live_leases(), 0, "left behind on the store");
        if self.wants.iter().any(|want| want.counts()) && !self.failed {
            let state = self.ours.permits(&self.key, OF).await.unwrap();
            assert_eq!((state.held, state.waiting), (0, 0));
            // What was forgotten is gone for good, unless its lease ended before the store heard of it.
            assert!((OF - self.forgotten..=OF).contains(&state.limit), "{state:?}");
        }
    }
}

fn patience(limit: Limit, now: Instant) -> Patience {
    match limit {
        Limit::Try => Patience::Try,
        Limit::Millis(millis) => Patience::Until(now + Duration::from_millis(millis)),
        Limit::None => Patience::Forever,
    }
}

fn limit() -> impl Strategy<Value = Limit> {
    prop_oneof![3 => Just(Limit::None), 1 => (0u64..5_000).prop_map(Limit::Millis), 1 => Just(Limit::Try)]
}

fn answer(faults: bool) -> impl Strategy<Value = Answer> {
    let fault = u32::from(faults);
    prop_oneof![
        12 => Just(Answer::Truth),
        fault => Just(Answer::ReplyLost),
        fault => Just(Answer::Lost),
        fault => Just(Answer::Denied),
    ]
}

fn event(faults: bool) -> impl Strategy<Value = Event> {
    let some = 0usize..6;
    prop_oneof![
        8 => (some.clone(), limit()).prop_map(|(want, limit)| Event::Enter(want, limit)),
        2 => some.clone().prop_map(Event::Cancel),
        6 => some.clone().prop_map(Event::Release),
        2 => (some.clone(), any::<bool>()).prop_map(|(nth, far)| Event::Downgrade(nth, far)),
        3 => (some.clone(), limit()).prop_map(|(nth, limit)| Event::Upgrade(nth, limit)),
        1 => Just(Event::AbandonUpgrade),
        1 => some.clone().prop_map(Event::Split),
        1 => some.clone().prop_map(Event::Forget),
        16 => (some.clone(), answer(faults)).prop_map(|(nth, answer)| Event::Answer(nth, answer)),
        3 => prop::bool::weighted(0.85).prop_map(Event::Watch),
        6 => some.clone().prop_map(Event::Deliver),
        1 => some.clone().prop_map(Event::Lose),
        3 => (some.clone(), some.clone()).prop_map(|(nth, want)| Event::RivalAsks(nth, want)),
        3 => some.prop_map(Event::RivalLeaves),
        4 => prop_oneof![0u64..50, 0u64..4_000].prop_map(Event::Advance),
        1 => (0u64..2_000).prop_map(Event::Sleep),
        8 => Just(Event::TakeRelease),
        2 => Just(Event::Query),
        10 => Just(Event::Run),
    ]
}

fn wants() -> impl Strategy<Value = Vec<Mode>> {
    let permits = |take| Mode::Permits { take, of: OF };
    let joint = |n| Mode::Joint { group: OwnerToken::from_bytes([n; 16]) };
    prop_oneof![
        3 => Just(vec![Mode::Shared, Mode::Exclusive, Mode::Upgradable, Mode::Shared]),
        2 => Just(vec![permits(1), permits(2), permits(1), permits(3)]),
        1 => Just(vec![permits(1)]),
        1 => Just(vec![joint(1)]),
        1 => Just(vec![Mode::Exclusive, permits(1), Mode::Shared]),
    ]
}

fn policy() -> impl Strategy<Value = Policy> {
    (prop::bool::weighted(0.8), proptest::option::weighted(0.2, 1u64..6_000)).prop_map(
        |(renew, max_hold)| Policy {
            ttl: Ttl::new(TTL).unwrap(),
            renew,
            max_hold: max_hold.map(Duration::from_millis),
            converts: true,
        },
    )
}

/// What is wanted of a store that does not convert leases.
fn fixed_wants() -> impl Strategy<Value = Vec<Mode>> {
    let (read, write) = (Mode::Shared, Mode::Exclusive);
    prop_oneof![Just(vec![read, write, read]), Just(vec![write, write, read])]
}

fn manner() -> impl Strategy<Value = Manner> {
    let handoff = prop_oneof![
        2 => Just(Handoff::default()),
        1 => Just(Handoff::Fair),
        1 => Just(Handoff::Never),
    ];
    let cache = proptest::option::weighted(0.3, (1u64..3_000).prop_map(Duration::from_millis));
    (handoff, cache).prop_map(|(handoff, cache)| Manner { handoff, cache })
}

fn storm(
    policy: Policy,
    manner: Manner,
    wants: Vec<Mode>,
    events: Vec<Event>,
    last: Answer,
    hears: bool,
) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.unwrap().block_on(async move {
        let mut world = World::new(policy, manner, wants, None).await;
        for event in events {
            world.event(event).await;
        }
        world.storm(last, hears).await;
    });
}

fn run(policy: Policy, manner: Manner, wants: Vec<Mode>, few: Option<u32>, events: Vec<Event>) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.unwrap().block_on(async move {
        let mut world = World::new(policy, manner, wants, few).await;
        for event in events {
            world.event(event).await;
        }
        world.come_to_rest().await;
    });
}

/// What happens in a process that wants one permit at a time, as the properties below have found it.
fn with_permits(events: Vec<Event>) {
    let renew = true;
    let policy = Policy { ttl: Ttl::new(TTL).unwrap(), renew, max_hold: None, converts: true };
    let manner = Manner { handoff: Handoff::default(), cache: None };
    run(policy, manner, vec![Mode::Permits { take: 1, of: OF }], None, events);
}

const ENTER: Event = Event::Enter(0, Limit::None);

fn truth(nth: usize) -> Event {
    Event::Answer(nth, Answer::Truth)
}

/// Once in some sixty thousand cases: nobody held the permits, and nobody gave them back.
#[test]
fn permits_whose_tokens_were_overtaken_are_given_back() {
    with_permits(vec![
        ENTER,
        truth(0),
        ENTER,
        Event::Run,
        truth(0),
        ENTER,
        Event::Cancel(0),
        Event::Release(0),
        truth(1),
        truth(0),
        truth(0),
        ENTER,
        ENTER,
        Event::Release(0),
    ]);
}

/// Once in some seventy thousand cases: who came next waited behind them until they were to be renewed.
#[test]
fn permits_that_were_kept_for_too_long_to_be_passed_on_are_given_back() {
    with_permits(vec![
        ENTER,
        Event::Cancel(0),
        truth(0),
        ENTER,
        truth(0),
        Event::Run,
        Event::Deliver(0),
        ENTER,
        Event::Release(0),
        Event::Cancel(0),
        truth(0),
        Event::Enter(0, Limit::Try),
        Event::Advance(10),
    ]);
}

/// A process, and what happens in it.
fn story(wants: Vec<Mode>, cache: Option<Duration>, tell: impl AsyncFnOnce(&mut World)) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let policy =
        Policy { ttl: Ttl::new(TTL).unwrap(), renew: true, max_hold: None, converts: true };
    let manner = Manner { handoff: Handoff::default(), cache };
    runtime.unwrap().block_on(async move {
        let mut world = World::new(policy, manner, wants, None).await;
        tell(&mut world).await;
        world.come_to_rest().await;
    });
}

impl World {
    /// All requests are answered.
    async fn answer_all(&mut self) {
        while !self.sent.is_empty() {
            self.event(truth(0)).await;
        }
        self.event(Event::Run).await;
    }

    fn asks_for_a_place(&self) -> bool {
        self.sent.iter().any(|sent| matches!(sent, Sent::Attempt(request) if request.queue))
    }
}

/// No other process keeps them back, and a place would make it seem that one wants them.
#[test]
fn a_process_that_has_all_permits_asks_for_no_place_because_of_a_hint() {
    story(vec![Mode::Permits { take: 1, of: OF }], None, async |world| {
        for _ in 0..OF {
            world.event(ENTER).await;
            world.answer_all().await;
        }
        assert_eq!(world.holding.len(), OF as usize);
        world.event(ENTER).await;
        assert!(!world.asks_for_a_place());
        world.answer_all().await;
        world.event(Event::Watch(true)).await;
        assert!(!world.sent.is_empty() && !world.asks_for_a_place(), "{:?}", world.sent);
        world.answer_all().await;
    });
}

#[test]
fn a_try_to_upgrade_beside_readers_waits_for_no_answer() {
    story(vec![Mode::Shared, Mode::Upgradable], None, async |world| {
        for want in [1, 0] {
            world.event(Event::Enter(want, Limit::None)).await;
            world.answer_all().await;
        }
        assert_eq!(world.holding.len(), 2);
        world.event(Event::Upgrade(0, Limit::Millis(10))).await;
        world.event(Event::Advance(20)).await;
        world.event(Event::Run).await;
        let converts = |sent: &Sent| matches!(sent, Sent::Convert(_));
        assert!(world.upgrading.is_none() && world.sent.iter().any(converts));
        world.event(Event::Upgrade(1, Limit::Try)).await;
        world.event(Event::Run).await;
        assert!(world.upgrading.is_none(), "it waits for the store");
        assert_eq!(world.holding.len(), 2);
    });
}

/// A lease that only readers have is made weaker, whichever way they came.
#[test]
fn readers_who_come_back_to_a_writers_lease_make_it_weaker() {
    let read = Mode::Shared;
    story(vec![read, Mode::Exclusive], Some(TTL), async |world| {
        world.event(Event::Enter(1, Limit::None)).await;
        world.answer_all().await;
        world.event(Event::Release(0)).await;
        world.event(Event::Watch(true)).await;
        world.answer_all().await;
        for _ in 0..2 {
            world.event(ENTER).await;
            world.event(Event::Run).await;
            assert_eq!(world.holding.len(), 1);
            world.event(Event::Release(0)).await;
        }
        world.event(ENTER).await;
        assert_eq!(world.holding.len(), 1, "at once");
        world.event(Event::Advance(100)).await;
        world.event(Event::Advance(1_500)).await;
        world.answer_all().await;
        let claim = world.machine.claim(world.holding[0].0.hold).unwrap();
        assert_eq!(claim.mode, read, "nobody else can read");
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(1_500), max_shrink_iters: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Who holds may hold together, first come first served, an outcome for everybody, and nothing left
    /// behind.
    #[test]
    fn whoever_holds_may_hold_together(
        policy in policy(),
        manner in manner(),
        wants in wants(),
        few in proptest::option::weighted(0.3, 1u32..4),
        events in proptest::collection::vec(event(false), 1..120),
    ) {
        run(policy, manner, wants, few, events);
    }

    /// A store that fails is not asked again and again at one instant, nor is one that answers.
    #[test]
    fn nothing_spins_while_time_stands_still(
        policy in policy(),
        converts in any::<bool>(),
        manner in manner(),
        wants in wants(),
        fixed in fixed_wants(),
        hears in any::<bool>(),
        last in prop_oneof![Just(Answer::Truth), Just(Answer::ReplyLost), Just(Answer::Lost), Just(Answer::Denied)],
        events in proptest::collection::vec(event(true), 1..80),
    ) {
        let wants = if converts { wants } else { fixed };
        storm(Policy { converts, ..policy }, manner, wants, events, last, hears);
    }

    /// The same, where requests and replies get lost.
    #[test]
    fn and_so_they_do_when_requests_are_lost(
        policy in policy(),
        manner in manner(),
        wants in wants(),
        few in proptest::option::weighted(0.3, 1u32..4),
        events in proptest::collection::vec(event(true), 1..120),
    ) {
        run(policy, manner, wants, few, events);
    }

    /// Over a store that does not convert leases, a lease keeps its mode until it ends.
    #[test]
    fn and_so_they_do_where_no_lease_is_converted(
        policy in policy(),
        manner in manner(),
        wants in fixed_wants(),
        few in proptest::option::weighted(0.3, 1u32..4),
        losing in any::<bool>(),
        events in proptest::collection::vec(event(true), 1..120),
        quiet in proptest::collection::vec(event(false), 1..120),
    ) {
        let events = if losing { events } else { quiet };
        run(Policy { converts: false, ..policy }, manner, wants, few, events);
    }
}
