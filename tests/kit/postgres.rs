//! PostgreSQL servers: start, end.

use std::panic::catch_unwind;

use lock_tests::{PostgresServer, SOON, eventually, process};

#[test]
fn a_server_that_cannot_start_fails_the_test_with_its_message() {
    let panic = catch_unwind(|| PostgresServer::with(&["no_such_setting=1"])).unwrap_err();
    let message = panic.downcast_ref::<String>().unwrap();
    assert!(message.starts_with("PostgreSQL did not start"), "{message}");
    assert!(message.contains("no_such_setting"), "{message}");
}

/// A process that stands still does not notice that the first process is gone.
#[test]
fn a_server_that_stands_still_ends_with_all_its_processes() {
    let server = PostgresServer::start();
    server.stop();
    let pids = process::children(server.pid()).into_iter();
    // The first process stands still, so an ended process stays as a zombie.
    let pids: Vec<u32> = pids.filter(|pid| process::is_alive(*pid)).collect();
    assert!(pids.len() > 3 && pids.iter().all(|pid| process::is_stopped(*pid)), "{pids:?}");
    drop(server);
    eventually("all of them are gone", SOON, || !pids.iter().any(|pid| process::is_alive(*pid)));
}
