//! `dlock elect` and `dlock wait-leader`.

use lock_tests::{SOON, eventually};
use rustix::process::Signal;

use crate::program::{Scene, is_gone, pid_of};

#[test]
fn one_program_leads_at_a_time_and_all_see_which() {
    let scene = Scene::new();
    let script = "echo $$ > $0; exec sleep 1000";
    let elect = |name: &str| {
        scene.start(&[
            "elect", "boss", "--ttl", "6s", "--value", name, "--", "sh", "-c", script, name,
        ])
    };
    let one = elect("one");
    let program = pid_of(&scene.written("one"));
    assert_eq!(scene.start(&["wait-leader", "boss", "--timeout", "60s"]).ends_with(0).out, "one\n");
    let two = elect("two");
    one.kill();
    is_gone(program);
    scene.written("two");
    assert_eq!(scene.start(&["wait-leader", "boss", "--timeout", "60s"]).ends_with(0).out, "two\n");
    two.kill();
}

#[test]
fn a_wait_for_a_leader_has_a_limit() {
    let scene = Scene::new();
    let text = scene.start(&["wait-leader", "boss", "--timeout", "50ms"]).ends_with(124);
    assert_eq!(text.err, "dlock: boss has no leader\n");
}

#[test]
fn a_leader_may_lead_again() {
    let scene = Scene::new();
    let script = "echo >> led; test $(wc -l < led) -lt 3 || kill -TERM $$";
    scene.start(&["elect", "boss", "--again", "--", "sh", "-c", script]).ends_with(143);
    assert_eq!(scene.written("led"), "\n\n\n");
}

#[test]
fn a_program_whose_leadership_was_lost_is_ended() {
    let scene = Scene::new();
    let script = "echo $$ > pid; exec sleep 1000";
    let dlock = scene.start(&["elect", "boss", "--ttl", "10s", "--", "sh", "-c", script]);
    let program = pid_of(&scene.written("pid"));
    scene.server.cli(&["FLUSHALL"]);
    let text = dlock.ends_with(76);
    assert!(text.err.contains("dlock: the lease on boss is lost"), "{text:?}");
    is_gone(program);
}

#[test]
fn a_leader_that_lost_its_leadership_leads_again_if_it_is_to() {
    let scene = Scene::new();
    let script = "echo $$ >> led; exec sleep 1000";
    let elect = ["elect", "boss", "--again", "--ttl", "10s", "--", "sh", "-c", script];
    let dlock = scene.start(&elect);
    let first = pid_of(&scene.written("led"));
    scene.server.cli(&["FLUSHALL"]);
    is_gone(first);
    eventually("it leads again", SOON, || scene.written("led").lines().count() == 2);
    let second = pid_of(scene.written("led").lines().nth(1).unwrap());
    assert_ne!(first, second);
    dlock.signal(Signal::TERM);
    dlock.ends_with(143);
    is_gone(second);
}

#[test]
fn a_signal_to_dlock_ends_the_campaign() {
    let scene = Scene::new();
    let script = "trap 'exit 0' TERM; echo >> led; while :; do sleep 0.02; done";
    let dlock = scene.start(&["elect", "boss", "--again", "--", "sh", "-c", script]);
    scene.written("led");
    dlock.signal(Signal::TERM);
    dlock.ends_with(0);
    assert_eq!(scene.written("led"), "\n");
    scene.start(&["elect", "boss", "--again", "--", "no-such-program"]).ends_with(127);
}

#[test]
fn a_leader_that_loses_its_lease_while_dlock_ends_it_leads_no_more() {
    let scene = Scene::new();
    let script = "trap 'echo > asked' TERM; echo >> led; while :; do sleep 0.02; done";
    let elect = ["elect", "boss", "--again", "--ttl", "10s", "--", "sh", "-c", script];
    let dlock = scene.start(&elect);
    scene.written("led");
    dlock.signal(Signal::TERM);
    scene.written("asked");
    scene.server.cli(&["FLUSHALL"]);
    dlock.ends_with(76);
    assert_eq!(scene.written("led"), "\n");
}
