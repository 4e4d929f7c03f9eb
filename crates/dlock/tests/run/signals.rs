//! Signals, while the program runs and while it waits.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use lock_any::lock_sync::LockGuard;
use lock_tests::process::{is_alive, kill};
use lock_tests::{SOON, eventually, eventually_async};
use rustix::process::Signal;

use crate::program::{Dlock, Scene, is_gone, pid_of};

/// A script that tells of a signal, and goes on until there is one.
fn traps(signal: &str) -> String {
    format!(
        "trap 'echo got {signal}; exit 3' {signal}; echo ready > ready; while :; do sleep 0.02; done"
    )
}

#[test]
fn signals_go_on_to_the_program() {
    for (name, signal) in [
        ("TERM", Signal::TERM),
        ("INT", Signal::INT),
        ("HUP", Signal::HUP),
        ("QUIT", Signal::QUIT),
        ("USR1", Signal::USR1),
        ("USR2", Signal::USR2),
        ("ALRM", Signal::ALARM),
        ("WINCH", Signal::WINCH),
    ] {
        let scene = Scene::new();
        let dlock = scene.script(&[], &traps(name));
        scene.written("ready");
        dlock.signal(signal);
        assert_eq!(dlock.ends_with(3).out, format!("got {name}\n"));
    }
}

#[test]
fn a_signal_reaches_the_processes_that_the_program_started() {
    let scene = Scene::new();
    let dlock = scene.script(&[], "sleep 1000 & echo $! > started; wait");
    let started = pid_of(&scene.written("started"));
    dlock.signal(Signal::TERM);
    dlock.ends_with(143);
    is_gone(started);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_ends_a_wait_and_nothing_is_left_of_it() {
    let scene = Scene::new();
    let guard = scene.locks().await.lock("it").await.unwrap();
    let ends = [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT];
    for (signal, code) in ends.into_iter().zip([143, 130, 129, 131]) {
        let dlock = scene.script(&[], "echo never");
        eventually_async("it waits", SOON, async || scene.inspect("it").await.waiting == 1).await;
        // These are for the program, which does not run yet.
        for other in [Signal::USR1, Signal::USR2, Signal::ALARM, Signal::WINCH] {
            dlock.signal(other);
        }
        dlock.signal(signal);
        assert_eq!(dlock.ends_with(code).out, "");
        assert_eq!(scene.inspect("it").await.waiting, 0);
    }
    LockGuard::release(guard).await.unwrap();
}

#[test]
fn a_killed_dlock_takes_its_program_with_it() {
    let scene = Scene::new();
    let dlock = scene.script(&[], "echo $$ > pid; exec sleep 1000");
    let program = pid_of(&scene.written("pid"));
    dlock.kill();
    is_gone(program);
}

/// As the docs say: the kernel kills the program, and nothing ends the processes that the program has started.
#[test]
fn a_killed_dlock_leaves_the_processes_of_its_program_and_the_lease_file() {
    let scene = Scene::new();
    let script = "echo $LOCK_FILE > file; echo $$ > pid; sleep 1000 & echo $! > started; wait";
    let dlock = scene.script(&[], script);
    let started = pid_of(&scene.written("started"));
    dlock.kill();
    is_gone(pid_of(&scene.written("pid")));
    let is_left = is_alive(started);
    kill(started);
    assert!(is_left);
    let file = scene.written("file");
    let deadline = std::fs::read_to_string(file.trim()).unwrap();
    std::fs::remove_file(file.trim()).unwrap();
    assert!(deadline.trim().parse::<u64>().is_ok(), "{deadline}");
}

#[test]
fn runs_may_be_nested() {
    let scene = Scene::new();
    let inner = format!("exec $DLOCK run -n inner -- sh -c \"{}\"", traps("TERM"));
    let dlock = scene.script(&[], &inner);
    scene.written("ready");
    dlock.signal(Signal::TERM);
    assert_eq!(dlock.ends_with(3).out, "got TERM\n");

    let inner = "exec $DLOCK run -n inner -- sh -c 'echo $$ > pid; exec sleep 1000'";
    let dlock = scene.script(&[], inner);
    let program = pid_of(&scene.written("pid"));
    dlock.kill();
    is_gone(program);
}

#[test]
fn a_stop_at_the_terminal_stops_both_and_they_go_on_together() {
    let scene = Scene::new();
    let script = "while ! test -e end; do echo >> beats; sleep 0.01; done; exit 5";
    let dlock = scene.script(&[], script);
    scene.written("beats");
    dlock.signal(Signal::TSTP);
    let pid = dlock.pid().as_raw_nonzero().get().cast_unsigned();
    eventually("it is stopped", SOON, || lock_tests::process::is_stopped(pid));
    let beats = || std::fs::metadata(scene.path("beats")).unwrap().len();
    let mut before = beats();
    // A beat may still be under way.
    eventually("the program is stopped", SOON, || {
        std::thread::sleep(std::time::Duration::from_millis(50));
        before == std::mem::replace(&mut before, beats())
    });
    std::fs::write(scene.path("end"), "").unwrap();
    dlock.signal(Signal::CONT);
    dlock.ends_with(5);
}

/// A server that takes connections and never answers.
fn silent() -> TcpListener {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.set_nonblocking(true).unwrap();
    listener
}

#[test]
fn a_signal_ends_the_opening_of_a_quorum() {
    let scene = Scene::new();
    for (command, signal, code) in
        [("run", Signal::INT, 130), ("elect", Signal::TERM, 143), ("run", Signal::HUP, 129)]
    {
        let mut repeats = 0..2;
        let (dlock, _quorum) = loop {
            let (dlock, quorum, took) = signalled_while_opening(&scene, command, signal);
            // On a busy machine the opening may be over before the signal comes.
            if took < Duration::from_millis(500) || repeats.next().is_none() {
                break (dlock, quorum);
            }
        };
        // Not the code of a store that cannot be reached, which has to wait for the nodes.
        dlock.ends_with(code);
    }
}

/// Nodes that never answer, and a connection to one of them.
type Silent = ([TcpListener; 3], Option<TcpStream>);

/// Starts this command over a quorum, and sends it a signal when it connects. Returns how long that took.
fn signalled_while_opening(
    scene: &Scene,
    command: &str,
    signal: Signal,
) -> (Dlock, Silent, Duration) {
    let nodes = [silent(), silent(), silent()];
    let hosts = nodes.each_ref().map(|node| node.local_addr().unwrap().to_string());
    let url = format!("redlock+redis://{}", hosts.join(","));
    let begin = Instant::now();
    let dlock = scene.start(&["--url", &url, command, "it", "--", "true"]);
    let mut connection = None;
    eventually("it connects", SOON, || {
        connection = nodes[0].accept().ok().map(|(stream, _)| stream);
        connection.is_some()
    });
    dlock.signal(signal);
    let took = begin.elapsed();
    (dlock, (nodes, connection), took)
}
