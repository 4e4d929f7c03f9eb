use lock_tests::EtcdServer;

use crate::everything::the_commands_work;
use crate::program::dlock;

/// The doctor reports a version that the URL does not allow.
#[test]
fn a_cluster_is_examined() {
    let server = EtcdServer::start();
    let url = server.url();
    let old = EtcdServer::version() < (3, 4, 31);
    let report = dlock(&server.locks(), &["doctor"])
        .ends_with(if old { 12 } else { 0 })
        .json_lines()
        .remove(0);
    let codes: Vec<_> =
        report["findings"].as_array().unwrap().iter().map(|it| &it["code"]).collect();
    assert_eq!(codes.contains(&&"unsafe-version-alone".into()), old, "{report}");
    assert!(codes.contains(&&"one-member".into()), "{report}");
    assert_eq!(report["store"][0]["name"], "serves", "{report}");
    if old {
        let ran = dlock(&url, &["list"]).ends_with(2);
        let message = ran.err();
        assert!(message.contains("allow_unsafe_version"), "{message}");
        assert_eq!(message.lines().count(), 1, "{message}");
    }
    // etcd needs no preparation.
    dlock(&server.locks(), &["init", "--yes"]).ends_with(0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_work_over_etcd() {
    let server = EtcdServer::start();
    the_commands_work(&server.locks(), 4_000).await;
}
