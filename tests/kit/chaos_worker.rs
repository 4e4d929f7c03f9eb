//! The workers of the chaos kit: what they do when nothing fails, and when they are disturbed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::time::Duration;

use lock_core::{FencingToken, Instant};
use lock_tests::chaos::history::{Deed, Event, Op, Refusal, Way, read};
use lock_tests::chaos::resource::Resource;
use lock_tests::{RedisServer, Worker, eventually};
use tempfile::TempDir;

const LIMIT: Duration = Duration::from_secs(30);

const TTL: Duration = Duration::from_millis(800);

/// How many tasks a client has.
const TASKS: u32 = 6;

/// What can be seen in any history of any deployment.
const EVERYWHERE: [&str; 14] = [
    "ask", "got", "not", "turn", "turned", "kept", "still", "leave", "left", "wrote", "look",
    "make", "made", "saw",
];

/// The locks that the workers of any deployment use, other than those that count.
const KEYS: [&str; 9] = ["e0", "l0", "l0#0", "l0#1", "m0", "m1", "o0", "w0", "w1"];

/// What is there only where permits are counted.
const COUNTED: [&str; 5] = ["resize", "resized", "forgot", "arrive", "pass"];

struct Stage {
    folder: TempDir,
    resource: Resource,
    workers: Vec<Worker>,
}

impl Stage {
    fn new() -> Self {
        let folder = TempDir::with_prefix("chaos-").unwrap();
        let resource = Resource::start(folder.path()).unwrap();
        Self { folder, resource, workers: Vec::new() }
    }

    /// Adds so many workers over these servers.
    fn with(mut self, count: usize, deployment: &str, urls: &[String], clients: usize) -> Self {
        for number in 0..count {
            let worker = Worker::builder(env!("CARGO_BIN_EXE_lock-chaos"))
                .command("worker")
                .arg("--folder", self.folder.path().display())
                .arg("--client", format!("w{number}"))
                .arg("--seed", 7)
                .arg("--deployment", deployment)
                .arg("--clients", clients)
                .arg("--tasks", TASKS)
                .arg("--wait-limit", 8_000)
                .arg("--fair", number == 0)
                .ttl(TTL)
                .max_ttl(TTL * 2)
                .node_timeout(Duration::from_millis(400))
                .spawn_over(urls);
            self.workers.push(worker);
        }
        self
    }

    /// Gives all workers an order, and waits until they have carried it out.
    #[track_caller]
    fn all(&self, order: &str, done: &str) {
        self.workers.iter().for_each(|worker| worker.send(order));
        for worker in &self.workers {
            worker.wait_for(done, LIMIT);
        }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn events(&self) -> Vec<Event> {
        read(self.path()).unwrap()
    }

    /// Waits until each of these deeds can be seen.
    #[track_caller]
    fn until_seen(&self, deeds: &[&str]) {
        self.until(&format!("all of {deeds:?} were written"), |events| {
            let seen: BTreeSet<String> = events.iter().map(verb).collect();
            deeds.iter().all(|deed| seen.contains(*deed))
        });
    }

    /// Waits until every client has had something again.
    #[track_caller]
    fn goes_on(&self) {
        let count = |events: &[Event]| {
            let mut counts = BTreeMap::<String, usize>::new();
            for event in events {
                let got = matches!(event.deed, Deed::Got { .. });
                *counts.entry(event.client.clone()).or_default() += usize::from(got);
            }
            counts
        };
        let before = count(&self.events());
        self.until("every client goes on", |events| {
            let now = count(events);
            before.iter().all(|(client, had)| now.get(client).is_some_and(|has| has > had))
        });
    }

    /// Waits until the history has what it takes. To read it costs more than to write it, so not too often.
    #[track_caller]
    fn until(&self, what: &str, condition: impl Fn(&[Event]) -> bool) {
        let begin = std::time::Instant::now();
        while !condition(&self.events()) {
            assert!(begin.elapsed() < LIMIT, "gave up waiting until {what}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Lets all rest, one try everything, and all shut their locks down, and returns what they have written.
    #[track_caller]
    fn end(&self) -> Vec<Event> {
        self.all("rest", "rested");
        self.workers[0].send("at 0 probe");
        self.workers[0].wait_for("probed", LIMIT);
        self.all("shutdown", "shut");
        for worker in &self.workers {
            for bad in ["panicked", "hangs", "failed"] {
                let said = worker.poll(bad);
                assert!(said.is_none(), "{said:?}");
            }
        }
        self.events()
    }
}

/// What was had when one tried everything at the end: all that it tried.
#[track_caller]
fn probed(operations: &Operations) -> BTreeSet<&str> {
    let probes = operations.values().filter_map(|events| match &events[0].deed {
        Deed::Ask { task: TASKS, key, .. } => Some((key.as_str(), events)),
        _ => None,
    });
    let had = probes.map(|(key, events)| {
        assert!(events.iter().any(|it| matches!(it.deed, Deed::Got { .. })), "{events:?}");
        key
    });
    had.collect()
}

fn verb(event: &Event) -> String {
    event.deed.to_string().split(' ').next().unwrap_or_default().to_owned()
}

/// One operation of one client, in its order.
type Operations = BTreeMap<(String, Op), Vec<Event>>;

/// The events of each operation. Each begins once and ends once, unless it was open when its client's tasks
/// were ended, and there is a hold only in between.
#[track_caller]
fn operations(events: &[Event]) -> Operations {
    let mut operations = Operations::new();
    let mut collapsed = BTreeSet::new();
    for event in events {
        if event.deed == Deed::Collapse {
            let open = operations.iter().filter(|((client, _), events)| {
                *client == event.client && !events.last().is_some_and(|last| ends(&last.deed))
            });
            collapsed.extend(open.map(|(key, _)| key.clone()));
        }
        if let Some(op) = op(&event.deed) {
            let key = (event.client.clone(), op);
            assert!(!collapsed.contains(&key), "{event:?} after the end of its task");
            operations.entry(key).or_default().push(event.clone());
        }
    }
    for (key, events) in &operations {
        let deeds: Vec<String> = events.iter().map(|event| event.deed.to_string()).collect();
        let (first, last) = (&events[0].deed, &events[events.len() - 1].deed);
        assert!(
            matches!(first, Deed::Ask { .. } | Deed::Arrive { .. } | Deed::Look { .. }),
            "{key:?}: {deeds:?}"
        );
        let ended = events.iter().filter(|event| ends(&event.deed)).count();
        if !collapsed.contains(key) {
            assert!(ended == 1 && ends(last), "{key:?}: {deeds:?}");
        }
        let count = |wanted: &str| events.iter().filter(|event| verb(event) == wanted).count();
        assert!(count("got") <= 1, "{key:?}: {deeds:?}");
        let left = count("left") == 1;
        assert!(!left || count("leave") == 1 && count("got") == 1, "{key:?}: {deeds:?}");
        assert!(count("turned") + count("kept") <= count("turn"), "{key:?}: {deeds:?}");
        assert!(events.is_sorted_by_key(|event| event.at), "{key:?}: {deeds:?}");
    }
    operations
}

fn ends(deed: &Deed) -> bool {
    use Deed::{Forgot, Left, Not, Pass, Saw};

    matches!(deed, Not { .. } | Left { .. } | Forgot { .. } | Pass { .. } | Saw { .. })
}

fn op(deed: &Deed) -> Option<Op> {
    match deed {
        Deed::Ask { op, .. }
        | Deed::Got { op, .. }
        | Deed::Not { op, .. }
        | Deed::Turn { op, .. }
        | Deed::Turned { op, .. }
        | Deed::Kept { op, .. }
        | Deed::Still { op, .. }
        | Deed::Lost { op }
        | Deed::Leave { op, .. }
        | Deed::Left { op, .. }
        | Deed::Forgot { op }
        | Deed::Wrote { op, .. }
        | Deed::Arrive { op, .. }
        | Deed::Pass { op, .. }
        | Deed::Look { op, .. }
        | Deed::Make { op }
        | Deed::Made { op, .. }
        | Deed::Saw { op, .. } => Some(*op),
        _ => None,
    }
}

/// A time in which somebody certainly held a lock in one way.
#[derive(Clone, Copy, Debug)]
struct Span {
    way: Way,
    token: FencingToken,
    from: Instant,
    until: Instant,
}

/// What was held, by the names of the locks. What was held in two ways one after the other counts twice.
fn spans(operations: &Operations) -> HashMap<String, Vec<Span>> {
    let mut spans = HashMap::<String, Vec<Span>>::new();
    for events in operations.values() {
        let Deed::Ask { key, way, .. } = &events[0].deed else { continue };
        let (mut way, mut next, mut open, mut lost) = (*way, *way, None, None::<Instant>);
        for event in events {
            let closed = match event.deed {
                Deed::Got { token, .. } => {
                    open = Some((event.at, token));
                    None
                }
                Deed::Turned { token, .. } => {
                    way = next;
                    open = Some((event.at, token));
                    None
                }
                Deed::Turn { way, valid_until, .. } => {
                    next = way;
                    Some(valid_until)
                }
                Deed::Leave { valid_until, .. } => Some(valid_until),
                Deed::Lost { .. } => {
                    lost = lost.or(Some(event.at));
                    None
                }
                _ => None,
            };
            if let (Some(valid_until), Some((from, token))) = (closed, open) {
                let until = event.at.min(valid_until).min(lost.unwrap_or(event.at));
                spans.entry(key.clone()).or_default().push(Span { way, token, from, until });
                open = None;
            }
        }
    }
    for spans in spans.values_mut() {
        spans.retain(|span| span.from < span.until);
        spans.sort_by_key(|span| span.from);
    }
    spans
}

/// Nobody held what somebody else held in a way that excludes it, and never were there more permits.
#[track_caller]
fn assert_apart(spans: &HashMap<String, Vec<Span>>) {
    for (key, spans) in spans {
        // Nobody makes `s1` larger than that.
        let limit = match key.as_str() {
            "s0" => 3,
            "l0" => 2,
            _ => 9,
        };
        let mut here: Vec<Span> = Vec::new();
        for &span in spans {
            here.retain(|other| other.until > span.from);
            for other in &here {
                assert!(other.way.stands(span.way), "{key}: {other:?} and {span:?}");
            }
            here.push(span);
            let permits = |span: &Span| if let Way::Permits(count) = span.way { count } else { 0 };
            assert!(here.iter().map(permits).sum::<u32>() <= limit, "{key}: {here:?}");
        }
    }
}

/// Those who held a lock alone had higher tokens than those before them.
#[track_caller]
fn assert_tokens_rise(spans: &HashMap<String, Vec<Span>>) {
    for (key, spans) in spans {
        let alone = || spans.iter().filter(|span| span.way.is_exclusive());
        for (one, next) in alone().zip(alone().skip(1)) {
            let again = one.token == next.token && one.way.stands(next.way);
            assert!(one.token < next.token || again, "{key}: {one:?} and {next:?}");
        }
    }
}

#[track_caller]
fn assert_sound(stage: &Stage) -> Operations {
    assert_sound_over(stage, &KEYS)
}

/// The same, where workers use these locks.
fn assert_sound_over(stage: &Stage, keys: &[&str]) -> Operations {
    eventually("there was enough to look at", LIMIT, || {
        let tally = stage.resource.tally();
        tally.entries > 200 && tally.accepted > 50
    });
    let operations = operations(&stage.end());
    let spans = spans(&operations);
    assert_apart(&spans);
    assert_tokens_rise(&spans);
    assert_eq!(stage.resource.tally().meetings, []);
    let probed = probed(&operations);
    let all = keys.iter().copied().collect();
    assert!(probed.is_superset(&all), "only {probed:?} were tried in the end");
    println!("{} operations, {} events", operations.len(), stage.events().len());
    operations
}

/// What somebody asked for that it never got.
fn keys(operations: &Operations, held: bool) -> BTreeSet<&str> {
    let first = operations.values().filter(|events| {
        !held
            || events.iter().any(|event| matches!(event.deed, Deed::Got { .. } | Deed::Pass { .. }))
    });
    first
        .filter_map(|events| match &events[0].deed {
            Deed::Ask { key, .. } | Deed::Arrive { key, .. } => Some(key.as_str()),
            _ => None,
        })
        .collect()
}

#[test]
fn workers_on_one_server_do_everything_there_is_to_do() {
    let server = RedisServer::builder().config("notify-keyspace-events", "Kgxe").start();
    let stage = Stage::new().with(2, "redis", &[server.url()], 1);
    stage.until_seen(&[&EVERYWHERE[..], &COUNTED].concat());
    let operations = assert_sound(&stage);
    let all = ["b0", "e0", "l0", "l0#0", "l0#1", "m0", "m1", "o0", "s0", "s1", "w0", "w1"];
    assert_eq!(keys(&operations, true), all.into());
    assert!(probed(&operations).contains("s0"));
    assert_eq!(stage.resource.tally().refused, 0);
}

#[test]
fn workers_behind_a_plain_protocol_do_as_well() {
    let server = RedisServer::start();
    let stage = Stage::new().with(2, "plain", &[server.url()], 1);
    stage.until_seen(&EVERYWHERE);
    assert_sound(&stage);
}

#[test]
fn clients_of_a_memory_do_everything_there_is_to_do() {
    let stage = Stage::new().with(1, "memory", &[], 3);
    stage.until_seen(&[&EVERYWHERE[..], &COUNTED].concat());
    let operations = assert_sound(&stage);
    let clients: BTreeSet<&str> = operations.keys().map(|(client, _)| client.as_str()).collect();
    assert_eq!(clients, ["w0.0", "w0.1", "w0.2"].into());
}

#[test]
fn workers_over_a_quorum_do_everything_but_count() {
    let servers = [(); 3].map(|()| RedisServer::start());
    let stage = Stage::new().with(2, "quorum-3", &servers.each_ref().map(RedisServer::url), 1);
    // No reader becomes a writer there, so none stays one against its will.
    let seen: Vec<_> = EVERYWHERE.into_iter().filter(|deed| *deed != "kept").collect();
    stage.until_seen(&seen);
    // No lock there has joint holders.
    let locks: Vec<_> = KEYS.into_iter().filter(|key| *key != "o0").collect();
    let operations = assert_sound_over(&stage, &locks);
    assert_eq!(keys(&operations, true), locks.into_iter().collect());
}

#[test]
fn disturbed_workers_go_on_and_leave_nothing_open() {
    let server = RedisServer::start();
    let stage = Stage::new().with(2, "redis", &[server.url()], 1);
    stage.goes_on();
    let [one, other] = &stage.workers[..] else { panic!("there are two") };
    one.tell("block 100", "blocked");
    one.tell("abort 4", "aborted");
    stage.goes_on();
    other.send("collapse");
    other.wait_for("collapsed", LIMIT);
    stage.goes_on();
    one.send("uses");
    one.wait_for("used", LIMIT);
    one.send("dance");
    one.wait_for("failed dance", LIMIT);
    let operations = assert_sound(&stage);
    let given_up = |events: &Vec<Event>| {
        matches!(events[events.len() - 1].deed, Deed::Not { why: Refusal::GivenUp, .. })
    };
    assert!(operations.values().any(given_up));
    let collapses = stage.events().into_iter().filter(|event| event.deed == Deed::Collapse);
    assert_eq!(collapses.map(|event| event.client).collect::<Vec<_>>(), ["w1"]);
}

/// One that stands still for longer than its leases live, and is careless now and then, writes with a token
/// that is too low.
#[test]
fn a_worker_that_stood_still_has_lost_its_leases_and_its_writes_are_refused() {
    let server = RedisServer::start();
    let stage = Stage::new().with(2, "redis", &[server.url()], 1);
    stage.goes_on();
    let sleeper = &stage.workers[0];
    eventually("a write is refused", LIMIT * 2, || {
        sleeper.stop();
        std::thread::sleep(TTL * 3 / 2);
        sleeper.cont();
        std::thread::sleep(TTL / 8);
        stage.resource.tally().refused > 0
    });
    stage.goes_on();
    let stood_still = |event: &Event| match event.deed {
        Deed::Late { millis } => Duration::from_millis(millis) >= TTL,
        _ => false,
    };
    stage.until("it knows how late it was", |events| events.iter().any(stood_still));
    assert_sound(&stage);
    let events = stage.events();
    let refused = events.iter().filter_map(|event| match event.deed {
        Deed::Wrote { accepted: false, valid_until, .. } => Some((event.at, valid_until)),
        _ => None,
    });
    assert!(refused.clone().count() > 0);
    for (at, valid_until) in refused {
        assert!(valid_until < at, "a valid guard was refused");
    }
    assert!(events.iter().any(|event| matches!(event.deed, Deed::Lost { .. })));
}

#[test]
fn a_memory_fails_and_heals() {
    let stage = Stage::new().with(1, "memory", &[], 3);
    let worker = &stage.workers[0];
    stage.goes_on();
    let unreachable = |event: &Event| match &event.deed {
        Deed::Not { why: Refusal::Failed(kind), .. } => kind == "Unreachable",
        _ => false,
    };
    worker.send("store fail");
    worker.wait_for("stored", LIMIT);
    stage.until("somebody is told of it", |events| events.iter().any(unreachable));
    for mischief in ["hang", "hang-replies", "delay 30", "cut", "mute"] {
        worker.send(&format!("at 1 store {mischief}"));
        worker.wait_for("stored", LIMIT);
        std::thread::sleep(TTL / 4);
        worker.send("store heal");
        worker.wait_for("stored", LIMIT);
        stage.goes_on();
    }
    for mischief in ["lose 3", "restart"] {
        worker.send(&format!("store {mischief}"));
        worker.wait_for("stored", LIMIT);
        stage.goes_on();
    }
    worker.send("at 2 collapse");
    worker.wait_for("collapsed", LIMIT);
    worker.send("at 3 collapse");
    worker.wait_for("failed at 3 collapse", LIMIT);
    stage.goes_on();
    assert_sound(&stage);
}

#[test]
fn the_store_is_healed_at_once_while_its_clients_stand_still() {
    let stage = Stage::new().with(1, "memory", &[], 3);
    let worker = &stage.workers[0];
    stage.goes_on();
    worker.send("store hang");
    worker.wait_for("stored", LIMIT);
    worker.send("block 3000");
    worker.send("store heal");
    worker.wait_for("stored", LIMIT);
    assert!(worker.poll("blocked").is_none(), "it was healed afterwards");
    worker.wait_for("blocked", LIMIT);
    stage.goes_on();
    assert_sound(&stage);
}

/// Whoever forgets everything breaks the promise, and is seen to.
#[test]
fn a_memory_that_forgets_lets_two_in_at_once() {
    let stage = Stage::new().with(1, "memory", &[], 3);
    let worker = &stage.workers[0];
    stage.goes_on();
    eventually("somebody is met", LIMIT, || {
        worker.send("store forget");
        worker.wait_for("stored", LIMIT);
        !stage.resource.tally().meetings.is_empty()
    });
    stage.goes_on();
    let operations = operations(&stage.end());
    let spans = spans(&operations);
    let apart = std::panic::catch_unwind(|| assert_apart(&spans));
    assert!(apart.is_err(), "the history does not show what the resource has seen");
}

#[test]
fn workers_rest_and_go_on() {
    let server = RedisServer::start();
    let stage = Stage::new().with(1, "redis", &[server.url()], 1);
    let worker = &stage.workers[0];
    stage.goes_on();
    worker.send("rest");
    worker.wait_for("rested", LIMIT);
    let before = stage.events();
    operations(&before);
    assert!(matches!(before.last().unwrap().deed, Deed::Uses { files, .. } if files > 0));
    // Nobody has anything to do that could be waited for.
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(stage.events().len(), before.len());
    worker.send("go");
    worker.wait_for("gone on", LIMIT);
    stage.goes_on();
    assert_sound(&stage);
}

#[test]
fn a_worker_that_panics_says_so_and_dies() {
    let stage = Stage::new();
    let (folder, gone) = (stage.folder, stage.resource.path().to_owned());
    drop(stage.resource);
    std::fs::remove_file(gone).unwrap();
    let worker = Worker::builder(env!("CARGO_BIN_EXE_lock-chaos"))
        .command("worker")
        .arg("--folder", folder.path().display())
        .arg("--client", "w")
        .arg("--deployment", "memory")
        .launch_over::<&str>(&[]);
    let said = worker.wait_for("panicked", LIMIT);
    assert!(said.text.contains("there is no resource"), "{said:?}");
    eventually("it is dead", LIMIT, || !worker.is_alive());
}
