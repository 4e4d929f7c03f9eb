//! Exit codes, arguments and the environment of the program.

use std::process::Command;

use lock_any::lock_sync::LockGuard;
use lock_tests::{SOON, eventually};

use crate::program::Scene;

#[test]
fn the_code_is_that_of_the_program() {
    let scene = Scene::new();
    for (script, code) in
        [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137), ("kill -TERM $$", 143)]
    {
        scene.script(&[], script).ends_with(code);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_is_not_free_has_codes_of_its_own() {
    let scene = Scene::new();
    let guard = scene.locks().await.lock("it").await.unwrap();
    let busy = scene.script(&["--try"], "echo never").ends_with(75);
    assert_eq!((busy.out.as_str(), busy.err.as_str()), ("", "dlock: it is not free\n"));
    scene.script(&["--try", "--busy-code", "3"], "echo never").ends_with(3);
    let late = scene.script(&["--timeout", "2s"], "echo never").ends_with(124);
    assert_eq!((late.out.as_str(), late.err.as_str()), ("", "dlock: it was not free in time\n"));
    scene.script(&["--timeout", "2s", "--timeout-code", "4"], "echo never").ends_with(4);
    LockGuard::release(guard).await.unwrap();
    scene.script(&["--try"], "exit 9").ends_with(9);
}

#[test]
fn a_store_that_cannot_be_reached_has_a_code_of_its_own() {
    let scene = Scene::new();
    let url = scene.server.url();
    drop(scene);
    let scene = Scene::new();
    for (options, code) in [(&["--try"][..], 69), (&["--try", "--backend-code", "8"], 8)] {
        let options = [&["--url", &url, "run", "-n", "it"], options, &["--", "true"]].concat();
        let text = scene.start(&options).ends_with(code);
        assert!(text.err.starts_with("dlock: ") && text.err.lines().count() == 1, "{text:?}");
    }
}

#[test]
fn a_program_that_cannot_be_run_has_the_codes_of_shells() {
    let scene = Scene::new();
    let run = |program| scene.start(&["run", "-n", "it", "--", program]);
    assert!(run("no-such-program").ends_with(127).err.contains("cannot run no-such-program"));
    assert!(run("/etc/passwd").ends_with(126).err.contains("cannot run /etc/passwd"));
}

#[test]
fn a_mistake_is_explained_on_one_line_and_nothing_runs() {
    let scene = Scene::new();
    for (args, part) in [
        (&["run", "--", "true"][..], "--name <NAME>|--semaphore <SEMAPHORE>"),
        (&["run", "-n", "it"], "<PROGRAM>"),
        (&["run", "--semaphore", "it", "--", "true"], "--permits <K>"),
        (&["run", "-n", "it", "--permits", "2", "--", "true"], "--permits"),
        (&["run", "-n", "it", "--try", "--timeout", "1s", "--", "true"], "--timeout"),
        (&["run", "-n", "it", "--ttl", "soon", "--", "true"], "500ms, 30s, 5m or 2h"),
        (&["run", "-n", "it", "--grace", "20s", "--", "true"], "at most 13.5s"),
        (&["--url", "http://it", "run", "-n", "it", "--", "true"], "redis://"),
    ] {
        let text = scene.start(args).ends_with(2);
        assert!(text.err.contains(part) && text.err.lines().count() == 1, "{args:?}: {text:?}");
    }
    assert_eq!(scene.server.keys("*"), [""; 0]);
}

#[test]
fn the_program_knows_its_lock() {
    let scene = Scene::new();
    let script = "echo $LOCK_NAME $LOCK_TOKEN; test $LOCK_DEADLINE_MS -gt $(date +%s)000 && cat $LOCK_FILE; echo";
    let [first, second] = [(); 2].map(|()| scene.script(&[], script).ends_with(0).out);
    let token =
        |text: &str| text.lines().next().unwrap().strip_prefix("it ").unwrap().parse::<u64>();
    assert!(token(&first).unwrap() < token(&second).unwrap(), "{first} {second}");
    assert!(first.lines().nth(1).unwrap().parse::<u64>().is_ok(), "{first}");
}

#[test]
fn the_program_knows_its_lock_whatever_it_holds() {
    let scene = Scene::new();
    let script = "echo $LOCK_NAME; test $LOCK_TOKEN -gt 0 && test $LOCK_DEADLINE_MS -gt $(date +%s)000 \
        && test $(cat $LOCK_FILE) -ge $LOCK_DEADLINE_MS";
    for args in [
        &["elect", "it"][..],
        &["run", "it", "--shared"],
        &["run", "--semaphore", "it", "--permits", "2"],
    ] {
        let text = scene.start(&[args, &["--", "sh", "-c", script]].concat()).ends_with(0);
        assert_eq!(text.out, "it\n", "{args:?}");
    }
}

#[test]
fn the_file_has_the_deadline_of_the_lease_and_goes_with_it() {
    let scene = Scene::new();
    let script = "echo $LOCK_FILE > name
        while ! test -e end; do cat $LOCK_FILE > new; echo >> new; mv new deadline; done";
    let dlock = scene.script(&["--ttl", "10s"], script);
    let file = scene.written("name");
    let first = scene.written("deadline");
    eventually("the file is renewed", SOON, || scene.written("deadline").trim() > first.trim());
    std::fs::write(scene.path("end"), "").unwrap();
    dlock.ends_with(0);
    assert!(!std::path::Path::new(file.trim()).exists());
}

/// What a command prints without a store.
fn printed(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_dlock")).args(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

const COMMANDS: [&str; 12] = [
    "run",
    "elect",
    "wait-leader",
    "list",
    "inspect",
    "release",
    "destroy",
    "init",
    "doctor",
    "top",
    "bench",
    "completions",
];

#[test]
fn completions_and_the_man_page_know_every_command_and_need_no_store() {
    for (args, part) in [
        (&["completions", "bash"][..], "_dlock()"),
        // After the name of the program, zsh completes as that program does.
        (&["completions", "zsh"], "_cmdambivalent"),
        (&["completions", "zsh"], "#compdef dlock"),
        (&["completions", "fish"], "complete -c dlock"),
        (&["man"], ".TH dlock"),
    ] {
        let text = printed(args);
        assert!(text.contains(part), "{args:?}");
        // A man page writes a hyphen with a backslash.
        let lacks = |name: &&str| !text.replace('\\', "").contains(*name);
        let lacking: Vec<_> = COMMANDS.iter().filter(|name| lacks(name)).collect();
        assert!(lacking.is_empty(), "{args:?}: {lacking:?}");
    }
}

/// `.ci/run` is a script of bash, so every machine that runs these tests has bash.
#[test]
fn bash_completes_commands_options_and_values() {
    let script = r#"eval "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
        _dlock dlock "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"; echo "${COMPREPLY[*]}""#;
    let completions = printed(&["completions", "bash"]);
    for (words, expected) in [
        (&["ru"][..], "run"),
        (&["bench", "l"], "load"),
        (&["run", "--tt"], "--ttl"),
        (&["run", "--on-lost", ""], "kill warn"),
    ] {
        let mut bash = Command::new("bash");
        bash.args(["-c", script, "bash", &completions, "dlock"]).args(words);
        let output = bash.output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), expected, "{output:?}");
    }
}

#[test]
fn each_command_has_a_man_page() {
    for name in COMMANDS {
        let page = printed(&["man", name]).replace('\\', "");
        assert!(page.contains(&format!(".TH dlock-{name}")), "{page}");
        assert!(page.contains(&format!("fBdlock {name}")), "{page}");
    }
    let page = printed(&["man", "bench", "load"]).replace('\\', "");
    assert!(page.contains(".TH dlock-bench-load") && page.contains("--requests"), "{page}");
    let output = Command::new(env!("CARGO_BIN_EXE_dlock")).args(["man", "rnu"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let line = String::from_utf8(output.stderr).unwrap();
    assert_eq!(line, "dlock: there is no command rnu: see dlock --help\n");
}
