//! Redis agrees with the reference: equal requests in equal order get equal answers.

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use lock_core::memory::MemoryBackend;
use lock_core::{
    Acquire, AcquireOutcome, Backend, Ballot, Claim, Contention, Convert, Error, ErrorKind,
    FencingToken, Grant, Holder, InspectBackend, Inspection, Key, Kind, Mode, OwnerTag, OwnerToken,
    PermitBackend, Permits, QuorumNode, Released, Renew, Renewal, Resize, TokenRange, Vote,
};
use lock_redis::RedisBackend;

use crate::support::{Server, long};

const HISTORIES: u64 = 60;
const STEPS: usize = 120;
const CLIENTS: usize = 3;
const OWNERS: u8 = 4;
/// The number of permits that all correct requests declare.
const OF: u32 = 4;

/// Half a minute, in tokens: more than a history takes.
const AHEAD: u64 = 30 * 4_000_000;

trait Able: PermitBackend + InspectBackend + QuorumNode {}
impl<B: PermitBackend + InspectBackend + QuorumNode> Able for B {}

/// A request by one of the clients.
#[derive(Clone, Debug)]
enum Step {
    Acquire(Acquire),
    Convert(Convert),
    Together([Acquire; 2]),
    /// With a floor this far above the highest token so far.
    Vote(Acquire, u64),
    /// The highest token so far, or this many above or below.
    Confirm(Claim, i64),
    Renew(Claim),
    Release(Claim),
    Forget(Claim),
    Resize(u32, Resize),
    Look(u32),
    Close,
    Inspect,
    Force,
}

/// An answer, as far as two stores can agree. Tokens are numbered in the order of their first
/// appearance.
#[derive(Debug, PartialEq)]
enum Answer {
    Granted {
        tokens: usize,
        wanted: bool,
    },
    Busy,
    Queued,
    Together(Vec<Answer>),
    /// The holder is certain only if there is one: leases of equal time end in the order of
    /// milliseconds.
    Outvoted(Option<OwnerTag>),
    Confirmed(bool),
    Renewed,
    Lost,
    Released(Released),
    Permits(u32, Permits),
    Closed,
    Seen {
        holders: Vec<(Kind, usize)>,
        waiters: Vec<Kind>,
    },
    Ended(u64),
    Failed(ErrorKind),
}

#[derive(Debug)]
struct Tokens {
    seen: Vec<FencingToken>,
    highest: u64,
}

impl Default for Tokens {
    fn default() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        Self { seen: Vec::new(), highest: FencingToken::floor(now).get() }
    }
}

impl Tokens {
    fn first(&mut self, first: FencingToken) -> usize {
        let known = self.seen.iter().position(|known| *known == first);
        known.unwrap_or_else(|| {
            self.seen.push(first);
            self.seen.len() - 1
        })
    }

    fn range(&mut self, range: TokenRange) -> usize {
        self.highest = self.highest.max(range.last().get());
        self.first(range.first())
    }

    fn grant(&mut self, grant: Grant) -> Answer {
        let (tokens, wanted) =
            (self.range(grant.tokens), grant.contention == Contention::Contended);
        Answer::Granted { tokens, wanted }
    }

    fn attempt(&mut self, attempt: AcquireOutcome) -> Answer {
        match attempt {
            AcquireOutcome::Granted(grant) => self.grant(grant),
            AcquireOutcome::Busy { .. } => Answer::Busy,
            AcquireOutcome::Queued { .. } => Answer::Queued,
            other => panic!("{other:?}"),
        }
    }

    /// The highest token so far, or another one near it.
    fn beside(&self, steps: i64) -> FencingToken {
        FencingToken::new(self.highest.saturating_add_signed(steps))
    }
}

impl Tokens {
    /// Tokens of different keys are not comparable.
    fn together(&mut self, attempts: Vec<AcquireOutcome>) -> Answer {
        let mut beside = Self::default();
        let answers = attempts.into_iter().zip([self, &mut beside]);
        Answer::Together(answers.map(|(attempt, tokens)| tokens.attempt(attempt)).collect())
    }

    fn vote(&mut self, vote: Vote, holding: u64) -> Answer {
        match vote {
            Vote::Granted(grant) => self.grant(grant),
            Vote::Busy { holder, .. } => Answer::Outvoted(holder.filter(|_| holding == 1)),
            other => panic!("{other:?}"),
        }
    }

    fn seen(&mut self, seen: &Inspection) -> Answer {
        // In the order of their grants, except holders that have the tokens of their group.
        let mut holders = seen.holders.clone();
        holders.sort_by_key(|holder| (holder.token, format!("{:?}", holder.kind)));
        let number = |holder: &Holder| (holder.kind, self.first(holder.token.unwrap()));
        let holders = holders.iter().map(number).collect::<Vec<_>>();
        assert_eq!(
            (holders.len(), seen.waiters.len()),
            (seen.holding as usize, seen.waiting as usize)
        );
        // The place of an upgrade whose lease is over does not count, and may be shown or not.
        let waiters = seen.waiters.iter().map(|waiter| waiter.kind);
        let waiters = waiters.filter(|kind| *kind != Kind::Exclusive).collect();
        Answer::Seen { holders, waiters }
    }
}

fn renewed(renewal: Renewal) -> Answer {
    match renewal {
        Renewal::Renewed { .. } => Answer::Renewed,
        Renewal::Lost => Answer::Lost,
        other => panic!("{other:?}"),
    }
}

async fn take(store: &impl Able, key: &Key, step: &Step, tokens: &mut Tokens) -> Answer {
    let outcome: Result<Answer, Error> = async {
        Ok(match step {
            Step::Acquire(request) => tokens.attempt(store.try_acquire(request).await?),
            Step::Convert(request) => tokens.attempt(store.convert(request).await?),
            Step::Together(requests) => {
                tokens.together(store.try_acquire_all(requests).await?.unwrap())
            }
            Step::Vote(request, above) => {
                let holding = store.inspect(key).await?.holding;
                let ballot = Ballot::new(request.clone(), tokens.beside(*above as i64));
                tokens.vote(store.vote(&ballot).await?, holding)
            }
            Step::Confirm(claim, steps) => {
                let token = tokens.beside(*steps);
                let confirmed = store.confirm(claim, token).await?;
                tokens.highest = tokens.highest.max(if confirmed { token.get() } else { 0 });
                Answer::Confirmed(confirmed)
            }
            Step::Renew(claim) => renewed(store.renew(&Renew::new(claim.clone(), long())).await),
            Step::Release(claim) => Answer::Released(undisputed(store.release(claim).await?)),
            Step::Forget(claim) => Answer::Released(undisputed(store.forget(claim).await?)),
            Step::Resize(of, change) => {
                let resized = store.resize(key, *of, *change).await?;
                Answer::Permits(resized.changed, resized.permits)
            }
            Step::Look(of) => Answer::Permits(0, store.permits(key, *of).await?),
            Step::Close => {
                store.close(key, OF).await?;
                Answer::Closed
            }
            Step::Inspect => tokens.seen(&store.inspect(key).await?),
            Step::Force => Answer::Ended(store.force_release(key).await?),
        })
    }
    .await;
    outcome.unwrap_or_else(|error| Answer::Failed(error.kind()))
}

fn brief(step: &Step) -> String {
    let name = |claim: &Claim| {
        let (owner, mode) = (claim.owner.expose()[1], claim.mode);
        let group = if let Mode::Joint { group } = mode { group.expose()[0] } else { b' ' };
        format!("{} {mode:?} {}", char::from(owner), char::from(group))
    };
    match step {
        Step::Acquire(it) => format!("acquire {} {}", name(&it.claim), it.queue),
        Step::Convert(Convert { request, from, .. }) => {
            format!("convert {} {} {from:?}", name(&request.claim), request.queue)
        }
        Step::Together([it, _]) => format!("together {}", name(&it.claim)),
        Step::Vote(it, above) => format!("vote {} {above}", name(&it.claim)),
        Step::Confirm(claim, steps) => format!("confirm {} {steps}", name(claim)),
        Step::Renew(claim) => format!("renew {}", name(claim)),
        Step::Release(claim) => format!("release {}", name(claim)),
        Step::Forget(claim) => format!("forget {}", name(claim)),
        other => format!("{other:?}"),
    }
}

/// Whether other clients heard of the release is only a hint.
fn undisputed(released: Released) -> Released {
    match released {
        Released::Freed { .. } => Released::Freed { told: 0 },
        other => other,
    }
}

/// Numbers that are the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    fn one_of<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len() as u64) as usize]
    }

    fn count(&mut self, limit: u32) -> u32 {
        self.below(limit.into()) as u32
    }

    fn claim(&mut self, key: &Key, modes: &[Mode]) -> Claim {
        let owner = OwnerToken::from_bytes([1 + self.below(OWNERS.into()) as u8; 16]);
        Claim::exclusive(key.clone(), owner).in_mode(self.one_of(modes))
    }

    fn request(&mut self, key: &Key, modes: &[Mode]) -> Acquire {
        let request = Acquire::new(self.claim(key, modes), long());
        if self.below(3) > 0 { request.queued() } else { request }
    }

    fn conversion(&mut self, key: &Key, from: &[Mode], to: &[Mode]) -> Convert {
        let request = self.request(key, to);
        let held = request.claim.clone().in_mode(self.one_of(from));
        let convert = Convert::new(held, request.claim.mode, long());
        if request.queue { convert.queued() } else { convert }
    }
}

/// The requests for exclusive, shared and joint locks.
fn step_of_locks(dice: &mut Dice, key: &Key, beside: &Key) -> Step {
    let group = |byte| Mode::Joint { group: OwnerToken::from_bytes([byte; 16]) };
    let modes =
        [Mode::Exclusive, Mode::Shared, Mode::Upgradable, group(0xA1), group(0xA1), group(0xB2)];
    match dice.below(22) {
        0..9 => Step::Acquire(dice.request(key, &modes)),
        9..11 => Step::Convert(dice.conversion(key, &modes[..3], &modes[..3])),
        11..13 => Step::Convert(dice.conversion(key, &[Mode::Upgradable], &[Mode::Exclusive])),
        13 => Step::Renew(dice.claim(key, &modes)),
        14..19 => Step::Release(dice.claim(key, &modes)),
        19 => Step::Inspect,
        20 => Step::Together(
            [key, beside].map(|key| Acquire::new(dice.claim(key, &modes[..1]), long())),
        ),
        _ if dice.below(4) == 0 => Step::Force,
        _ => Step::Release(Claim::exclusive(beside.clone(), dice.claim(key, &modes).owner)),
    }
}

/// The requests for a semaphore.
fn step_of_permits(dice: &mut Dice, key: &Key, _beside: &Key) -> Step {
    let modes = [0, 1, 1, 2, 3, 4, 5].map(|take| Mode::Permits { take, of: OF });
    let of = if dice.below(10) == 0 { OF + 1 } else { OF };
    match dice.below(24) {
        0..10 => Step::Acquire(dice.request(key, &modes)),
        10..12 => Step::Convert(dice.conversion(key, &modes, &modes)),
        12 => Step::Renew(dice.claim(key, &modes)),
        13..18 => Step::Release(dice.claim(key, &modes)),
        18 => Step::Forget(dice.claim(key, &modes)),
        19 => Step::Resize(of, Resize::Add(dice.count(3))),
        20 => Step::Resize(of, Resize::Remove(dice.count(3))),
        21 => Step::Look(of),
        22 => Step::Inspect,
        _ => match dice.below(30) {
            0 => Step::Close,
            1 => Step::Resize(OF, Resize::Add(u32::MAX)),
            2..5 => Step::Force,
            5..10 => Step::Resize(dice.one_of(&[OF - 1, OF, OF + 1]), Resize::Declare),
            _ => Step::Acquire(dice.request(key, &[Mode::Permits { take: 1, of }])),
        },
    }
}

/// The requests for locks on a node of a quorum, whose own queue is used as well.
fn step_of_votes(dice: &mut Dice, key: &Key, beside: &Key) -> Step {
    let group = |byte| Mode::Joint { group: OwnerToken::from_bytes([byte; 16]) };
    let modes =
        [Mode::Exclusive, Mode::Shared, Mode::Upgradable, group(0xA1), group(0xA1), group(0xB2)];
    let above = dice.one_of(&[0, 10, AHEAD]);
    match dice.below(10) {
        0..5 => Step::Vote(dice.request(key, &modes), above),
        5..7 => Step::Confirm(dice.claim(key, &modes), dice.one_of(&[-1, 0, AHEAD as i64])),
        _ => step_of_locks(dice, key, beside),
    }
}

/// Which claims have places afterwards, and from which modes they are to be converted.
fn note_waiting(waiting: &mut HashMap<Claim, Option<Mode>>, step: Step, answer: &Answer) {
    match step {
        Step::Acquire(request) if *answer == Answer::Queued => {
            waiting.insert(request.claim, None);
        }
        Step::Convert(it) if *answer == Answer::Queued => {
            waiting.insert(it.request.claim, Some(it.from));
        }
        // An upgrade without a place gives up the one that it had.
        Step::Convert(it) if *answer == Answer::Busy => {
            waiting.remove(&it.request.claim);
        }
        // A vote has no place, and takes none.
        Step::Vote(Acquire { claim, .. }, _) | Step::Release(claim) => {
            waiting.remove(&claim);
        }
        _ => {}
    }
}

/// So long does a grant live that its owner does not claim. The two stores end it at slightly different times, so they may
/// differ in a history that takes as long.
const GRANT: Duration = Duration::from_secs(1);

/// The most late histories in a row.
const MOST_LATE: u32 = 5;

async fn agree(kind: &str, terms: bool, step: fn(&mut Dice, &Key, &Key) -> Step) {
    let server = Server::start();
    let memory = MemoryBackend::new();
    for history in 0..HISTORIES {
        for attempt in 1.. {
            let begun = Instant::now();
            let builder = || RedisBackend::builder(server.url()).term_quarantine(terms);
            let clients = (0..CLIENTS).map(|_| (builder().build().unwrap(), memory.client()));
            let names = (kind, format!("{kind} {history} {attempt}"));
            let Err(difference) = compare(clients.collect(), names, Dice(history), step).await
            else {
                break;
            };
            let is_late = begun.elapsed() >= GRANT && attempt < MOST_LATE;
            assert!(is_late, "{history}: {difference}");
        }
    }
}

/// One history over Redis and in memory. The error tells a difference.
async fn compare(
    clients: Vec<(RedisBackend, MemoryBackend)>,
    (kind, key): (&str, String),
    mut dice: Dice,
    step: fn(&mut Dice, &Key, &Key) -> Step,
) -> Result<(), String> {
    let (key, beside) = (Key::new(key.clone()).unwrap(), Key::new(key + " beside").unwrap());
    let mut watches = Vec::new();
    for (one, other) in &clients {
        // A client that does not watch is not queued.
        for key in [&key, &beside] {
            watches.push(one.watch(key).await.unwrap());
            watches.push(other.watch(key).await.unwrap());
        }
    }
    let mut before = Vec::new();
    let mut waiting = HashMap::new();
    let mut tokens = (Tokens::default(), Tokens::default());
    for number in 0..STEPS {
        let client = dice.below(CLIENTS as u64) as usize;
        let (ours, theirs) = &clients[client];
        // If the first were a conversion of a lease that is not held, only one of the stores would
        // count it as a use.
        let first = number == 0 && kind == "permits";
        let step = if first { Step::Look(OF) } else { step(&mut dice, &key, &beside) };
        if let Step::Convert(Convert { request, from, .. }) = &step
            && waiting.get(&request.claim).is_some_and(|waits| *waits != Some(*from))
        {
            // No claim is requested twice at once, in two ways.
            continue;
        }
        before.push(format!("{client}: {}", brief(&step)));
        let answer = take(ours, &key, &step, &mut tokens.0).await;
        let reference = take(theirs, &key, &step, &mut tokens.1).await;
        if answer != reference {
            return Err(format!("{answer:?}, not {reference:?}, after {before:#?}"));
        }
        note_waiting(&mut waiting, step, &answer);
        let seen = take(ours, &key, &Step::Inspect, &mut tokens.0).await;
        let reference = take(theirs, &key, &Step::Inspect, &mut tokens.1).await;
        if seen != reference {
            return Err(format!("{seen:?}, not {reference:?}, after {before:#?}"));
        }
    }
    Ok(())
}

#[tokio::test]
async fn about_locks_that_are_held_alone_shared_or_by_groups() {
    agree("locks", false, step_of_locks).await;
}

#[tokio::test]
async fn about_permits() {
    agree("permits", false, step_of_permits).await;
}

#[tokio::test]
async fn about_votes() {
    agree("votes", false, step_of_votes).await;
}

#[tokio::test]
async fn about_locks_whose_grants_name_their_term() {
    agree("locks", true, step_of_locks).await;
}

#[tokio::test]
async fn about_permits_whose_grants_name_their_term() {
    agree("permits", true, step_of_permits).await;
}
