//! What a client hears of its claims, and when it hears no more.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use lock_core::{Acquire, AcquireOutcome, Backend, Claim, Hint, Watch};
use lock_etcd::EtcdBackend;
use lock_tests::{EtcdServer, soon};

use crate::support::{Part, claim, granted, long};

async fn queued(store: &EtcdBackend, claim: &Claim) {
    let outcome = store.try_acquire(&Acquire::new(claim.clone(), long()).queued()).await.unwrap();
    assert!(matches!(outcome, AcquireOutcome::Queued { .. }), "{outcome:?}");
}

/// Waits for the news of a grant, and says whether they bring the grant.
async fn is_granted(watch: &mut Watch) -> bool {
    loop {
        if let Hint::Granted { grant, .. } = soon(watch.next()).await.expect("the watch goes on") {
            return grant.is_some();
        }
    }
}

/// The form that puts the only value under keys with this prefix once more. The key keeps the lease that it has then.
fn form(server: &EtcdServer, prefix: &str) -> String {
    let text = server.ctl(&["get", "--prefix", "--write-out=json", "--", prefix]);
    let pair = text.split('}').find(|pair| pair.contains("\"value\"")).expect("a value");
    let field = |name: &str| {
        let (_, rest) = pair.split_once(&format!("\"{name}\":\"")).unwrap();
        rest.split('"').next().unwrap()
    };
    let (key, value) = (field("key"), field("value"));
    format!(r#"{{"key":"{key}","value":"{value}","ignore_lease":true}}"#)
}

fn put_once_more(server: &EtcdServer, form: &str) {
    let mut stream = TcpStream::connect(server.addr()).unwrap();
    let len = form.len();
    write!(stream, "POST /v3/kv/put HTTP/1.0\r\nContent-Length: {len}\r\n\r\n{form}").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("revision"), "{answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_news_of_a_grant_grant_no_later_place_of_the_owner() {
    let part = Part::new();
    let (holder, waiter) = (part.open(), part.open());
    let (first, second, wanted) = (claim("it"), claim("it"), claim("it"));
    let mut watch = waiter.watch(&wanted.key).await.unwrap();
    granted(&holder, &first, long()).await;
    queued(&waiter, &wanted).await;
    holder.release(&first).await.unwrap();
    assert!(is_granted(&mut watch).await);
    let news = form(part.server, &format!("{}a/", part.folder()));

    waiter.release(&wanted).await.unwrap();
    granted(&holder, &second, long()).await;
    queued(&waiter, &wanted).await;
    put_once_more(part.server, &news);
    assert!(!is_granted(&mut watch).await, "two holders");
    holder.release(&second).await.unwrap();
    assert!(is_granted(&mut watch).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_further_claim_of_a_client_takes_no_news_from_the_first_one() {
    let part = Part::new();
    let (holder, waiter) = (part.open(), part.open());
    let (first, further) = (claim("it"), claim("it"));
    granted(&holder, &claim("it"), long()).await;
    let leases = part.server.leases_of(&part.folder());
    let mut watch = waiter.watch(&first.key).await.unwrap();
    queued(&waiter, &first).await;
    queued(&waiter, &further).await;
    waiter.release(&further).await.unwrap();
    for lease in leases {
        part.server.revoke(&lease);
    }
    assert_eq!(soon(watch.next()).await, Some(Hint::Expired));
    granted(&waiter, &first, long()).await;
}

/// The stream belongs to the client, and not to the user who still has it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_ends_with_the_last_handle_of_its_client() {
    let part = Part::new();
    let store = part.open();
    let other = store.clone();
    let mut watch = store.watch(&claim("it").key).await.unwrap();
    drop(store);
    let heard = tokio::time::timeout(Duration::from_millis(50), watch.next()).await;
    assert!(heard.is_err(), "{heard:?}");
    drop(other);
    assert_eq!(soon(watch.next()).await, None);
}

/// A user who does not look at the hints hears once that some were missed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hints_that_no_user_takes_do_not_pile_up() {
    let part = Part::new();
    let (store, watcher) = (part.open(), part.open());
    let ours = claim("it");
    let mut behind = watcher.watch(&ours.key).await.unwrap();
    let mut beside = watcher.watch(&ours.key).await.unwrap();
    for _ in 0..400 {
        granted(&store, &ours, long()).await;
        store.release(&ours).await.unwrap();
        assert_eq!(soon(beside.next()).await, Some(Hint::Released));
    }
    let mut count = 0;
    while soon(behind.next()).await != Some(Hint::Resync) {
        count += 1;
        assert!(count < 400, "each hint was kept");
    }
}
