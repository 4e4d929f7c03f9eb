use std::time::Duration;

use lock_tests::chaos::history::{Deed, read};
use lock_tests::chaos::{Deployment, Fault, How, Mischief, Step};
use lock_tests::{eventually, process};

use super::{LIMIT, LONG, Scene};

fn step(fault: Fault, lasts: Duration) -> Step {
    Step::new(fault, Duration::ZERO, lasts).workers(&[1])
}

fn scene(step: Step) -> Scene {
    Scene::of(Deployment::Redis, vec![step])
}

#[test]
fn a_killed_worker_is_followed_by_another() {
    let scene = scene(step(Fault::KillWorker, LONG));
    let posts = scene.stage.posts();
    let (other, victim) = (posts[0].pid(), posts[1].pid());
    scene.during(|| {
        eventually("it is gone", LIMIT, || !process::is_alive(victim));
        assert!(process::is_alive(other));
    });
    assert!(posts[1].is_alive());
    assert_ne!(posts[1].pid(), victim);
    assert_eq!([posts[0].clients(), posts[1].clients()], [["w0"], ["w1-2"]]);
    assert_eq!(scene.stage.stood(), []);
}

#[test]
fn a_stopped_worker_goes_on_and_it_is_known_when_it_stood_still() {
    let scene = scene(step(Fault::StopWorker, LONG));
    let pid = scene.stage.posts()[1].pid();
    let carried = scene.during(|| {
        eventually("it stands still", LIMIT, || process::is_stopped(pid));
    });
    eventually("it goes on", LIMIT, || !process::is_stopped(pid));
    let stood = scene.stage.stood();
    assert_eq!(stood.len(), 1);
    assert_eq!(stood[0].client, "w1");
    assert!(carried[0].began <= stood[0].from && stood[0].until <= carried[0].healed);
}

#[test]
fn an_executor_is_blocked_for_as_long_as_was_said() {
    let time = Duration::from_millis(300);
    let scene = scene(step(Fault::BlockExecutor, time));
    let carried = scene.until_over();
    // The worker has said that it was.
    assert_eq!(scene.stage.posts()[1].complaints(), [""; 0]);
    assert!(carried[0].healed.saturating_duration_since(carried[0].began) >= time);
    let stood = scene.stage.stood();
    assert_eq!((stood[0].client.as_str(), stood[0].from + time), ("w1", stood[0].until));
}

#[test]
fn tasks_and_runtimes_are_ended() {
    let abort = step(Fault::AbortTasks, Duration::ZERO).how(How::Some(1));
    for step in [abort, step(Fault::Collapse, Duration::ZERO)] {
        let collapses = step.fault == Fault::Collapse;
        let scene = scene(step);
        assert!(scene.until_over()[0].effective);
        let events = read(scene.folder.path()).unwrap();
        let has = events.iter().any(|event| event.client == "w1" && event.deed == Deed::Collapse);
        assert_eq!(has, collapses);
        // The worker has said that it was done.
        assert!(scene.stage.posts().iter().all(|post| post.complaints().is_empty()));
    }
}

#[test]
fn faults_of_one_worker_at_once_end_one_by_one() {
    let at =
        |fault, begins, lasts| Step::new(fault, Duration::from_millis(begins), lasts).workers(&[1]);
    let scene = Scene::of(
        Deployment::Redis,
        vec![
            at(Fault::StopWorker, 0, LONG),
            at(Fault::KillWorker, 100, Duration::from_millis(100)),
            at(Fault::StopWorker, 50, Duration::from_millis(100)),
        ],
    );
    let first = scene.stage.posts()[1].pid();
    scene.during(|| {
        // A worker that replaces one that stands still stands still as well.
        eventually("the next stands still", LIMIT, || {
            let pid = scene.stage.posts()[1].pid();
            pid != first && process::is_stopped(pid)
        });
    });
    eventually("it goes on", LIMIT, || !process::is_stopped(scene.stage.posts()[1].pid()));
    let clients: Vec<_> = scene.stage.stood().into_iter().map(|it| it.client).collect();
    assert_eq!(clients, ["w1", "w1-2"]);
}

#[test]
fn the_memory_fails_in_every_way_and_forgets() {
    for mischief in Mischief::ALL {
        let fault = Step::new(Fault::StoreFails, Duration::ZERO, Duration::from_millis(100));
        let scene = Scene::of(Deployment::Memory, vec![fault.how(How::Store(mischief))]);
        assert!(scene.until_over()[0].effective);
        assert_eq!(scene.stage.posts()[0].complaints(), [""; 0]);
    }
    let forget = Step::new(Fault::StoreForgets, Duration::ZERO, Duration::ZERO);
    let block = step(Fault::BlockExecutor, Duration::from_millis(100));
    let scene = Scene::of(Deployment::Memory, vec![forget, block]);
    assert!(scene.until_over().iter().all(|it| it.effective));
    let post = &scene.stage.posts()[0];
    assert_eq!(post.complaints(), [""; 0]);
    // One of the clients, and not the other.
    assert_eq!(scene.stage.stood()[0].client, "m.1");
    assert_eq!(post.clients(), ["m.0", "m.1"]);
}
