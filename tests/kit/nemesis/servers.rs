use std::io::ErrorKind;
use std::time::{Duration, Instant};

use lock_tests::chaos::{Deployment, Fault, How, Rights, Step};
use lock_tests::resp::{Client, Value};
use lock_tests::{RedisServer, SOON, eventually, process};

use super::{LIMIT, LONG, Scene};

/// A fault of the only server, for as long as the test observes.
fn step(fault: Fault) -> Step {
    Step::new(fault, Duration::ZERO, LONG).servers(&[0], 1)
}

fn brief(fault: Fault) -> Step {
    Step::new(fault, Duration::ZERO, Duration::from_millis(200)).servers(&[0], 1)
}

fn server(scene: &Scene) -> &RedisServer {
    scene.stage.nodes()[0].server()
}

/// A connection as one of the workers.
fn as_worker(scene: &Scene) -> Client {
    let mut client = Client::connect(server(scene).addr(), LIMIT).unwrap();
    assert_eq!(client.command(&["AUTH", "locks", "chaos"]).unwrap().text(), "OK");
    client
}

fn is_down(server: &RedisServer) -> bool {
    server.try_cli(&["PING"]).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}

#[test]
fn a_killed_server_is_down_and_comes_back_as_it_was_or_with_nothing() {
    for (fault, left) in [(Fault::KillKept, "v"), (Fault::KillEmpty, "")] {
        let scene = Scene::quiet(vec![step(fault)]);
        let server = server(&scene);
        server.cli(&["SET", "lock:k", "v"]);
        scene.during(|| {
            eventually("the server is down", LIMIT, || is_down(server));
        });
        let found = server.cli(&["GET", "lock:k"]);
        assert_eq!(if found.is_nil() { String::new() } else { found.text() }, left);
    }
}

#[test]
fn a_server_comes_back_with_what_it_had_a_while_before_it_was_killed() {
    let by = Duration::from_secs(2);
    let scene = Scene::quiet(vec![step(Fault::KillStale).how(How::By(by))]);
    let server = server(&scene);
    let count = |number: i64| server.try_cli(&["INCRBY", "count", &number.to_string()]);
    let first = count(1).unwrap().int();
    let mut last = first;
    scene.during(|| {
        let begin = Instant::now();
        while let Ok(number) = count(1) {
            last = number.int();
            assert!(begin.elapsed() < LIMIT, "it is not killed");
        }
    });
    let after = count(0).unwrap().int();
    assert!(first <= after && after < last, "{first} {after} {last}");
}

#[test]
fn a_stopped_server_stands_still_until_it_goes_on() {
    let scene = Scene::quiet(vec![step(Fault::StopServer)]);
    let pid = server(&scene).pid();
    scene.during(|| {
        eventually("it stands still", LIMIT, || process::is_stopped(pid));
    });
    eventually("it goes on", LIMIT, || !process::is_stopped(pid));
    assert_eq!(server(&scene).cli(&["PING"]).text(), "PONG");
}

#[test]
fn a_flush_leaves_nothing() {
    let flush = Step::new(Fault::Flush, Duration::ZERO, Duration::ZERO).servers(&[0], 1);
    let scene = Scene::quiet(vec![flush]);
    server(&scene).cli(&["SET", "lock:k", "v"]);
    assert!(scene.until_over()[0].effective);
    assert!(server(&scene).keys("*").is_empty());
}

#[test]
fn a_server_evicts_some_keys_and_takes_new_ones_afterwards() {
    let scene = Scene::quiet(vec![brief(Fault::Evict)]);
    let server = server(&scene);
    let fill = "for i = 1, 500 do redis.call('SET', 'lock:' .. i, i) end";
    server.cli(&["EVAL", fill, "0"]);
    assert!(scene.until_over()[0].effective);
    assert!(server.keys("lock:*").len() < 500);
    assert_eq!(server.cli(&["SET", "lock:k", "v"]).text(), "OK");
    for (name, value) in [("maxmemory", "0"), ("maxmemory-policy", "noeviction")] {
        assert_eq!(server.cli(&["CONFIG", "GET", name]).array()[1].text(), value);
    }
}

#[test]
fn a_server_without_memory_keeps_what_it_has_and_takes_nothing_new() {
    let scene = Scene::quiet(vec![step(Fault::OutOfMemory)]);
    let server = server(&scene);
    server.cli(&["SET", "old", "v", "PX", "60000"]);
    scene.during(|| {
        let refuses = || matches!(server.cli(&["SET", "new", "v"]), Value::Error(_));
        eventually("it refuses", LIMIT, refuses);
        assert!(server.cli(&["SET", "new", "v"]).error().starts_with("OOM"));
        assert_eq!(server.cli(&["PEXPIRE", "old", "90000"]).int(), 1);
        assert_eq!(server.cli(&["GET", "old"]).text(), "v");
    });
    assert_eq!(server.cli(&["SET", "new", "v"]).text(), "OK");
}

#[test]
fn scripts_are_forgotten_over_and_over() {
    let scene = Scene::quiet(vec![step(Fault::FlushScripts)]);
    let server = server(&scene);
    scene.during(|| {
        for _ in 0..3 {
            let digest = server.cli(&["SCRIPT", "LOAD", "return 1"]).text();
            let run = || server.cli(&["EVALSHA", &digest, "0"]);
            eventually("it has forgotten the script", LIMIT, || matches!(run(), Value::Error(_)));
            assert!(run().error().starts_with("NOSCRIPT"));
        }
    });
}

#[test]
fn connections_are_closed_over_and_over() {
    let scene = Scene::quiet(vec![step(Fault::KillClients)]);
    scene.during(|| {
        for _ in 0..3 {
            let mut client = Client::connect(server(&scene).addr(), LIMIT).unwrap();
            let closed = || client.command(&["PING"]).is_err();
            eventually("the connection is closed", LIMIT, closed);
        }
    });
}

#[test]
fn a_paused_server_answers_no_client_or_no_writer() {
    for all in [true, false] {
        let lasts = Duration::from_secs(3);
        let pause = Step::new(Fault::PauseClients, Duration::ZERO, lasts).servers(&[0], 1);
        let scene = Scene::quiet(vec![pause.how(How::AllClients(all))]);
        let addr = server(&scene).addr();
        let is_answered = |command: &[&str]| {
            let mut client = Client::connect(addr, Duration::from_millis(150)).unwrap();
            client.command(command).is_ok()
        };
        eventually("it is answered", LIMIT, || is_answered(&["SET", "k", "v"]));
        let begin = Instant::now();
        scene.during(|| {
            eventually("no write is answered", LIMIT, || !is_answered(&["SET", "k", "v"]));
            eventually("reads are as they are to be", LIMIT, || is_answered(&["GET", "k"]) != all);
        });
        eventually("all is answered", LIMIT, || is_answered(&["SET", "k", "v"]));
        assert!(begin.elapsed() < lasts + SOON, "{:?}", begin.elapsed());
    }
}

/// The server delays what gives the rights back.
#[test]
fn rights_that_come_back_during_a_pause_are_there_after_it() {
    let millis = Duration::from_millis;
    let revoke = Step::new(Fault::RevokeRights, Duration::ZERO, millis(400)).servers(&[0], 1);
    let pause = Step::new(Fault::PauseClients, millis(200), millis(600)).servers(&[0], 1);
    let scene = Scene::quiet(vec![
        revoke.how(How::Without(Rights::Messages)),
        pause.how(How::AllClients(true)),
    ]);
    scene.until_over();
    let reply = as_worker(&scene).command(&["PUBLISH", "lock:k", "x"]).unwrap();
    assert_eq!(reply, Value::Int(0));
}

#[test]
fn rights_are_taken_from_the_workers_and_given_back() {
    let script = "return redis.call('PEXPIRE', KEYS[1], 60000)";
    for rights in Rights::ALL {
        let scene = Scene::quiet(vec![step(Fault::RevokeRights).how(How::Without(rights))]);
        server(&scene).cli(&["SET", "lock:k", "v"]);
        let digest = server(&scene).cli(&["SCRIPT", "LOAD", script]).text();
        let refused = || {
            let mut client = as_worker(&scene);
            let reply = match rights {
                Rights::Messages => client.command(&["PUBLISH", "lock:k", "x"]),
                _ => client.command(&["EVALSHA", &digest, "1", "lock:k"]),
            };
            match reply.unwrap() {
                Value::Error(error) => {
                    // The first is about the command, the others about a command in a script.
                    let told = error.starts_with("NOPERM")
                        || ["can't run this command", "ACL failure in script"]
                            .iter()
                            .any(|words| error.contains(words));
                    assert!(told, "{error}");
                    true
                }
                _ => false,
            }
        };
        assert!(!refused());
        scene.during(|| {
            eventually("it is refused", LIMIT, refused);
        });
        assert!(!refused(), "{rights:?}");
    }
}

#[test]
fn a_clock_jumps_and_jumps_back() {
    const HOUR: i64 = 3_600_000;
    let scene = Scene::quiet(vec![step(Fault::ClockJump).how(How::Jump(-HOUR))]);
    let server = server(&scene);
    server.cli(&["SET", "k", "v", "PX", "60000"]);
    let left = || server.cli(&["PTTL", "k"]).int();
    scene.during(|| {
        eventually("the key lives longer", LIMIT, || left() > HOUR);
    });
    assert!((1..=60_000).contains(&left()));
}

#[test]
fn a_clock_gains_until_it_goes_right_and_keeps_what_it_has_gained() {
    // Far more than leases allow for, so that it shows.
    let scene = Scene::quiet(vec![step(Fault::ClockRate).how(How::Rate(2_000_000))]);
    let server = server(&scene);
    server.cli(&["SET", "k", "v", "PX", "60000"]);
    let (begin, left) = (Instant::now(), || server.cli(&["PTTL", "k"]).int());
    scene.during(|| {
        eventually("the key lives shorter", LIMIT, || {
            60_000 - left() > 2 * begin.elapsed().as_millis() as i64 + 400
        });
    });
    let (begin, then) = (Instant::now(), left());
    eventually("some time has passed", LIMIT, || begin.elapsed() > Duration::from_millis(300));
    let gone = then - left();
    assert!(gone < 2 * begin.elapsed().as_millis() as i64, "{gone}");
}

#[test]
fn a_fault_of_some_servers_is_none_of_the_others() {
    let step = Step::new(Fault::KillEmpty, Duration::ZERO, LONG).servers(&[0, 2], 3);
    let scene = Scene::of(Deployment::Quorum(3), vec![step]);
    let down = || scene.stage.nodes().iter().map(|node| is_down(node.server()));
    scene.during(|| {
        eventually("two are down", LIMIT, || down().eq([true, false, true]));
    });
    assert!(down().eq([false; 3]));
}

#[test]
fn faults_of_one_server_at_once_end_one_by_one() {
    let millis = Duration::from_millis;
    let at = |fault, begins, lasts| Step::new(fault, millis(begins), lasts).servers(&[0], 1);
    let scene = Scene::quiet(vec![
        at(Fault::StopServer, 0, LONG),
        // Neither command can be sent now.
        at(Fault::OutOfMemory, 100, LONG),
        at(Fault::KillEmpty, 200, millis(200)),
        at(Fault::KillKept, 300, millis(300)),
        at(Fault::StopServer, 250, millis(100)),
    ]);
    let server = server(&scene);
    server.cli(&["SET", "k", "v"]);
    let first = server.pid();
    scene.during(|| {
        eventually("it is down", LIMIT, || !process::is_alive(first));
        // The server comes back when the later of both kills ends, and stands still at once.
        eventually("it is up, and stands still", LIMIT, || {
            std::panic::catch_unwind(|| server.pid()).is_ok_and(process::is_stopped)
        });
    });
    assert_eq!(server.cli(&["PING"]).text(), "PONG");
    assert!(server.cli(&["GET", "k"]).is_nil());
    assert_eq!(server.cli(&["SET", "k", "v"]).text(), "OK");
}
