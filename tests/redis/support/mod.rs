//! Servers from the kit, clients of another library, and short forms of requests.

mod cluster;
mod relay;
mod server;
mod waiting;

use std::time::Duration;

use lock_core::{AcquireOutcome, Backend, Claim, Error, Grant, Key, OwnerToken, Ttl};

pub(crate) use self::cluster::Cluster;
pub(crate) use self::server::{Client, Server};
pub(crate) use self::waiting::Waiter;
use lock_redis::RedisBackend;
pub(crate) use lock_tests::requests::{claim, long, refused};
use lock_tests::{CommandStats, Direction, Proxy, requests};

/// A client of the server with the default options.
pub(crate) fn open(server: &Server) -> RedisBackend {
    RedisBackend::open(server.url()).unwrap()
}

/// All keys of the server, in order.
pub(crate) fn keys(raw: &mut Client) -> Vec<String> {
    let mut keys = raw.command::<Vec<String>>(&["KEYS", "*"]);
    keys.sort();
    keys
}

pub(crate) fn millis(millis: u64) -> Ttl {
    Ttl::new(Duration::from_millis(millis)).unwrap()
}

pub(crate) fn claim_of(key: Key) -> Claim {
    Claim::exclusive(key, OwnerToken::generate().unwrap())
}

pub(crate) async fn attempt(
    backend: &impl Backend,
    claim: &Claim,
) -> Result<AcquireOutcome, Error> {
    requests::attempt(backend, claim, long()).await
}

/// Asks for a lease that must be granted.
pub(crate) async fn granted(backend: &impl Backend, claim: &Claim) -> Grant {
    requests::granted(backend, claim, long()).await
}

/// The state of a lock with this highest token.
pub(crate) fn state_after(latest: u64) -> String {
    const EPOCH: u64 = 1_577_836_800_000_000;
    let clock = EPOCH + latest.div_ceil(4);
    let below = ["-", "1", "2", "3"][(latest.div_ceil(4) * 4 - latest) as usize];
    format!("{clock}{below}{:016}", 0)
}

/// How often the server has run this command, by its own count.
pub(crate) fn calls(raw: &mut Client, command: &str) -> u64 {
    CommandStats::parse(&raw.command::<String>(&["INFO", "commandstats"])).calls(command)
}

/// Fails the test when a call takes too long.
pub(crate) async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), what).await.expect("it takes too long")
}

/// A proxy before a server.
pub(crate) fn proxy_before(server: &Server) -> Proxy {
    Proxy::start(([127, 0, 0, 1], server.port()).into())
}

/// Holds all bytes back, and keeps the connections.
pub(crate) fn silence(proxy: &Proxy) {
    proxy.silence(Direction::ToServer);
    proxy.silence(Direction::ToClient);
}

/// Closes the present connections, but not later ones.
pub(crate) fn sever(proxy: &Proxy) {
    proxy.cut();
    proxy.pass();
}
