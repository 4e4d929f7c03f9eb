//! Signals that were ignored before `dlock` began, and the name as other tools take it.

use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};

use crate::program::{Scene, is_gone, pid_of};

#[test]
#[cfg(target_os = "linux")]
fn an_ignored_hangup_stays_ignored() {
    let scene = Scene::new();
    let program = "trap '' HUP; exec $DLOCK run it -- sh -c 'echo $$ > pid; exec sleep 60'";
    // The shell becomes `dlock`.
    let mut command = Command::new("sh");
    command.args(["-c", program]).current_dir(scene.path(""));
    command.env("LOCK_URL", scene.server.url()).env("DLOCK", env!("CARGO_BIN_EXE_dlock"));
    let mut dlock = command.spawn().unwrap();
    let program = pid_of(&scene.written("pid"));
    for pid in [Pid::from_child(&dlock), Pid::from_raw(program.cast_signed()).unwrap()] {
        kill_process(pid, Signal::HUP).unwrap();
    }
    kill_process(Pid::from_child(&dlock), Signal::TERM).unwrap();
    assert_eq!(dlock.wait().unwrap().code(), Some(128 + 15));
    is_gone(program);
}

#[test]
fn the_name_comes_first_as_with_other_tools() {
    let scene = Scene::new();
    let text = scene.start(&["run", "orders/42", "--", "sh", "-c", "echo $LOCK_NAME"]).ends_with(0);
    assert_eq!(text.out, "orders/42\n");
    scene.start(&["run", "a", "--name", "b", "--", "true"]).ends_with(2);
    scene.start(&["run", "a", "--permits", "2", "--", "true"]).ends_with(2);
}
