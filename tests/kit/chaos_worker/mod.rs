//! The workers of the chaos kit: without faults, and when they are disturbed.

mod operations;
mod spans;
mod stage;

use std::collections::BTreeSet;
use std::time::Duration;

use lock_tests::chaos::history::{Deed, Event, Refusal};
use lock_tests::{RedisServer, Worker, eventually};

use self::operations::{Operations, operations};
use self::spans::{assert_apart, assert_tokens_rise, spans};
use self::stage::Stage;

const LIMIT: Duration = Duration::from_secs(30);

const TTL: Duration = Duration::from_millis(800);

/// How many tasks a client has.
const TASKS: u32 = 6;

/// The deeds in any history of any deployment.
const EVERYWHERE: [&str; 22] = [
    "ask", "got", "not", "turn", "turned", "kept", "still", "leave", "left", "wrote", "look",
    "make", "made", "saw", "found", "store", "stored", "peek", "peeked", "follow", "heard",
    "unfollow",
];

/// The locks of the workers in any deployment, except those that count.
const KEYS: [&str; 10] = ["e0", "l0", "l0#0", "l0#1", "m0", "m1", "o0", "v0", "w0", "w1"];

/// The locks of deployments that count permits.
const COUNTED: [&str; 5] = ["resize", "resized", "forgot", "arrive", "pass"];

/// The grants when one worker tried everything at the end: all that it tried.
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

#[track_caller]
fn assert_sound(stage: &Stage) -> Operations {
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
    let all = KEYS.into();
    assert!(probed.is_superset(&all), "only {probed:?} were tried in the end");
    println!("{} operations, {} events", operations.len(), stage.events().len());
    operations
}

/// A request that was never granted.
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
    let all = ["b0", "e0", "l0", "l0#0", "l0#1", "m0", "m1", "o0", "s0", "s1", "v0", "w0", "w1"];
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
    // No reader becomes a writer there, so no upgrade is refused.
    let seen: Vec<_> = EVERYWHERE.into_iter().filter(|deed| *deed != "kept").collect();
    stage.until_seen(&seen);
    let operations = assert_sound(&stage);
    assert_eq!(keys(&operations, true), KEYS.into());
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

/// A worker that stands still for longer than its leases live, and is careless now and then, writes with a
/// token that is too low.
#[test]
fn a_worker_that_stood_still_has_lost_its_leases_and_its_writes_are_refused() {
    let server = RedisServer::start();
    let stage = Stage::new().with(2, "redis", &[server.url()], 1);
    stage.goes_on();
    let sleeper = &stage.workers[0];
    // On a busy machine every task may be careless at first.
    let is_lost = |event: &Event| matches!(event.deed, Deed::Lost { .. });
    eventually("a write is refused, and a task sees that its lease is lost", LIMIT * 4, || {
        sleeper.stop();
        std::thread::sleep(TTL * 3 / 2);
        sleeper.cont();
        std::thread::sleep(TTL / 8);
        stage.resource.tally().refused > 0 && stage.events().iter().any(is_lost)
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
    stage.until("a client sees an error", |events| events.iter().any(unreachable));
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

/// A worker that forgets everything breaks the promise, and the history shows it.
#[test]
fn a_memory_that_forgets_lets_two_in_at_once() {
    let stage = Stage::new().with(1, "memory", &[], 3);
    let worker = &stage.workers[0];
    stage.goes_on();
    eventually("a task is met", LIMIT, || {
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
    worker.send("uses");
    worker.wait_for("used", LIMIT);
    let before = stage.events();
    operations(&before);
    assert!(matches!(before.last().unwrap().deed, Deed::Uses { files, .. } if files > 0));
    // No worker has a command that could be waited for.
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
