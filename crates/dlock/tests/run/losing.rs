//! Leases that end too early.

use lock_tests::process::is_alive;
use lock_tests::{Direction, Proxy, SOON, eventually, eventually_async, soon};
use rustix::process::Signal;

use crate::program::{Scene, is_gone, pid_of};

/// Notes the time and the deadline of its lease until it is killed, and ignores TERM.
const STUBBORN: &str = "trap 'echo >> asked' TERM; \
    while :; do echo $(date +%s%3N) $(cat $LOCK_FILE) >> beats; sleep 0.01; done";

/// How often a scene is played at most. A machine that stands still may make one kill too late, but not three.
const ATTEMPTS: usize = 3;

#[test]
fn a_program_that_ignores_term_is_killed_before_its_lease_ends() {
    let late: Vec<_> = (0..ATTEMPTS).map_while(|_| is_killed_in_time().err()).collect();
    assert!(late.len() < ATTEMPTS, "{late:?}");
}

/// Plays the scene with a stubborn program. The error says what came too late.
fn is_killed_in_time() -> Result<(), String> {
    let scene = Scene::new();
    let dlock = scene.script(&["--ttl", "3s", "--grace", "1s"], STUBBORN);
    scene.written("beats");
    scene.server.stop();
    let text = dlock.ends_with(76);
    if !text.err.contains("the lease on it ends in") {
        return Err(format!("it was not ended before the lease: {text:?}"));
    }
    if !scene.path("asked").exists() {
        return Err("the program got no TERM".to_owned());
    }
    let beats = scene.written("beats");
    let beats = beats.lines().filter_map(|line| line.split_once(' '));
    let beats: Vec<(u64, u64)> = beats
        .filter_map(|(at, deadline)| Some((at.parse().ok()?, deadline.parse().ok()?)))
        .collect();
    let deadline = beats.iter().map(|(_, deadline)| *deadline).max().unwrap();
    let last = beats.iter().map(|(at, _)| *at).max().unwrap();
    let late = format!("it ran at {last}, and its lease ended at {deadline}");
    if last < deadline { Ok(()) } else { Err(late) }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_client_gets_the_lock_only_when_the_program_is_dead() {
    for _ in 0..ATTEMPTS {
        if is_dead_before_another_holds().await {
            return;
        }
    }
    panic!("the program ran beside another holder");
}

async fn is_dead_before_another_holds() -> bool {
    let scene = Scene::new();
    let proxy = Proxy::before(&scene.server);
    let url = scene.server.url_through(proxy.addr());
    let script = "trap '' TERM; echo $$ > pid; while :; do sleep 0.01; done";
    let run =
        ["--url", &url, "run", "it", "--ttl", "3s", "--grace", "1s", "--", "sh", "-c", script];
    let dlock = scene.start(&run);
    let program = pid_of(&scene.written("pid"));
    let locks = scene.locks().await;
    let waiting = tokio::spawn(async move {
        let guard = locks.lock("it").await.unwrap();
        // In this task, before anything else: the present moment counts.
        (is_alive(program), guard)
    });
    eventually_async("it waits", SOON, async || scene.inspect("it").await.waiting == 1).await;
    proxy.silence(Direction::ToServer);
    let (is_alive, _guard) = soon(waiting).await.unwrap();
    dlock.ends_with(76);
    !is_alive
}

#[test]
fn a_program_whose_lock_was_deleted_is_ended_with_all_its_processes() {
    let scene = Scene::new();
    let dlock = scene.script(&["--ttl", "10s"], "sleep 1000 & echo $! > started; wait");
    let started = pid_of(&scene.written("started"));
    assert_eq!(scene.server.cli(&["DEL", "lock:{it}"]).int(), 1);
    let text = dlock.ends_with(76);
    assert!(text.err.contains("dlock: the lease on it is lost"), "{text:?}");
    is_gone(started);
}

#[test]
fn a_program_has_its_grace_to_clean_up() {
    let scene = Scene::new();
    let script = "trap 'echo cleaned; exit 0' TERM; echo > ready; while :; do sleep 0.01; done";
    let dlock = scene.script(&["--ttl", "8s", "--lost-code", "9"], script);
    scene.written("ready");
    scene.server.stop();
    assert_eq!(dlock.ends_with(9).out, "cleaned\n");
}

#[test]
fn a_program_may_go_on_without_its_lock() {
    let scene = Scene::new();
    let script = "echo > ready; while test -e $LOCK_FILE; do sleep 0.01; done; exit 4";
    let dlock = scene.script(&["--ttl", "4s", "--on-lost", "warn"], script);
    scene.written("ready");
    scene.server.cli(&["FLUSHALL"]);
    let text = dlock.ends_with(4);
    assert!(text.err.contains("goes on without the lock"), "{text:?}");
}

#[test]
fn a_program_that_was_stopped_for_longer_than_its_lease_does_not_go_on() {
    let scene = Scene::new();
    let script = "trap '' TERM; while :; do echo >> beats; sleep 0.01; done";
    let dlock = scene.script(&["--ttl", "3s", "--grace", "100ms"], script);
    scene.written("beats");
    dlock.signal(Signal::TSTP);
    let other = scene.script(&[], "exit 0");
    other.ends_with(0);
    let beats = || std::fs::metadata(scene.path("beats")).unwrap().len();
    let before = beats();
    dlock.signal(Signal::CONT);
    dlock.ends_with(76);
    assert_eq!(beats(), before);
    eventually("the lock is free", SOON, || {
        scene.command(&["run", "-n", "it", "--try", "--", "true"]).status().unwrap().success()
    });
}

#[test]
fn a_reader_that_has_gone_does_not_keep_the_program_alive() {
    let scene = Scene::new();
    let script = "echo $$ > pid; exec sleep 1000";
    let run = ["run", "it", "--ttl", "10s", "--", "sh", "-c", script];
    let mut dlock = scene.command(&run).spawn().unwrap();
    let program = pid_of(&scene.written("pid"));
    drop(dlock.stderr.take());
    scene.server.cli(&["FLUSHALL"]);
    assert_eq!(dlock.wait().unwrap().code(), Some(76));
    is_gone(program);
}
