use std::io::ErrorKind;
use std::time::{Duration, Instant};

use lock_tests::chaos::{Deployment, Fault, How, Step};
use lock_tests::resp::Client;
use lock_tests::{Direction, eventually};

use super::{LIMIT, LONG, Scene};

/// A fault between the first worker and the second of three servers.
fn step(fault: Fault) -> Step {
    Step::new(fault, Duration::ZERO, LONG).servers(&[1], 3).workers(&[0])
}

fn scene(step: Step) -> Scene {
    let scene = Scene::of(Deployment::Quorum(3), vec![step]);
    scene.stage.rest(LIMIT).unwrap();
    scene
}

/// Through the link of a worker to a server.
fn client(scene: &Scene, worker: usize, server: usize, timeout: Duration) -> Client {
    let proxy = scene.stage.posts()[worker].links()[server].proxy();
    Client::connect(proxy.addr(), timeout).unwrap()
}

/// The time until the answer, if it comes soon enough.
fn ping(client: &mut Client) -> Option<Duration> {
    let begin = Instant::now();
    client.command(&["PING"]).ok().map(|_| begin.elapsed())
}

/// The shortest of three times until an answer: on a busy machine a single one may be long.
fn quickest(client: &mut Client) -> Duration {
    (0..3).map(|_| ping(client).unwrap()).min().unwrap()
}

/// All links but the faulty one.
fn others_are_well(scene: &Scene) {
    for worker in 0..2 {
        for server in (0..3).filter(|server| (worker, *server) != (0, 1)) {
            let took = quickest(&mut client(scene, worker, server, LIMIT));
            assert!(took < Duration::from_millis(500), "{took:?}");
        }
    }
}

#[test]
fn a_link_is_slow_and_the_others_are_not() {
    let by = Duration::from_millis(800);
    for (fault, least) in [(Fault::Delay, by), (Fault::Jitter, by / 4)] {
        let scene = scene(step(fault).how(How::By(by)));
        let mut client = client(&scene, 0, 1, LIMIT);
        ping(&mut client).unwrap();
        scene.during(|| {
            eventually("it is slow", LIMIT, || ping(&mut client).unwrap() >= least);
            others_are_well(&scene);
        });
        assert!(quickest(&mut client) < Duration::from_millis(500));
    }
}

#[test]
fn single_requests_straggle_until_the_fault_is_over() {
    let by = Duration::from_secs(2);
    let scene = scene(step(Fault::Straggle).how(How::By(by)));
    let mut client = client(&scene, 0, 1, LIMIT);
    ping(&mut client).unwrap();
    scene.during(|| {
        eventually("one is late", LIMIT, || ping(&mut client).unwrap() >= by / 2);
        others_are_well(&scene);
    });
    assert!(quickest(&mut client) < Duration::from_millis(500));
}

#[test]
fn a_silent_link_loses_nothing_and_a_half_open_one_does() {
    let silence = step(Fault::Silence).how(How::Towards(Direction::ToClient));
    for (step, is_kept) in [(silence, true), (step(Fault::HalfOpen), false)] {
        let scene = scene(step);
        let timeout = Duration::from_millis(150);
        let patient = || client(&scene, 0, 1, LIMIT);
        let mut waiting = None;
        scene.during(|| {
            eventually("there is no answer", LIMIT, || {
                ping(&mut client(&scene, 0, 1, timeout)).is_none()
            });
            let mut client = patient();
            client.send(&["PING"]).unwrap();
            waiting = Some(client);
            others_are_well(&scene);
        });
        let heard = waiting.unwrap().receive();
        assert_eq!(heard.is_ok(), is_kept, "{heard:?}");
        ping(&mut patient()).unwrap();
    }
}

#[test]
fn a_link_is_closed_over_and_over_or_for_good() {
    for (fault, is_open) in [(Fault::Reset, true), (Fault::Partition, false)] {
        let scene = scene(step(fault));
        let mut client = client(&scene, 0, 1, LIMIT);
        let addr = scene.stage.posts()[0].links()[1].proxy().addr();
        scene.during(|| {
            eventually("it is closed", LIMIT, || ping(&mut client).is_none());
            for _ in 0..3 {
                match Client::connect(addr, LIMIT) {
                    Ok(mut again) => {
                        assert!(is_open);
                        eventually("it is closed again", LIMIT, || ping(&mut again).is_none());
                    }
                    Err(error) => {
                        assert_eq!((error.kind(), is_open), (ErrorKind::ConnectionRefused, false));
                    }
                }
            }
            others_are_well(&scene);
        });
        ping(&mut Client::connect(addr, LIMIT).unwrap()).unwrap();
    }
}

#[test]
fn replies_are_cut_over_and_over_and_what_was_asked_for_is_done() {
    let scene = scene(step(Fault::CutReplies));
    let server = scene.stage.nodes()[1].server();
    scene.during(|| {
        for number in 1..=3 {
            let mut client = client(&scene, 0, 1, LIMIT);
            // The last request is executed without an answer.
            let mut answers = 0;
            let key = number.to_string();
            eventually("a reply is cut", LIMIT, || match client.command(&["INCR", &key]) {
                Ok(_) => {
                    answers += 1;
                    false
                }
                Err(_) => true,
            });
            assert_eq!(server.cli(&["GET", &key]).text(), (answers + 1).to_string());
        }
        others_are_well(&scene);
    });
}

#[test]
fn what_goes_over_a_link_dribbles_or_comes_twice() {
    let dribble = step(Fault::Dribble).how(How::By(Duration::from_millis(1)));
    let dribbling = scene(dribble);
    let mut slow = client(&dribbling, 0, 1, LIMIT);
    dribbling.during(|| {
        // Fourteen bytes there and seven back, a millisecond for each.
        let dribbles = || ping(&mut slow).unwrap() >= Duration::from_millis(18);
        eventually("bytes come one by one", LIMIT, dribbles);
        others_are_well(&dribbling);
    });
    let twice = scene(step(Fault::Duplicate));
    let mut client = client(&twice, 0, 1, LIMIT);
    let mut count = || client.command(&["INCR", "k"]).unwrap().int();
    twice.during(|| {
        eventually("it counts two", LIMIT, || count() + 2 == count());
    });
    assert_eq!(count() + 1, count());
}
