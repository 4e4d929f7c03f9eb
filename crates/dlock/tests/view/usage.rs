use crate::program::dlock;

/// Each of these messages names the mistake and its correction on one line.
#[test]
fn a_mistake_is_answered_by_one_line() {
    let nowhere = "redis://127.0.0.1:1";
    for (url, args, parts) in [
        ("postgers://a", &["list"][..], &["names no store", "redis://"][..]),
        ("redis://a:port", &["inspect", "x"], &["no URL of a server", "redis://"]),
        ("redlock+redis://a,b", &["doctor"], &["of 2 nodes", "odd number"]),
        ("postgres://a:port/b", &["list"], &["no URL of a PostgreSQL database"]),
        ("POSTGRES://a:port/b", &["list"], &["no URL of a PostgreSQL database"]),
        ("ETCD://a:port", &["list"], &["no port of a member of etcd"]),
        ("etcd://a:port", &["list"], &["no port of a member of etcd"]),
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
fn a_store_that_is_not_there_is_no_mistake_of_usage() {
    for args in [&["list"][..], &["inspect", "x"], &["doctor"], &["destroy", "x", "--yes"]] {
        let ran = dlock("redis://127.0.0.1:1", args).ends_with(69);
        assert_eq!(ran.err().lines().count(), 1, "{}", ran.err());
        assert!(ran.err().contains("127.0.0.1:1"), "{}", ran.err());
    }
}
