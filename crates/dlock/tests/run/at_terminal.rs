//! Programs that use the terminal.

use crate::program::Scene;
use crate::terminal::Terminal;

fn run(scene: &Scene, script: &str) -> Terminal {
    Terminal::run(&scene.server.url(), &["run", "-n", "it", "--", "sh", "-c", script])
}

#[test]
fn the_program_reads_from_the_terminal() {
    let scene = Scene::new();
    let mut terminal = run(&scene, "echo ready; read line; echo got $line; exit 3");
    terminal.shows(&["ready"]);
    terminal.press("hello\n");
    terminal.shows(&["got hello"]);
    assert_eq!(terminal.end().0.code(), Some(3));
}

#[test]
fn a_key_interrupts_the_program_and_dlock_reports_how_it_ended() {
    let scene = Scene::new();
    let mut terminal = run(
        &scene,
        "trap 'echo interrupted; exit 6' INT; echo ready; while :; do sleep 0.01; done",
    );
    terminal.shows(&["ready"]);
    terminal.press("\u{3}");
    terminal.shows(&["interrupted"]);
    assert_eq!(terminal.end().0.code(), Some(6));
}

/// No shell watches `dlock` here, so nothing could let it go on.
#[test]
fn a_key_that_stops_programs_stops_none_without_a_shell() {
    let scene = Scene::new();
    let mut terminal = run(&scene, "echo ready; read line; echo got $line");
    terminal.shows(&["ready"]);
    terminal.press("\u{1a}");
    terminal.press("again\n");
    terminal.shows(&["got again"]);
    assert_eq!(terminal.end().0.code(), Some(0));
}

#[test]
fn nested_programs_read_from_the_terminal() {
    let scene = Scene::new();
    let inner = format!(
        "{} run -n inner -- sh -c 'read line; echo got $line'; read line; echo then $line",
        env!("CARGO_BIN_EXE_dlock")
    );
    let mut terminal = run(&scene, &inner);
    terminal.press("one\n");
    terminal.shows(&["got one"]);
    terminal.press("two\n");
    terminal.shows(&["then two"]);
    assert_eq!(terminal.end().0.code(), Some(0));
}

#[test]
fn a_program_in_the_background_takes_no_terminal() {
    let scene = Scene::new();
    let job = format!("{} run -n job -- true", env!("CARGO_BIN_EXE_dlock"));
    // With job control, as in a shell for people.
    let mut terminal =
        run(&scene, &format!("set -m; {job} & wait; echo ready; read line; echo got $line"));
    terminal.shows(&["ready"]);
    terminal.press("hello\n");
    terminal.shows(&["got hello"]);
    assert_eq!(terminal.end().0.code(), Some(0));
}
