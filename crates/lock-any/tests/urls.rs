//! What a URL leads to, without a server.

use lock_any::lock_sync::{ErrorKind, TryLockError};

#[tokio::test]
async fn a_name_is_one_store_for_the_process() {
    let [one, same, other] = ["memory://a", "MEMORY://a", "memory:"].map(lock_any::connect);
    let (one, same, other) = (one.await.unwrap(), same.await.unwrap(), other.await.unwrap());
    let guard = one.mutex("it", ()).unwrap();
    let guard = guard.lock().await.unwrap();
    let second = same.mutex("it", ()).unwrap();
    assert!(matches!(second.try_lock().await, Err(TryLockError::WouldBlock)));
    other.mutex("it", ()).unwrap().try_lock().await.map(drop).unwrap();
    drop(guard);
}

#[tokio::test]
async fn a_url_without_a_store_says_what_there_is() {
    for url in ["", "localhost", "http://a", "memory:x", "memory://a/b", "redlock+memory://a,b,c"] {
        let error = lock_any::open(url).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{url}: {error}");
        assert!(error.to_string().contains("memory:"), "{url}: {error}");
    }
}

#[cfg(not(feature = "redis"))]
#[tokio::test]
async fn a_store_whose_feature_is_off_names_the_feature() {
    for (url, feature) in [("redis://a", "`redis`"), ("redlock+redis://a,b,c", "`redlock`")] {
        let error = lock_any::open(url).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{url}: {error}");
        assert!(error.to_string().contains(feature), "{url}: {error}");
    }
}

#[cfg(feature = "redis")]
#[tokio::test]
async fn a_url_of_redis_is_read_before_anything_is_sent() {
    lock_any::connect("redis://127.0.0.1:1/0").await.map(drop).unwrap();
    lock_any::connect("redis+cluster://a,b").await.map(drop).unwrap();
    lock_any::connect("redis+sentinel://a,b/orders/0").await.map(drop).unwrap();
    let error = lock_any::open("redis://user:secret@a:port").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error}");
    assert!(!format!("{error:?}").contains("secret"), "{error:?}");
}

#[cfg(feature = "redlock")]
#[tokio::test]
async fn a_url_of_a_quorum_names_enough_hosts() {
    for url in [
        "redlock+redis://a,b",
        "redlock+redis://",
        "redlock+redis://u:secret@a,a,a",
        "redlock:",
        "redlock:redis://u:secret@a redis://b",
        "redlock:redis://u:secret@a redis://a redis://b",
        "redlock:redis://u:secret@a:port redis://b redis://c",
        "redlock:redis://u:secret@a memory://b redis://c",
    ] {
        let error = lock_any::open(url).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{url}: {error}");
        assert!(!format!("{error:?}").contains("secret"), "{error:?}");
    }
}
