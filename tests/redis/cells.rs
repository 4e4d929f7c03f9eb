//! Values beside locks.

use lock_core::{Backend, Cell, CellBackend, ErrorKind, FencingToken, Hint, Stored};
use lock_redis::{Notifications, Protocol, RedisBackend};

use crate::support::{Server, claim, granted, open, soon};

const CELL: &str = "lock:{a}:cell";

#[tokio::test]
async fn any_bytes_are_kept() {
    let server = Server::start();
    let (one, other) = (open(&server), open(&server));
    let held = claim("a");
    let token = granted(&one, &held).await.tokens.first();
    for value in [&b""[..], b" ", b"\0\r\n\xff 1 ", &[b'\n'; Cell::MAX_LEN]] {
        assert_eq!(one.store(&held, token, Some(value)).await.unwrap(), Stored::Written);
        let cell = other.load(&held.key).await.unwrap().unwrap();
        assert_eq!((cell.value.as_slice(), cell.token, cell.held), (value, token, true));
    }
    // The value has no end, and no change of the lock touches it.
    assert_eq!(server.client().command::<i64>(&["PTTL", CELL]), -1);
    one.release(&held).await.unwrap();
    assert!(!other.load(&held.key).await.unwrap().unwrap().held);
}

#[tokio::test]
async fn tokens_are_compared_to_the_last_digit() {
    let server = Server::start();
    let backend = open(&server);
    let held = claim("a");
    granted(&backend, &held).await;
    let mut stored = Vec::new();
    for token in [9, 10, 9, (1 << 53) + 1, 1 << 53, u64::MAX, u64::MAX - 1, u64::MAX] {
        let value = token.to_string();
        let token = FencingToken::new(token);
        let outcome = backend.store(&held, token, Some(value.as_bytes())).await.unwrap();
        stored.push(outcome == Stored::Written);
    }
    assert_eq!(stored, [true, true, false, true, false, true, false, true]);
    assert_eq!(backend.load(&held.key).await.unwrap().unwrap().token.get(), u64::MAX);
}

#[tokio::test]
async fn every_watcher_hears_of_a_new_value_over_each_source() {
    let server = Server::with(&["--notify-keyspace-events", "Kg$xe"]);
    let writer = RedisBackend::builder(server.url()).release_messages(false).build().unwrap();
    let held = claim("a");
    let token = granted(&writer, &held).await.tokens.first();
    let build = || RedisBackend::builder(server.url());
    let alone = || build().release_messages(false).notifications(Notifications::Off);
    for builder in [
        build().protocol(Protocol::Resp2),
        build().notifications(Notifications::Off),
        build().release_messages(false),
        alone().tracking(true),
    ] {
        let backend = builder.build().unwrap();
        let mut watch = backend.watch(&held.key).await.unwrap();
        for value in [Some(&b"v"[..]), None] {
            assert_eq!(writer.store(&held, token, value).await.unwrap(), Stored::Written);
            assert_eq!(soon(watch.next()).await, Some(Hint::Changed), "{backend:?}");
        }
    }
}

#[tokio::test]
async fn what_is_no_value_of_ours_is_neither_read_nor_overwritten_by_half() {
    let server = Server::start();
    let backend = open(&server);
    let held = claim("a");
    let token = granted(&backend, &held).await.tokens.first();
    let mut raw = server.client();
    for nonsense in ["", "x", "abc 7", "abc x y"] {
        raw.command::<()>(&["SET", CELL, nonsense]);
        let error = backend.load(&held.key).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ForeignKey, "{nonsense}");
    }
    raw.command::<()>(&["DEL", CELL]);
    raw.command::<()>(&["RPUSH", CELL, "x"]);
    let error = backend.store(&held, token, Some(b"v")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ForeignKey);
    assert_eq!(backend.load(&held.key).await.unwrap_err().kind(), ErrorKind::ForeignKey);
}
