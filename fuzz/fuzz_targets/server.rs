//! A whole backend against a server that says whatever the fuzzer likes.
//!
//! Nothing panics, nothing waits for ever, and nothing is granted or renewed unless the server said
//! something to the very owner.

#![no_main]

use std::cell::OnceCell;
use std::num::NonZeroU32;
use std::time::Duration;

use futures::FutureExt as _;
use libfuzzer_sys::fuzz_target;
use lock_core::{
    Acquire, AcquireOutcome, Backend, Ballot, CellBackend, Claim, Clock, FencingToken, Hint,
    InspectBackend, Key, Membership, Mode, OwnerToken, PermitBackend, QuorumNode, Renew, Renewal, Resize, Terms, Ttl,
    Vote,
};
use lock_fuzz::fake::{Conversation, Place};
use lock_redis::{Notifications, Protocol, RedisBackend};
use tokio::runtime::Runtime;
use tokio::time::timeout;

/// The owner of everything, as the fuzzer knows it.
const OWNER: [u8; 16] = [7; 16];
const TAG: &[u8] = b"07070707";

thread_local! {
    static RUNTIME: OnceCell<(Runtime, Place)> = const { OnceCell::new() };
}

fuzz_target!(|input: &[u8]| {
    RUNTIME.with(|cell| {
        let (runtime, place) = cell.get_or_init(|| {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let place = runtime.block_on(Place::open()).unwrap();
            (runtime, place)
        });
        runtime.block_on(async {
            let conversation = Conversation::read(input);
            let backend = RedisBackend::builder(place.url())
                .protocol(if conversation.is_new { Protocol::Auto } else { Protocol::Resp2 })
                .tracking(conversation.is_new)
                .notifications(Notifications::IfPresent)
                .command_timeout(Duration::from_millis(4))
                .connect_timeout(Duration::from_millis(20))
                .build()
                .unwrap();
            let asked = timeout(Duration::from_secs(20), ask(&backend, &conversation));
            tokio::select! {
                asked = asked => asked.expect("it waits for ever"),
                () = place.serve(&conversation) => {}
            }
        });
    });
});

async fn ask(backend: &RedisBackend, said: &Conversation<'_>) {
    let owner = OwnerToken::from_bytes(OWNER);
    let key = Key::new("a").unwrap();
    let claim = Claim::exclusive(key.clone(), owner);
    let request = Acquire::new(claim.clone(), Ttl::DEFAULT).queued();
    let check =
        |what: &str, is_so: bool| assert!(!is_so || said.has(TAG), "{what} without a word of the server");

    let watch = backend.watch(&key).await;
    for claim in [claim.clone(), claim.clone().in_mode(Mode::Shared)] {
        let request = Acquire::new(claim, Ttl::DEFAULT).queued();
        check("granted", is_granted(&backend.try_acquire(&request).await.ok()));
    }
    let renewal = backend.renew(&Renew::new(claim.clone(), Ttl::DEFAULT)).await;
    check("renewed", matches!(renewal, Renewal::Renewed { .. }));
    let requeued = backend.release_and_requeue(&claim, &request).await;
    check("granted", is_granted(&requeued.ok().and_then(|(_, attempt)| attempt)));
    let two = ["b", "c"].map(|name| {
        let claim = Claim::exclusive(Key::new(name).unwrap(), owner);
        Acquire::new(claim, Ttl::DEFAULT).reserving(NonZeroU32::MIN)
    });
    if let Ok(Some(attempts)) = backend.try_acquire_all(&two).await {
        let granted = attempts.into_iter().map(Some).filter(is_granted).count();
        assert!([0, 2].contains(&granted));
        check("granted", granted > 0);
    }
    let ballot = Ballot::new(Acquire::new(claim.clone(), Ttl::DEFAULT), FencingToken::new(7));
    check("voted", matches!(backend.vote(&ballot).await, Ok(Vote::Granted(_))));

    let _ = backend.confirm(&claim, FencingToken::new(7)).await;
    let terms = Terms::new(Membership::of(["a", "b", "c"]), Ttl::DEFAULT);
    if let Ok(standing) = backend.standing(&terms).await {
        let _ = backend.vouch(&standing.quarantine, Ttl::DEFAULT).await;
        let request = Acquire::new(claim.clone(), Ttl::DEFAULT);
        let ballot = Ballot::new(request, FencingToken::new(7)).expecting(standing);
        check("voted", matches!(backend.vote(&ballot).await, Ok(Vote::Granted(_))));
    }
    let _ = backend.inspect(&key).await.map(|it| format!("{it:?}"));
    let _ = backend.load(&key).await;
    let _ = backend.store(&claim, FencingToken::new(7), Some(b"value")).await;
    let _ = backend.permits(&key, 3).await;
    let _ = backend.resize(&key, 3, Resize::Add(1)).await;
    let _ = backend.force_release(&key).await;
    let _ = backend.check().await.map(|report| report.to_string());
    let _ = backend.release(&claim).await;

    if let Ok(mut watch) = watch {
        // There may be many, and the last of all that was said has come by now.
        while let Some(Some(hint)) = watch.next().now_or_never() {
            if let Hint::Granted { owner: whose, grant } = hint {
                assert_eq!(whose, owner);
                check("told", true);
                let latest = Clock::boot().now() + Ttl::DEFAULT.for_grant().duration();
                assert!(grant.is_none_or(|grant| grant.valid_until < latest));
            }
        }
    }
}

fn is_granted(attempt: &Option<AcquireOutcome>) -> bool {
    matches!(attempt, Some(AcquireOutcome::Granted(_)))
}
