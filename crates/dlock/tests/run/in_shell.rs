//! Programs that a shell starts at a terminal, with job control.

use std::fs::{self, File};
use std::io::Write;

use lock_tests::process::is_stopped;
use lock_tests::{SOON, eventually, eventually_async};
use pty_process::blocking::Command;
use rustix::process::{Pid, Signal, kill_process};

use crate::program::{Scene, pid_of};
use crate::terminal::Terminal;

/// An interactive shell. The scripts that it runs are files, so that the texts that they print are not on its lines.
fn shell(scene: &Scene) -> Terminal {
    let command = Command::new("sh").arg("-i").current_dir(scene.path("")).env_remove("ENV");
    let command = command.env("LOCK_URL", scene.server.url()).env("PS1", "> ");
    let terminal = Terminal::start(command.env("DLOCK", env!("CARGO_BIN_EXE_dlock")));
    terminal.shows(&["> "]);
    terminal
}

/// A script that prints what it reads.
const READS: &str = "echo $$ > pid; echo rea''dy; read line; echo got $line; exit 3";

/// A script that waits until a line is written into the pipe `gate`. It starts no program meanwhile: some shells cannot
/// be stopped while they do.
const WAITS: &str =
    "mkfifo gate; echo $$ > pid; echo on''e; read line < gate; echo > ended; exit 3";

/// As [`WAITS`], before another script.
const WAITS_FIRST: &str = "mkfifo gate; echo $$ > started; read line < gate; echo > ended";

/// Lets [`WAITS`] or [`WAITS_FIRST`] go on.
fn open_gate(scene: &Scene) {
    let mut gate = File::options().read(true).write(true).open(scene.path("gate")).unwrap();
    gate.write_all(b"\n").unwrap();
    scene.written("ended");
}

fn stands_still(pid: u32) {
    eventually("the program is stopped", SOON, || is_stopped(pid));
}

fn goes_on(pid: u32) {
    eventually("the program goes on", SOON, || !is_stopped(pid));
}

/// The job comes to the foreground, and its program goes on.
fn comes_forward(terminal: &Terminal, program: u32) {
    terminal.press("fg\n");
    goes_on(program);
}

/// The program of [`READS`] gets what is typed.
fn hears_keys(terminal: &Terminal) {
    terminal.press("hello\n");
    terminal.shows(&["got hello"]);
}

/// The shell prints the exit code of the scripts, and ends.
fn ends_with_3(mut terminal: Terminal) {
    terminal.shows(&["code=3"]);
    terminal.press("exit\n");
    assert_eq!(terminal.end().0.code(), Some(0));
}

#[test]
fn a_stopped_run_goes_on_in_the_foreground() {
    let scene = Scene::new();
    fs::write(scene.path("script"), READS).unwrap();
    let terminal = shell(&scene);
    terminal.press("$DLOCK run it -- sh script\n");
    terminal.shows(&["ready"]);
    let program = pid_of(&scene.written("pid"));
    for round in 1..=3 {
        terminal.press("\u{1a}");
        stands_still(program);
        // The shell has its terminal back.
        terminal.press(&format!("echo $(({round} * 111)) is back\n"));
        terminal.shows(&[&format!("{} is back", round * 111)]);
        comes_forward(&terminal, program);
    }
    hears_keys(&terminal);
    terminal.press("echo code=$?\n");
    ends_with_3(terminal);
}

#[test]
fn a_stopped_run_goes_on_in_the_background() {
    let scene = Scene::new();
    fs::write(scene.path("script"), WAITS).unwrap();
    let terminal = shell(&scene);
    terminal.press("$DLOCK run it -- sh script\n");
    let program = pid_of(&scene.written("pid"));
    terminal.press("\u{1a}");
    stands_still(program);
    terminal.press("bg\n");
    open_gate(&scene);
    terminal.press("wait %1; echo code=$?\n");
    ends_with_3(terminal);
}

#[test]
fn a_run_in_the_background_gets_the_terminal_when_it_comes_to_the_foreground() {
    let scene = Scene::new();
    fs::write(scene.path("script"), READS).unwrap();
    let terminal = shell(&scene);
    terminal.press("$DLOCK run it -- sh script & echo $! > job\n");
    let program = pid_of(&scene.written("pid"));
    // The program reads, and may not. So the whole job stops.
    stands_still(program);
    stands_still(pid_of(&scene.written("job")));
    comes_forward(&terminal, program);
    hears_keys(&terminal);
    terminal.press("echo code=$?\n");
    ends_with_3(terminal);
}

#[test]
fn a_run_that_comes_to_the_foreground_before_dlock_looks_at_its_program_goes_on() {
    let scene = Scene::new();
    fs::write(scene.path("script"), format!("{WAITS_FIRST}; {READS}")).unwrap();
    let terminal = shell(&scene);
    terminal.press("$DLOCK run it -- sh script & echo $! > job\n");
    scene.written("started");
    let job = pid_of(&scene.written("job"));
    // `dlock` sees the stop of its program only when it is in the foreground already.
    kill_process(Pid::from_raw(job.cast_signed()).unwrap(), Signal::STOP).unwrap();
    stands_still(job);
    open_gate(&scene);
    let program = pid_of(&scene.written("pid"));
    stands_still(program);
    comes_forward(&terminal, program);
    hears_keys(&terminal);
    terminal.press("echo code=$?\n");
    ends_with_3(terminal);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_lease_has_ended_is_killed_instead_of_going_on() {
    let scene = Scene::new();
    fs::write(scene.path("script"), READS).unwrap();
    let mut terminal = shell(&scene);
    terminal.press("$DLOCK run it --ttl 4s -- sh script\n");
    terminal.shows(&["ready"]);
    terminal.press("\u{1a}");
    stands_still(pid_of(&scene.written("pid")));
    let is_free = async || scene.inspect("it").await.holding == 0;
    eventually_async("the lease has ended", SOON, is_free).await;
    terminal.press("fg\n");
    terminal.shows(&["the lease on it is lost"]);
    terminal.press("echo code=$?\n");
    terminal.shows(&["code=76"]);
    terminal.press("exit\n");
    assert_eq!(terminal.end().0.code(), Some(0));
}

/// As `less` does: it reads the output, and takes its keys from the terminal.
const PAGER: &str =
    "read line; echo page $line; read key < /dev/tty; echo key $key; cat > /dev/null; echo le''ft";

#[test]
fn in_a_pipe_the_other_program_gets_the_keys() {
    let scene = Scene::new();
    fs::write(scene.path("script"), WAITS).unwrap();
    fs::write(scene.path("pager"), PAGER).unwrap();
    let mut terminal = shell(&scene);
    terminal.press("$DLOCK run it -- sh script | sh pager\n");
    terminal.shows(&["page one"]);
    let program = pid_of(&scene.written("pid"));
    // The whole pipe stops, and goes on.
    terminal.press("\u{1a}");
    stands_still(program);
    comes_forward(&terminal, program);
    terminal.press("space\n");
    terminal.shows(&["key space"]);
    open_gate(&scene);
    terminal.shows(&["left"]);
    terminal.press("exit\n");
    assert_eq!(terminal.end().0.code(), Some(0));
}

#[test]
fn in_a_pipe_the_program_gets_the_keys_that_it_asks_for() {
    let scene = Scene::new();
    fs::write(scene.path("script"), READS).unwrap();
    let mut terminal = shell(&scene);
    terminal.press("$DLOCK run it -- sh script | cat\n");
    terminal.shows(&["ready"]);
    let program = pid_of(&scene.written("pid"));
    goes_on(program);
    // The whole pipe stops, and goes on.
    terminal.press("\u{1a}");
    stands_still(program);
    terminal.press("echo $((1 * 111)) is back\n");
    terminal.shows(&["111 is back"]);
    comes_forward(&terminal, program);
    hears_keys(&terminal);
    terminal.press("exit\n");
    assert_eq!(terminal.end().0.code(), Some(0));
}

#[test]
fn a_key_interrupts_a_pipe_with_its_program() {
    let scene = Scene::new();
    let script = "trap 'echo > interrupted; exit 6' INT; echo o''ne; while :; do sleep 0.01; done";
    fs::write(scene.path("script"), script).unwrap();
    fs::write(scene.path("pager"), PAGER).unwrap();
    let mut terminal = shell(&scene);
    terminal.press("$DLOCK run it -- sh script | sh pager\n");
    terminal.shows(&["page one"]);
    terminal.press("\u{3}");
    scene.written("interrupted");
    terminal.press("exit\n");
    terminal.end();
}
