//! `dlock elect` and `dlock wait-leader`.

use rustix::process::Signal;

use crate::program::{Scene, is_gone, pid_of};

#[test]
fn one_program_leads_at_a_time_and_all_see_which() {
    let scene = Scene::new();
    let script = "echo $$ > $0; exec sleep 1000";
    let elect = |name: &str| {
        scene.start(&[
            "elect", "boss", "--ttl", "4s", "--value", name, "--", "sh", "-c", script, name,
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
