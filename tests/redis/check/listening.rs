//! How waiters hear of releases.

use lock_redis::check::Severity;
use lock_redis::{Notifications, RedisBackend};

use super::{codes, examine, healthy, only};

#[tokio::test]
async fn events_that_are_missing_are_told_as_far_as_the_app_wants_them() {
    let server = healthy(&["--notify-keyspace-events", ""]);
    let with = |wanted| examine(RedisBackend::builder(server.url()).notifications(wanted));
    let found = with(Notifications::IfPresent).await;
    assert_eq!(codes(&found), ["notifications-missing"], "{found}");
    let (severity, text) = only(&found, "notifications-missing");
    assert!(severity == Severity::Info && text.contains("lacks `Kg$xe`"), "{text}");
    assert_eq!(codes(&with(Notifications::Off).await), [""; 0]);
    server.client().command::<()>(&["CONFIG", "SET", "notify-keyspace-events", "KA"]);
    assert_eq!(codes(&with(Notifications::Require).await), [""; 0]);
}

#[tokio::test]
async fn events_are_enabled_before_they_are_missed() {
    let server = healthy(&["--notify-keyspace-events", ""]);
    let enabling = RedisBackend::builder(server.url()).notifications(Notifications::Enable);
    assert_eq!(codes(&examine(enabling.clone()).await), [""; 0]);

    let rules =
        ["ACL", "SETUSER", "poor", "on", ">x", "~*", "&*", "+@all", "-config", "+config|get"];
    let mut raw = server.client();
    raw.command::<()>(&rules);
    raw.command::<()>(&["CONFIG", "SET", "notify-keyspace-events", ""]);
    let url = format!("redis://poor:x@127.0.0.1:{}", server.port());
    let found = examine(RedisBackend::builder(url).notifications(Notifications::Enable)).await;
    assert_eq!(only(&found, "notifications-missing").0, Severity::Warning);
}

#[tokio::test]
async fn a_client_that_listens_to_nothing_is_told() {
    let server = healthy(&[]);
    let mute = RedisBackend::builder(server.url())
        .release_messages(false)
        .notifications(Notifications::Off);
    let found = examine(mute).await;
    assert_eq!(codes(&found), ["watch-refused"], "{found}");
}

#[tokio::test]
async fn a_message_that_cannot_be_sent_is_noticed() {
    let server = healthy(&[]);
    let mut raw = server.client();
    let rules = ["ACL", "SETUSER", "mute", "on", "nopass", "~*", "&*", "+@all", "-publish"];
    raw.command::<()>(&rules);
    let url = format!("redis://mute:x@127.0.0.1:{}", server.port());
    let builder = RedisBackend::builder(url)
        .notifications(Notifications::Off)
        .command_timeout(std::time::Duration::from_secs(1));
    let found = examine(builder).await;
    assert_eq!(codes(&found), ["releases-unheard", "rights-missing"], "{found}");
}
