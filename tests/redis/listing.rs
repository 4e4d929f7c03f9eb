//! Lists of the locks of a server.

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use lock_core::{Backend, Cursor, ErrorKind, InspectBackend, Key, List, Listed, Mode};
use lock_redis::RedisBackend;

use crate::support::{Server, Waiter, claim, granted, open};

/// The locks of all pages.
async fn all(backend: &RedisBackend, mut list: List) -> Vec<Listed> {
    let mut locks = Vec::new();
    loop {
        let page = backend.list(&list).await.unwrap();
        locks.extend(page.locks);
        let Some(next) = page.next else { return locks };
        list = list.from(next);
    }
}

fn names(locks: &[Listed]) -> BTreeSet<String> {
    locks.iter().map(|lock| String::from_utf8(lock.key.as_bytes().to_vec()).unwrap()).collect()
}

fn set<const N: usize>(names: [&str; N]) -> BTreeSet<String> {
    names.map(str::to_owned).into()
}

#[tokio::test]
async fn a_list_shows_locks_of_every_kind_and_what_waits_for_them() {
    let server = Server::start();
    let (one, other) = (open(&server), open(&server));
    for (name, mode) in [
        ("x/alone", Mode::Exclusive),
        ("x/shared", Mode::Shared),
        ("x/permits", Mode::Permits { take: 2, of: 3 }),
    ] {
        granted(&one, &claim(name).in_mode(mode)).await;
    }
    let _waiter = Waiter::queue(&other, claim("x/alone")).await;
    let freed = claim("x/freed");
    granted(&one, &freed).await;
    one.release(&freed).await.unwrap();
    // A lock of another library, and keys that are no lock.
    let mut raw = server.client();
    raw.command::<()>(&["SET", "lock:{x/foreign}", "theirs"]);
    raw.command::<()>(&["SET", "lock:{x/not}:data", "x"]);
    raw.command::<()>(&["RPUSH", "lock:{x/alien}", "no text"]);

    let seen = all(&other, List::of("x/")).await;
    assert_eq!(names(&seen), set(["x/alone", "x/shared", "x/permits", "x/foreign"]));
    for lock in &seen {
        let waiting = u64::from(lock.key.as_bytes() == b"x/alone");
        assert_eq!((lock.inspection.holding, lock.inspection.waiting), (1, waiting), "{lock}");
    }
    assert_eq!(names(&all(&other, List::of("x/s")).await), set(["x/shared"]));
}

#[tokio::test]
async fn a_waiter_of_a_free_lock_is_listed() {
    let server = Server::start();
    let (one, other) = (open(&server), open(&server));
    let held = claim("x");
    granted(&one, &held).await;
    let _waiter = Waiter::queue(&other, claim("x")).await;
    server.client().command::<()>(&["DEL", "lock:{x}"]);
    let seen = all(&one, List::of("")).await;
    assert_eq!(names(&seen), set(["x"]));
    assert_eq!((seen[0].inspection.holding, seen[0].inspection.waiting), (0, 1));
}

#[tokio::test]
async fn exact_keys_have_lists_of_their_own() {
    let server = Server::start();
    let backend = open(&server);
    granted(&backend, &claim("jobs:1")).await;
    for key in ["jobs:1", "jobs:{2}", "other:3"] {
        let mut exact = claim("it");
        exact.key = Key::raw(key).unwrap();
        granted(&backend, &exact).await;
    }
    let exact = all(&backend, List::of_exact_keys("jobs:")).await;
    assert_eq!(names(&exact), set(["jobs:1", "jobs:{2}"]));
    assert!(exact.iter().all(|lock| lock.key.is_as_is()));
    assert_eq!(names(&all(&backend, List::of("jobs:")).await), set(["jobs:1"]));
}

#[tokio::test]
async fn a_page_costs_few_short_commands_and_no_lock_pays_for_it() {
    const KEYS: usize = 3_000;
    let server = Server::start();
    let backend = open(&server);
    granted(&backend, &claim("x/1")).await;
    let mut raw = server.client();
    for number in 0..KEYS {
        raw.command::<()>(&["SET", &format!("data:{number}"), "x"]);
    }
    raw.command::<()>(&["CONFIG", "RESETSTAT"]);
    let mut list = List::of("x/").pages_of(NonZeroU32::MAX);
    let (mut pages, mut seen) = (0, Vec::new());
    loop {
        let page = backend.list(&list).await.unwrap();
        pages += 1;
        seen.extend(page.locks);
        let Some(next) = page.next else { break };
        list = list.from(next);
    }
    assert_eq!(names(&seen), set(["x/1"]));
    // A page looks at a thousand keys at most, so none occupies the server for long.
    assert!((3..=8).contains(&pages), "{pages} pages");
    let stats = raw.command::<String>(&["INFO", "commandstats"]);
    assert!(stats.contains(&format!("cmdstat_scan:calls={pages},")), "{stats}");
}

#[tokio::test]
async fn a_cursor_of_another_server_is_refused() {
    let (server, other) = (Server::start(), Server::start());
    let backend = open(&server);
    for number in 0..40 {
        granted(&backend, &claim(format!("x/{number}"))).await;
    }
    let few = NonZeroU32::new(2).unwrap();
    let page = backend.list(&List::of("x/").pages_of(few)).await.unwrap();
    let next = page.next.expect("one page does not have all locks");
    for (backend, cursor) in [
        (open(&other), next.clone()),
        (open(&server), Cursor::new(&b"garbage"[..])),
        (open(&server), Cursor::new(&b""[..])),
    ] {
        let error = backend.list(&List::of("x/").from(cursor)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error}");
    }
    // Another client may go on with the list.
    assert!(open(&server).list(&List::of("x/").from(next)).await.is_ok());
}
