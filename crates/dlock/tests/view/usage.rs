use std::fs::File;
use std::process::{Command, Stdio};

use lock_tests::RedisServer;

use crate::program::{dlock, without_store};

const A_PORT: &str = "a port is a number from 1 to 65535";
const A_DATABASE: &str = "postgres://user@host:5432/database";

/// Each of these messages names the mistake and its correction on one line.
#[test]
fn a_mistake_is_answered_by_one_line() {
    let nowhere = "redis://127.0.0.1:1";
    for (url, args, parts) in [
        ("postgers://a", &["list"][..], &["names no store", "redis://"][..]),
        ("redis://a:port", &["inspect", "x"], &["the port", A_PORT, "host:6379"]),
        ("redis+cluster://a,b:port", &["list"], &["the port", A_PORT, "host:6379"]),
        ("redis://a b", &["list"], &["the host", "redis://host:6379"]),
        ("redis://:secret@", &["list"], &["host", "redis://host:6379"]),
        ("redis://a/first", &["list"], &["the database", "a number from 0 on"]),
        ("redis://%ff@a", &["list"], &["wrong", "redis://user:password@host:6379/0"]),
        ("redis://0.0.0.0", &["list"], &["every host", "redis://127.0.0.1:6379"]),
        ("redis+unix:a", &["list"], &["no path", "redis+unix:///path/to/socket"]),
        ("redlock+redis://a,b", &["doctor"], &["of 2 nodes", "odd number"]),
        ("postgres://a:port/b", &["list"], &["`port`", A_PORT, A_DATABASE]),
        ("POSTGRES://a:port/b", &["list"], &["`port`", A_PORT, A_DATABASE]),
        ("postgres://a/b?sslmod=disable", &["list"], &["`sslmod`", A_DATABASE, "?sslmode="]),
        ("ETCD://a:port", &["list"], &["the port", A_PORT, "etcd://host:2379"]),
        ("etcd://a:port", &["list"], &["the port", A_PORT, "etcd://host:2379"]),
        ("etcd://a b", &["list"], &["the host", "etcd://host:2379"]),
        ("etcd://a?unsafe=true", &["list"], &["no option", "allow_unsafe_version"]),
        (nowhere, &["inspect"], &["<NAME>"]),
        (nowhere, &["inspect", "--exact", ""], &["empty"]),
        (nowhere, &["top", "--interval", "x"], &["0.1 to 3600"]),
        (nowhere, &["top", "--keys", "1"], &["100"]),
        (nowhere, &["top"], &["terminal", "dlock list"]),
        (nowhere, &["bench", "--seconds", "soon"], &["for example 2"]),
        (nowhere, &["bench", "load", "--clients", "0"], &["1..="]),
        (nowhere, &["lst"], &["lst", "list"]),
        (nowhere, &["doctor", "--json", "--text"], &["--text"]),
    ] {
        let ran = dlock(url, args).ends_with(2);
        let message = ran.err();
        assert_eq!(message.lines().count(), 1, "{args:?}: {message}");
        assert!(parts.iter().all(|part| message.contains(part)), "{args:?}: {message}");
        assert_eq!(ran.out(), "");
    }
}

#[test]
fn a_command_without_a_store_says_how_to_name_one() {
    for args in [&["list"][..], &["run", "it", "--", "true"], &["top"], &["doctor"]] {
        let ran = without_store(args).ends_with(2);
        let expected =
            "dlock: no store is named: use --url or LOCK_URL, for example redis://127.0.0.1:6379\n";
        assert_eq!((ran.err().as_str(), ran.out().as_str()), (expected, ""), "{args:?}");
    }
}

/// As on a full disk.
#[test]
fn a_standard_error_that_takes_no_text_changes_no_exit_code() {
    let server = RedisServer::start();
    let run = |args: &[&str]| {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_dlock"));
        command.env("LOCK_URL", server.url()).args(args).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(full).status().unwrap().code()
    };
    assert_eq!(run(&["destroy", "it"]), Some(2));
    assert_eq!(run(&["list", "--no-such-option"]), Some(2));
    assert_eq!(run(&["--url", "redis://127.0.0.1:1", "list"]), Some(69));
}

#[test]
fn a_store_that_is_not_there_is_no_mistake_of_usage() {
    for args in [&["list"][..], &["inspect", "x"], &["doctor"], &["destroy", "x", "--yes"]] {
        let ran = dlock("redis://127.0.0.1:1", args).ends_with(69);
        assert_eq!(ran.err().lines().count(), 1, "{}", ran.err());
        assert!(ran.err().contains("127.0.0.1:1"), "{}", ran.err());
    }
}
