//! Users with fewer rights.

use lock_core::ErrorKind;
use lock_redis::check::{Report, Severity};
use lock_redis::{Builder, Notifications, RedisBackend};

use super::{codes, examine, healthy, only};
use crate::rights::give_least;
use crate::support::Server;

fn user(server: &Server, rules: &[&str]) -> Builder {
    let command = [&["ACL", "SETUSER", "poor", "reset", "on", ">x"], rules].concat();
    server.client().command::<()>(&command);
    RedisBackend::builder(format!("redis://poor:x@127.0.0.1:{}", server.port()))
}

/// A user with all rights but some.
fn all_but(server: &Server, missing: &[&str]) -> Builder {
    user(server, &[&["~*", "&*", "+@all"], missing].concat())
}

fn least(server: &Server) -> Builder {
    give_least(server);
    RedisBackend::builder(format!("redis://locks:hunter2@127.0.0.1:{}", server.port()))
}

#[tokio::test]
async fn with_the_least_rights_all_that_is_denied_is_unknown() {
    let server = healthy(&[]);
    let found = examine(least(&server)).await;
    let expected = ["info-refused", "config-refused", "sentinel-unknown", "unfit-as-node"];
    assert_eq!(codes(&found), expected, "{found}");
    assert_eq!(found.worst(), Some(Severity::Unknown));
    for right in ["`+info`", "`+config|get`", "`+pubsub|numsub`"] {
        assert!(found.to_string().contains(right), "{right}: {found}");
    }
    let told = &found.servers[0];
    assert_eq!((&told.version, told.role, told.topology), (&None, None, None));
    assert_eq!((&told.eviction_policy, &told.notifications), (&None, &None));
    assert!(told.clock.is_some());
}

#[tokio::test]
async fn with_the_rights_that_it_names_nothing_is_unknown() {
    let server = healthy(&[]);
    let client = least(&server);
    server.client().command::<()>(&["ACL", "SETUSER", "locks", "+info", "+config|get"]);
    let found = examine(client).await;
    assert_eq!(codes(&found), [""; 0], "{found}");
}

#[tokio::test]
async fn a_server_that_denies_config_is_not_judged_by_it() {
    let server = healthy(&[]);
    let found = examine(all_but(&server, &["-config"])).await;
    assert_eq!(codes(&found), ["config-refused"], "{found}");
    assert_eq!(found.servers[0].eviction_policy.as_deref(), Some("noeviction"));

    // The report contains what INFO alone shows.
    server.client().command::<()>(&["CONFIG", "SET", "appendonly", "no"]);
    let found = examine(all_but(&server, &["-config"])).await;
    assert_eq!(codes(&found), ["snapshots-only", "config-refused"], "{found}");
}

#[tokio::test]
async fn a_clock_that_may_not_be_read_is_unknown() {
    let server = healthy(&[]);
    let found = examine(all_but(&server, &["-time"])).await;
    assert_eq!(only(&found, "clock-unknown").0, Severity::Unknown);
    assert!(found.servers[0].clock.is_none());
    // The scripts read the clock, too.
    assert_eq!(only(&found, "lock-refused").0, Severity::Critical);
    assert_eq!(only(&found, "rights-missing").0, Severity::Critical);
}

#[tokio::test]
async fn each_missing_right_is_named_with_the_locks_that_need_it() {
    let server = healthy(&[]);
    let found = examine(all_but(&server, &["-zcard", "-hincrby"])).await;
    assert_eq!(codes(&found), ["rights-missing"], "{found}");
    let finding = found.with_code("rights-missing").next().unwrap();
    assert_eq!(finding.severity, Severity::Info);
    assert_eq!(finding.finding, "the user lacks `+zcard` `+hincrby`");
    assert!(finding.reason.contains("reader-writer lock; semaphore; looking"), "{finding}");
    assert!(finding.remedy.contains("+zcard +hincrby"), "{finding}");

    let found = examine(all_but(&server, &["-lrange"])).await;
    assert_eq!(codes(&found), ["holders-unseen", "rights-missing"], "{found}");
    assert_eq!(only(&found, "rights-missing").0, Severity::Warning);
}

/// A right that only an option of the client needs is missed only where the client has the option.
#[tokio::test]
async fn a_right_that_an_option_needs_is_named() {
    let server = healthy(&[]);
    let confirms: fn(Builder) -> Builder =
        |it| it.confirm(1, std::time::Duration::from_millis(100));
    let has_terms: fn(Builder) -> Builder = |it| it.term_quarantine(true);
    let options = [
        ("info", "the term of the server", has_terms),
        ("info", "the term of the server", confirms),
        ("wait", "replicas confirm", confirms),
    ];
    for (right, reason, option) in options {
        let missing = format!("-{right}");
        let found = examine(option(all_but(&server, &[&missing]))).await;
        let missed = found.with_code("rights-missing").next().expect("the right is not missed");
        assert_eq!(missed.severity, Severity::Critical, "{found}");
        assert_eq!(missed.finding, format!("the user lacks `+{right}`"), "{found}");
        assert!(missed.reason.contains(reason), "{found}");
        assert!(missed.remedy.contains(&format!("+{right}")), "{found}");
        let found = examine(all_but(&server, &[&missing])).await;
        assert_eq!(found.with_code("rights-missing").count(), 0, "{found}");
    }
}

#[tokio::test]
async fn every_command_of_the_line_of_rights_is_tried() {
    let server = healthy(&[]);
    // The commands of the line of rights, without those that the user needs to run scripts at all.
    let page = include_str!("../../../crates/lock-redis/src/acl.md");
    let (_, line) = page.split_once("-@all +evalsha +script|load\n").unwrap();
    let (line, _) = line.split_once("```").unwrap();
    let rights: Vec<_> = line.split_whitespace().collect();
    assert!(rights.len() > 25, "{rights:?}");
    for right in rights {
        let missing = right.replace('+', "-");
        let found = examine(all_but(&server, &[&missing])).await;
        let (_, text) = only(&found, "rights-missing");
        assert_eq!(text, format!("the user lacks `{right}`"));
    }
}

#[tokio::test]
async fn nothing_is_written_that_cannot_be_deleted() {
    let server = healthy(&[]);
    let found = examine(all_but(&server, &["-del"])).await;
    assert_eq!(only(&found, "rights-missing").0, Severity::Critical);
    let mut raw = server.client();
    assert!(!raw.command::<bool>(&["EXISTS", "lock:{lock-redis/check}:rights"]));
}

#[tokio::test]
async fn a_channel_that_the_user_may_not_use_is_told() {
    let server = healthy(&[]);
    let rules = ["~*", "+@all", "resetchannels", "&lock:{lock-redis/check}:released@0"];
    let found = examine(user(&server, &rules).notifications(Notifications::Off)).await;
    assert_eq!(codes(&found), ["queue-refused", "rights-missing"], "{found}");
    assert_eq!(only(&found, "rights-missing").1, "the user lacks `&lock:*`");
    // A client that does not want to queue misses less.
    let alone = user(&server, &rules).notifications(Notifications::Off).queue_limit(0);
    let found = examine(alone).await;
    assert_eq!(codes(&found), ["rights-missing"], "{found}");
    assert_eq!(only(&found, "rights-missing").0, Severity::Info);
}

#[tokio::test]
async fn tracking_that_is_denied_is_told_only_if_it_is_wanted() {
    let server = healthy(&[]);
    let poor = all_but(&server, &["-client"]);
    assert_eq!(codes(&examine(poor.clone()).await), [""; 0]);
    assert_eq!(codes(&examine(poor.tracking(true)).await), ["tracking-refused"]);
}

#[tokio::test]
async fn a_right_that_is_missed_only_after_a_restart_is_missed_now() {
    let server = healthy(&[]);
    RedisBackend::open(server.url()).unwrap().check().await.unwrap();
    // The scripts are there, since another client has loaded them.
    let found = examine(all_but(&server, &["-script", "-eval"])).await;
    assert_eq!(codes(&found), ["scripts-refused"], "{found}");
    assert_eq!(found.worst(), Some(Severity::Critical));
}

#[tokio::test]
async fn a_user_that_the_server_refuses_is_an_error() {
    let server = Server::start();
    let url = format!("redis://nobody:x@127.0.0.1:{}", server.port());
    let error = RedisBackend::open(url).unwrap().check().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
}

#[tokio::test]
async fn the_rights_are_tried_under_the_prefix_of_the_app() {
    let server = healthy(&[]);
    let rules = ["~app:*", "resetchannels", "&app:*", "&__keyspace@*__:app:*", "+@all"];
    let found: Report = examine(user(&server, &rules).prefix("app:")).await;
    assert_eq!(codes(&found), [""; 0], "{found}");
}
