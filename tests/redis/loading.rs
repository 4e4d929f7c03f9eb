//! Servers, users and proxies that cannot load scripts.

use lock_core::{AcquireOutcome, Backend, ErrorKind, Released, Renew, Renewal};
use lock_redis::{Builder, Protocol, RedisBackend};
use lock_tests::{Fate, Mediator, RedisServer};

use crate::support::{Waiter, attempt, claim, granted, long};

const PROTOCOLS: [Protocol; 2] = [Protocol::Resp2, Protocol::Resp3];

/// The error of a proxy for a command that it does not accept.
const NO_SCRIPT: &str = "ERR command 'SCRIPT' not allowed";
const NO_EVALSHA: &str = "ERR unknown command 'EVALSHA'";
const NO_EVAL: &str = "ERR unsupported command `eval`";

/// A proxy that refuses some commands.
fn refusing(server: &RedisServer, refused: &'static [(&'static str, &'static str)]) -> Mediator {
    Mediator::start(&[server.addr()], move |words| {
        let is = |word: &str| words[0].eq_ignore_ascii_case(word.as_bytes());
        match refused.iter().find(|(word, _)| is(word)) {
            Some((_, error)) => Fate::IsRefused(error),
            None => Fate::Passes,
        }
    })
}

/// A user that may not load scripts.
fn user(server: &RedisServer, more: &[&str]) -> Builder {
    give(server, more);
    RedisBackend::builder(server.url_as("locks", "hunter2"))
}

/// Gives the user all rights except the right to load scripts, and changes these.
fn give(server: &RedisServer, more: &[&str]) {
    let rules = ["reset", "on", ">hunter2", "~*", "&*", "+@all", "-script"];
    let words = [&["ACL", "SETUSER", "locks"][..], &rules, more].concat();
    assert_eq!(server.cli(&words).text(), "OK");
}

/// The number of calls of scripts in [`works`].
const CALLS: usize = 8;
/// The number of scripts that [`works`] may need: a client that listens also calls full ones besides the quick ones.
const SCRIPTS: u64 = 7;

/// Takes, renews, and hands over.
async fn works(backend: &RedisBackend) {
    let held = claim("a");
    granted(backend, &held).await;
    let renewal = backend.renew(&Renew::new(held.clone(), long())).await;
    assert!(matches!(renewal, Renewal::Renewed { .. }), "{renewal:?}");
    let mut waiter = Waiter::queue(backend, claim("a")).await;
    assert!(matches!(backend.release(&held).await.unwrap(), Released::Freed { .. }));
    waiter.gets_it().await;
    assert!(matches!(waiter.release().await, Released::Freed { .. }));
}

#[tokio::test]
async fn a_user_without_the_right_to_load_scripts_sends_each_script_once() {
    let server = RedisServer::start();
    for protocol in PROTOCOLS {
        let backend = user(&server, &[]).protocol(protocol).build().unwrap();
        for _ in 0..2 {
            server.cli(&["SCRIPT", "FLUSH"]);
            let before = server.commandstats();
            works(&backend).await;
            // To acquire, to renew, to listen, to wait and to release.
            let brought = server.commandstats().since(&before).calls("eval");
            assert!((3..=SCRIPTS).contains(&brought), "{brought}");
            let before = server.commandstats();
            works(&backend).await;
            let more = server.commandstats().since(&before).calls("eval");
            assert!(brought + more <= SCRIPTS, "{brought} and {more}");
        }
    }
}

#[tokio::test]
async fn a_proxy_that_takes_no_script_commands_costs_a_request_for_each_script() {
    let server = RedisServer::start();
    for protocol in PROTOCOLS {
        server.cli(&["SCRIPT", "FLUSH"]);
        let proxy = refusing(&server, &[("SCRIPT", NO_SCRIPT)]);
        let backend = RedisBackend::builder(proxy.url()).protocol(protocol).build().unwrap();
        works(&backend).await;
        let brought = proxy.count("EVAL");
        assert!((3..=SCRIPTS as usize).contains(&brought), "{brought}");
        assert!((5..=CALLS).contains(&proxy.count("EVALSHA")));
        let loaded = proxy.count("SCRIPT");
        server.cli(&["SCRIPT", "FLUSH"]);
        works(&backend).await;
        assert!(proxy.count("EVAL") <= brought + SCRIPTS as usize);
        assert_eq!(proxy.count("SCRIPT"), loaded);
    }
}

#[tokio::test]
async fn a_proxy_that_takes_no_digests_gets_scripts_whole() {
    let server = RedisServer::start();
    for refused in
        [&[("EVALSHA", NO_EVALSHA)][..], &[("EVALSHA", NO_EVALSHA), ("SCRIPT", NO_SCRIPT)]]
    {
        for protocol in PROTOCOLS {
            let proxy = refusing(&server, refused);
            let backend = RedisBackend::builder(proxy.url()).protocol(protocol).build().unwrap();
            works(&backend).await;
            works(&backend).await;
            // Each call ran once. The second time a client may still listen, so a quick script leaves the decision to a
            // full one.
            assert_eq!(proxy.count("EVALSHA"), 1);
            assert!((10..=2 * CALLS).contains(&proxy.count("EVAL")), "{}", proxy.count("EVAL"));
        }
    }
}

#[tokio::test]
async fn many_requests_find_at_once_that_scripts_are_not_loaded() {
    let server = RedisServer::start();
    for refused in [&[("SCRIPT", NO_SCRIPT)][..], &[("EVALSHA", NO_EVALSHA)]] {
        let proxy = refusing(&server, refused);
        let backend = RedisBackend::open(proxy.url()).unwrap();
        let claims: Vec<_> = (0..200).map(|number| claim(format!("{number}"))).collect();
        let requests = claims.iter().map(|claim| attempt(&backend, claim));
        for outcome in futures::future::join_all(requests).await {
            assert!(matches!(outcome.unwrap(), AcquireOutcome::Granted(_)));
        }
        for claim in &claims {
            assert!(matches!(backend.release(claim).await.unwrap(), Released::Freed { .. }));
        }
    }
}

#[tokio::test]
async fn where_no_way_is_left_the_error_says_so_at_once() {
    let server = RedisServer::start();
    let denied = user(&server, &["-eval"]).build().unwrap();
    let error = attempt(&denied, &claim("a")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    assert!(error.to_string().contains("SCRIPT LOAD or EVAL"), "{error}");
    for (refused, ways) in [
        (&[("SCRIPT", NO_SCRIPT), ("EVAL", NO_EVAL)][..], "SCRIPT LOAD or EVAL"),
        (&[("EVALSHA", NO_EVALSHA), ("EVAL", NO_EVAL)], "EVALSHA or EVAL"),
    ] {
        let proxy = refusing(&server, refused);
        let backend = RedisBackend::open(proxy.url()).unwrap();
        let error = attempt(&backend, &claim("a")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.to_string().contains(ways), "{error}");
    }
    assert!(server.keys("*").is_empty());
    // The right is given later, and the connection is the old one.
    give(&server, &[]);
    works(&denied).await;
}

#[tokio::test]
async fn the_check_says_what_scripts_cost() {
    let server = RedisServer::start();
    let has = async |backend: RedisBackend, code: &str| {
        backend.check().await.unwrap().with_code(code).count() == 1
    };
    assert!(has(user(&server, &[]).build().unwrap(), "scripts-not-loaded").await);
    let proxy = refusing(&server, &[("EVALSHA", NO_EVALSHA)]);
    assert!(has(RedisBackend::open(proxy.url()).unwrap(), "scripts-sent-whole").await);
    let report = user(&server, &["-eval"]).build().unwrap().check().await.unwrap();
    let finding = report.with_code("scripts-refused").next().unwrap();
    assert!(finding.finding.contains("SCRIPT LOAD or EVAL"), "{finding}");
}
