//! The words that go to the server: scripts that never change, and names and values as their arguments.

use std::collections::BTreeSet;
use std::time::Duration;

use lock_core::{
    Acquire, AcquireOutcome, Backend as _, Ballot, CellBackend as _, Claim, FencingToken,
    InspectBackend as _, Key, Label, List, Membership, Mode, OwnerToken, PermitBackend as _,
    Quarantine, QuorumNode as _, Renew, Resize, Stored, Terms, Ttl, Vote,
};
use lock_redis::{Protocol, RedisBackend};
use lock_tests::{RedisServer, quiet_retention};

use crate::monitor::Monitor;

const USER: &str = "Tq4ZbN8xWkGm2PfX7s";
const PASSWORD: &str = "Wj6Rv3Yh9Lc5Kd1Bz8";

/// Tells the label of the client of a claim: this text, without what no label may have.
async fn tell_label(backend: &RedisBackend, claim: &Claim, text: &[u8]) -> Label {
    let text = String::from_utf8_lossy(text);
    let label = Label::new(text.replace(char::is_control, "")).unwrap();
    let keep = Duration::from_secs(30);
    backend.introduce(claim.owner.client(), &label, keep).await.unwrap();
    label
}

async fn run_scripts_of_permits(backend: &RedisBackend, key: &Key, owner: OwnerToken, ttl: Ttl) {
    let permits = Claim::exclusive(key.clone(), owner).in_mode(Mode::Permits { take: 1, of: 2 });
    let _ = backend.try_acquire(&Acquire::new(permits.clone(), ttl)).await.unwrap();
    backend.resize(key, 2, Resize::Add(1)).await.unwrap();
    backend.forget(&permits).await.unwrap();
    let alone = Claim::exclusive(key.clone(), owner);
    assert!(!backend.undeclare(&alone).await.unwrap());
}

/// Every script, with such a name, such a value and such a prefix.
async fn run_every_script(backend: &RedisBackend, name: &[u8], value: &[u8]) {
    let (key, ttl) = (Key::new(name).unwrap(), Ttl::new(Duration::from_secs(30)).unwrap());
    let claim = || Claim::exclusive(key.clone(), OwnerToken::generate().unwrap());
    let asked = |claim: &Claim| Acquire::new(claim.clone(), ttl);
    backend.init().await.unwrap();
    let watch = backend.watch(&key).await.unwrap();
    let (held, next) = (claim(), claim());
    let label = tell_label(backend, &held, value).await;
    let beside = Claim::exclusive(Key::new("beside").unwrap(), held.owner);
    let grants = backend.try_acquire_all(&[asked(&held), asked(&beside)]).await.unwrap();
    let is_granted = |attempt: &AcquireOutcome| matches!(attempt, AcquireOutcome::Granted(_));
    assert!(grants.unwrap().iter().all(is_granted));
    backend.release(&beside).await.unwrap();
    let stored = backend.store(&held, FencingToken::new(1), Some(value)).await.unwrap();
    assert_eq!(stored, Stored::Written);
    assert_eq!(backend.load(&key).await.unwrap().unwrap().value, value);
    let _ = backend.try_acquire(&asked(&next).queued()).await.unwrap();
    let _ = backend.renew(&Renew::new(held.clone(), ttl)).await;
    backend.list(&List::of(name)).await.unwrap();
    let seen = backend.inspect(&key).await.unwrap();
    assert_eq!((seen.waiting, &seen.holders[0].label), (1, &Some(label)));
    backend.release(&held).await.unwrap();
    assert_eq!(backend.force_release(&key).await.unwrap(), 1);

    let reader = Claim::exclusive(Key::new("read").unwrap(), held.owner).in_mode(Mode::Shared);
    assert!(is_granted(&backend.try_acquire(&asked(&reader)).await.unwrap()));
    backend.release(&reader).await.unwrap();

    run_scripts_of_permits(backend, &key, held.owner, ttl).await;
    backend.force_release(&key).await.unwrap();

    backend.standing(&Terms::new(Membership::none(), ttl)).await.unwrap();
    backend.vouch(&Quarantine::new("a0"), ttl).await.unwrap();
    let ballot = Ballot::new(asked(&claim()), FencingToken::new(1));
    let vote = backend.vote(&ballot).await.unwrap();
    assert!(matches!(vote, Vote::Granted(_)), "{vote:?}");
    backend.confirm(&ballot.request.claim, FencingToken::new(1)).await.unwrap();
    backend.release(&ballot.request.claim).await.unwrap();
    backend.check().await.unwrap();
    drop(watch);
}

/// The effect of a run on the server: the texts of its scripts, the names of the called scripts, and all words
/// of all commands.
async fn seen(prefix: &str, name: &[u8], value: &[u8]) -> [BTreeSet<String>; 3] {
    let server = RedisServer::builder().user(USER, format!("on >{PASSWORD} ~* &* +@all")).start();
    let watched = Monitor::start(&server);
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        let builder = RedisBackend::builder(server.url_as(USER, PASSWORD))
            .protocol(protocol)
            .tracking(protocol == Protocol::Resp3);
        let builder = builder.prefix(prefix).data_quarantine(Ttl::MAX);
        let backend = builder.retention(quiet_retention()).build().unwrap();
        run_every_script(&backend, name, value).await;
    }
    let list = server.cli(&["CLIENT", "LIST"]).text();
    let clients = list.lines().filter(|line| line.contains(USER));
    assert!(clients.clone().count() > 0 && clients.clone().all(|line| line.contains(" name= ")));

    let (mut texts, mut called, mut words) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for command in watched.commands() {
        match command[0].to_ascii_uppercase().as_str() {
            "SCRIPT" => texts.extend(command.get(2).cloned()),
            "EVALSHA" => called.extend(command.get(1).cloned()),
            "EVAL" | "EVAL_RO" | "FUNCTION" | "FCALL" => panic!("{command:?}"),
            _ => {}
        }
        words.extend(command);
    }
    let exist = server.cli(
        &[&["SCRIPT", "EXISTS"], &*called.iter().map(String::as_str).collect::<Vec<_>>()].concat(),
    );
    assert!(exist.array().iter().all(|exists| exists.int() == 1));
    [texts, called, words]
}

#[tokio::test]
async fn scripts_do_not_depend_on_names_or_values() {
    const SCRIPTS: usize = 36;
    // The other scripts are for many leases at once, for slots that are being moved, and for values that come with a
    // grant.
    const CALLED: usize = 28;
    let wild = br#"Zq8Xv"); redis.call('FLUSHALL') --]]
        \"..KEYS[1].."%d{}"#;
    let [texts, called, _] = seen("lock:", b"plain", b"plain").await;
    assert_eq!((texts.len(), called.len()), (SCRIPTS, CALLED));
    let [wild_texts, wild_called, words] = seen("Zq8Xv'..':", wild, wild).await;
    assert_eq!((&wild_texts, &wild_called), (&texts, &called));
    assert!(!texts.iter().any(|text| text.contains("Zq8Xv")));
    // The text could be seen, and no part of it ran.
    assert!(words.iter().any(|word| word.contains("Zq8Xv")));
    assert!(!words.contains("FLUSHALL"));
}

#[tokio::test]
async fn credentials_are_sent_to_log_in_and_never_again() {
    let [.., words] = seen("lock:", b"name", b"value").await;
    for secret in [USER, PASSWORD] {
        let found = words.iter().find(|word| word.contains(secret));
        assert_eq!(found, None);
    }
}
