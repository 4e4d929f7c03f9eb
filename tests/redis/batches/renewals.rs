//! Renewals, and the answer to each.

use lock_core::{Backend, Claim, Contention, Renew, Watch};
use lock_redis::{Protocol, RedisBackend};
use lock_tests::quiet_retention;

use super::{MANY, claims, contention, hold, open, pttl, renew, scripts};
use crate::support::{Client, Server, Waiter, calls, claim_of, granted, long};

#[tokio::test]
async fn renewals_that_begin_together_are_few_scripts() {
    let server = Server::start();
    let backend = open(&server);
    let claims = claims(MANY);
    hold(&backend, &claims).await;
    // The first batch loads the script.
    renew(&backend, &claims).await;
    let mut raw = server.client();
    for number in 0..MANY {
        raw.command::<()>(&["PEXPIRE", &format!("lock:{{{number}}}"), "5000"]);
        raw.command::<()>(&["PEXPIRE", &format!("lock:{{{number}}}:state"), "5000"]);
    }
    let before = scripts(&mut raw);
    let renewed = renew(&backend, &claims).await;
    assert_eq!(scripts(&mut raw) - before, 2);
    assert!(renewed.iter().all(|it| contention(it) == Some(Contention::Unknown)));
    for number in 0..MANY {
        let [lock, state] =
            ["", ":state"].map(|end| pttl(&mut raw, &format!("lock:{{{number}}}{end}")));
        assert!(lock > 50_000 && state > lock, "{lock} {state}");
    }
}

#[tokio::test]
async fn a_lone_renewal_is_the_script_that_it_was() {
    let server = Server::start();
    let builder = RedisBackend::builder(server.url());
    let backend = builder.retention(quiet_retention()).build().unwrap();
    let claims = claims(2);
    hold(&backend, &claims).await;
    let mut raw = server.client();
    let count = |raw: &mut Client| (scripts(raw), calls(raw, "get"));
    let before = count(&mut raw);
    for _ in 0..10 {
        renew(&backend, &claims[..1]).await;
    }
    // The quick script reads no state, for which a script would use GET.
    assert_eq!(count(&mut raw), (before.0 + 10, before.1));
    let task = |claim: Claim| {
        let backend = backend.clone();
        tokio::spawn(async move { backend.renew(&Renew::new(claim, long())).await })
    };
    for claim in &claims {
        assert_eq!(contention(&task(claim.clone()).await.unwrap()), Some(Contention::Unknown));
    }
    assert_eq!(count(&mut raw), (before.0 + 12, before.1));
}

/// The fate of a lease before it is renewed together with others.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Nothing,
    Watched,
    WatchedLater,
    Wanted,
    Gone,
    Taken,
    Overwritten,
    OfAnotherType,
    WithoutState,
    WithOddState,
    Unsettled,
}

const FATES: [Fate; 11] = [
    Fate::Nothing,
    Fate::Watched,
    Fate::WatchedLater,
    Fate::Wanted,
    Fate::Gone,
    Fate::Taken,
    Fate::Overwritten,
    Fate::OfAnotherType,
    Fate::WithoutState,
    Fate::WithOddState,
    Fate::Unsettled,
];

impl Fate {
    fn contention(self) -> Option<Contention> {
        match self {
            Self::Nothing | Self::WithoutState | Self::WithOddState => Some(Contention::Unknown),
            Self::Watched | Self::WatchedLater => Some(Contention::Quiet),
            Self::Wanted | Self::Unsettled => Some(Contention::Contended),
            Self::Gone | Self::Taken | Self::Overwritten | Self::OfAnotherType => None,
        }
    }

    /// Whether the script for one lease has to decide.
    fn is_odd(self) -> bool {
        let odd = [Self::WatchedLater, Self::OfAnotherType, Self::WithoutState, Self::Unsettled];
        odd.contains(&self)
    }
}

/// Leases after their fate, and the values that keep the fate up.
struct Scene {
    claims: Vec<Claim>,
    watches: Vec<Watch>,
    waiters: Vec<Waiter>,
}

impl Scene {
    async fn set(server: &Server, holder: &RedisBackend, other: &RedisBackend) -> Self {
        let claims = claims(MANY);
        let mut scene = Self { claims: claims.clone(), watches: Vec::new(), waiters: Vec::new() };
        let mut raw = server.client();
        for (number, claim) in claims.iter().enumerate() {
            let fate = FATES[number % FATES.len()];
            if fate == Fate::Watched {
                scene.watches.push(holder.watch(&claim.key).await.unwrap());
            }
            granted(holder, claim).await;
            scene.befall(fate, claim, holder, other).await;
            befall_keys(&mut raw, fate, &format!("lock:{{{number}}}"));
        }
        scene
    }

    async fn befall(
        &mut self,
        fate: Fate,
        claim: &Claim,
        holder: &RedisBackend,
        other: &RedisBackend,
    ) {
        match fate {
            Fate::WatchedLater => self.watches.push(holder.watch(&claim.key).await.unwrap()),
            Fate::Wanted | Fate::Unsettled => {
                self.waiters.push(Waiter::queue(other, claim_of(claim.key.clone())).await);
            }
            Fate::Taken => {
                holder.release(claim).await.unwrap();
                granted(other, &claim_of(claim.key.clone())).await;
            }
            _ => {}
        }
    }
}

fn befall_keys(raw: &mut Client, fate: Fate, lock: &str) {
    let state = format!("{lock}:state");
    match fate {
        Fate::Gone => raw.command::<()>(&["DEL", lock]),
        Fate::Overwritten => raw.command(&["SET", lock, "theirs"]),
        Fate::OfAnotherType => {
            raw.command::<()>(&["DEL", lock]);
            raw.command(&["RPUSH", lock, "theirs"])
        }
        Fate::WithoutState => raw.command(&["DEL", &state]),
        Fate::WithOddState => raw.command(&["SET", &state, "odd", "PX", "9999999999"]),
        // The mark is lost, as when an older copy of the lock came back.
        Fate::Unsettled => {
            let text = raw.command::<String>(&["GET", lock]);
            raw.command(&["SET", lock, &text[..32], "PX", "5000"])
        }
        _ => {}
    }
}

#[tokio::test]
async fn each_renewal_has_its_own_answer() {
    let server = Server::start();
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        let open = || RedisBackend::builder(server.url()).protocol(protocol).build().unwrap();
        let (holder, other) = (open(), open());
        let mut raw = server.client();
        let scene = Scene::set(&server, &holder, &other).await;
        renew(&holder, &scene.claims[..2]).await;
        let before = scripts(&mut raw);
        let renewed = renew(&holder, &scene.claims).await;
        let calls = scripts(&mut raw) - before;
        let fates = || (0..MANY).map(|number| FATES[number % FATES.len()]);
        for (number, (fate, renewal)) in fates().zip(&renewed).enumerate() {
            // The quick script, too, assumes that no claim waits for a lock without a watch and without a
            // mark.
            let expected =
                if fate == Fate::Unsettled { Some(Contention::Unknown) } else { fate.contention() };
            assert_eq!(contention(renewal), expected, "{number} {fate:?}");
            if expected.is_some() {
                assert!(pttl(&mut raw, &format!("lock:{{{number}}}")) > 50_000, "{fate:?}");
            }
        }
        let odd = fates().filter(|fate| fate.is_odd() && *fate != Fate::Unsettled).count() as u64;
        assert_eq!(calls, 2 + odd, "{protocol:?}");
        assert_eq!(raw.command::<String>(&["GET", "lock:{6}"]), "theirs");
        assert_eq!(raw.command::<String>(&["GET", "lock:{9}:state"]), "odd");
        // The odd values are corrected.
        let before = scripts(&mut raw);
        let renewed = renew(&holder, &scene.claims[1..3]).await;
        assert!(renewed.iter().all(|it| contention(it) == Some(Contention::Quiet)));
        assert_eq!(scripts(&mut raw) - before, 1);
        raw.command::<()>(&["FLUSHALL"]);
    }
}
