//! What a user sets a backend up with: a URL, a prefix, certificates.

#![no_main]

use libfuzzer_sys::fuzz_target;
use lock_core::ErrorKind;
use lock_redis::RedisBackend;

/// Stands in the place of a password wherever the input has a `$`.
const SECRET: &str = "hunter2hunter2";

fuzz_target!(|input: &str| {
    if input.contains(SECRET) {
        return;
    }
    let mut lines = input.splitn(3, '\n');
    let (url, prefix) = (lines.next().unwrap_or_default(), lines.next().unwrap_or("lock:"));
    // Only where it is certain that it is a password, and neither a host nor a path nor a name.
    let has_secret = url.starts_with("redis://me:$@") && url.matches('$').count() == 1;
    let url = if has_secret { url.replace('$', SECRET) } else { url.to_owned() };
    let mut builder = RedisBackend::builder(url).prefix(prefix);
    if let Some(pem) = lines.next() {
        builder = builder.root_certificates(pem);
    }
    let shown = format!("{builder:?}");
    assert!(!shown.contains(SECRET), "{shown}");
    match builder.build() {
        Ok(backend) => {
            let shown = format!("{backend:?}");
            assert!(!shown.contains(SECRET), "{shown}");
        }
        Err(error) => {
            let shown = format!("{error} {error:?}");
            assert!(!shown.contains(SECRET), "{shown}");
            assert_eq!(error.kind(), ErrorKind::InvalidConfig);
        }
    }
});
