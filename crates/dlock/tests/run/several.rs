//! Several programs that want one lock.

use lock_tests::{SOON, eventually, eventually_async};

use crate::program::Scene;

#[test]
fn of_sixteen_programs_one_runs_at_a_time() {
    const PROGRAMS: usize = 16;
    let scene = Scene::new();
    std::fs::write(scene.path("count"), "0\n").unwrap();
    let script = "mkdir inside || exit 9; echo $(($(cat count) + 1)) > count; rmdir inside";
    let all: Vec<_> = (0..PROGRAMS)
        .map(|number| {
            // Half of them have the label of another host.
            let label = format!("it@host-{}", number % 2);
            let run = ["--label", &label, "run", "-n", "it", "--", "sh", "-c", script];
            scene.start(&run)
        })
        .collect();
    for dlock in all {
        dlock.ends_with(0);
    }
    assert_eq!(scene.written("count"), format!("{PROGRAMS}\n"));
}

/// The lease of a waiter is short until its first renewal. With this ttl, the program would get TERM before that
/// renewal.
#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_waited_runs_to_its_end() {
    let scene = Scene::new();
    let guard = scene.locks().await.lock("it").await.unwrap();
    let waiting = scene.script(&["--ttl", "6s"], "sleep 1.5; exit 7");
    eventually_async("the program waits", SOON, async || scene.inspect("it").await.waiting == 1)
        .await;
    drop(guard);
    waiting.ends_with(7);
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_share_a_lock_and_a_writer_waits() {
    let scene = Scene::new();
    let script = "echo > $0; while ! test -e end; do sleep 0.01; done";
    let reader =
        |name: &str| scene.start(&["run", "-n", "it", "--shared", "--", "sh", "-c", script, name]);
    let readers = [reader("one"), reader("two")];
    scene.written("one");
    scene.written("two");
    scene.script(&["--try"], "exit 0").ends_with(75);
    let writer = scene.script(&[], "test -e end");
    eventually_async("the writer waits", SOON, async || scene.inspect("it").await.waiting == 1)
        .await;
    std::fs::write(scene.path("end"), "").unwrap();
    for reader in readers {
        reader.ends_with(0);
    }
    writer.ends_with(0);
}

#[test]
fn a_semaphore_lets_so_many_programs_run() {
    let scene = Scene::new();
    let script = "echo > $0; while ! test -e end; do sleep 0.01; done";
    let run = |options: &[&str], name: &str| {
        let begin = ["run", "--semaphore", "it", "--permits", "2"];
        scene.start(&[&begin, options, &["--", "sh", "-c", script, name]].concat())
    };
    let two = [run(&[], "one"), run(&[], "two")];
    scene.written("one");
    scene.written("two");
    run(&["--try"], "three").ends_with(75);
    std::fs::write(scene.path("end"), "").unwrap();
    for it in two {
        it.ends_with(0);
    }
    eventually("there is a permit", SOON, || {
        let begin = ["run", "--semaphore", "it", "--permits", "2", "--try", "--", "true"];
        scene.command(&begin).status().unwrap().success()
    });
}
