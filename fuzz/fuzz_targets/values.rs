//! Names, leases, token numbers and owners.

#![no_main]

use std::num::NonZeroU32;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use lock_core::{FencingToken, Instant, Key, OwnerTag, OwnerToken, TokenRange, Ttl};
use lock_sync::PassedOwner;

fuzz_target!(|input: (&[u8], &str, [u8; 16], u64, u32, u64, u32)| {
    let (name, text, bytes, number, count, seconds, nanos) = input;

    for key in [Key::new(name), Key::raw(name)] {
        match key {
            Ok(key) => {
                assert_eq!(key.as_bytes(), name);
                assert!(
                    format!("{key} {key:?}").bytes().all(|it| it == b' ' || it.is_ascii_graphic())
                );
            }
            Err(_) => assert!(name.is_empty() || name.len() > Key::MAX_LEN),
        }
    }

    let token = OwnerToken::from_bytes(bytes);
    assert_eq!(OwnerTag::of_stored(token.expose()), Some(token.tag()));
    let is_token = name.len() == 32 && name.iter().all(u8::is_ascii_hexdigit);
    assert_eq!(OwnerTag::of_stored(name).is_some(), is_token);
    match text.parse::<PassedOwner>() {
        Ok(owner) => assert_eq!(owner.expose(), text),
        // A text that is nearly an owner is not repeated.
        Err(error) => {
            assert!(text.len() != 32 || text.contains(' ') || !error.to_string().contains(text));
        }
    }

    if let Some(count) = NonZeroU32::new(count) {
        let range = TokenRange::new(FencingToken::new(number), count);
        assert!(range.first() <= range.last());
        assert!(range.nth(count.get()).is_none());
        assert!(range.nth(count.get() - 1).is_some_and(|it| it <= range.last()));
    }
    // As much as there is room for beside the seconds.
    let duration = Duration::new(seconds, nanos % 1_000_000_000);
    let _ = FencingToken::floor(duration);
    if let Ok(ttl) = Ttl::new(duration) {
        assert!(ttl.duration() >= duration && ttl.duration() - duration < Duration::from_millis(1));
        let sent = Instant::from_nanos(number);
        assert!(sent <= ttl.valid_until(sent) && ttl.valid_until(sent) <= sent + ttl.duration());
    }
});
