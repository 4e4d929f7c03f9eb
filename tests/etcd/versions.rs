//! Servers that lack a fix.

use lock_core::ErrorKind;
use lock_etcd::EtcdBackend;
use lock_tests::EtcdServer;

use crate::support::{Part, attempt, claim, granted, long};

#[test]
fn the_versions_with_the_fix_are_known() {
    for old in [(2, 9, 99), (3, 3, 27), (3, 4, 23), (3, 4, 30), (3, 5, 0), (3, 5, 12)] {
        assert!(EtcdServer::is_unsafe(old), "{old:?}");
    }
    for new in [(3, 4, 31), (3, 5, 13), (3, 6, 0), (4, 0, 0)] {
        assert!(!EtcdServer::is_unsafe(new), "{new:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_version_is_refused_unless_it_is_allowed() {
    let part = Part::new();
    let careful = EtcdBackend::builder(part.server.url()).prefix(&part.prefix).build().unwrap();
    let (version, ours) = (EtcdServer::version(), claim("a"));
    if EtcdServer::is_unsafe(version) {
        for _ in 0..2 {
            let error = attempt(&careful, &ours, long()).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error:?}");
            assert!(!error.is_retryable(), "{error:?}");
            let (major, minor, patch) = version;
            assert!(error.to_string().contains(&format!("{major}.{minor}.{patch}")), "{error}");
        }
        let watch = lock_core::Backend::watch(&careful, &ours.key).await.unwrap_err();
        assert_eq!(watch.kind(), ErrorKind::Unsupported, "{watch:?}");
        assert!(part.keys().is_empty(), "something was written");
    } else {
        granted(&careful, &ours, long()).await;
    }
    granted(&part.open(), &claim("b"), long()).await;
}
