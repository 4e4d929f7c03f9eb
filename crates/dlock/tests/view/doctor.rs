use lock_tests::RedisServer;

use crate::program::dlock;
use crate::terminal::Terminal;

#[test]
fn the_report_is_json_for_machines_and_its_severity_the_exit_code() {
    let server = RedisServer::builder().password("hunter2").start();
    let ran = dlock(&server.url(), &["doctor"]).ends_with(12);
    let report = ran.json_lines().remove(0);
    assert_eq!(report["worst"], "warning");
    assert_eq!(report["findings"][0]["severity"], "warning");
    let codes: Vec<_> = report["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["code"].as_str().unwrap())
        .collect();
    assert!(codes.contains(&"no-persistence"), "{codes:?}");
    assert!(!ran.out().contains("hunter2"));

    server.cli(&["CONFIG", "SET", "maxmemory", "100mb"]);
    server.cli(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    let ran = dlock(&server.url(), &["doctor", "--text"]).ends_with(13);
    assert!(ran.out().contains("critical: eviction-policy at "), "{}", ran.out());
    assert!(!ran.out().contains('\x1b'), "there is no terminal");
    server.kill();
    let ran = dlock(&server.url(), &["doctor"]).ends_with(69);
    assert_eq!((ran.out().as_str(), ran.err().lines().count()), ("", 1), "{}", ran.err());
}

#[test]
fn a_terminal_gets_colors_unless_the_user_wants_none() {
    let server = RedisServer::start();
    let yellow = "\x1b[1;33mwarning";
    let run = |args: &[&str], variables: &[(&str, &str)]| {
        let (status, text) = Terminal::run_with(&server.url(), args, variables).end();
        assert_eq!(status.code(), Some(12), "{text}");
        assert!(text.contains("warning: no-persistence") || text.contains(yellow), "{text}");
        text.contains('\x1b')
    };
    assert!(run(&["doctor"], &[]));
    assert!(!run(&["doctor"], &[("NO_COLOR", "1")]));
    assert!(!run(&["--color", "never", "doctor"], &[]));
    let ran = dlock(&server.url(), &["--color", "always", "doctor", "--text"]).ends_with(12);
    assert!(ran.out().contains(yellow), "{}", ran.out());
}
