//! Proxies: every switch, seen from both sides.

use std::io::ErrorKind;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use lock_tests::Direction::{ToClient, ToServer};
use lock_tests::{Proxy, RedisServer, eventually, resp};

const LIMIT: Duration = Duration::from_secs(20);

fn client(proxy: &Proxy) -> resp::Client {
    resp::Client::connect(proxy.addr(), LIMIT).unwrap_or_else(|error| panic!("{error}"))
}

fn ping(client: &mut resp::Client) -> std::io::Result<resp::Value> {
    client.command(&["PING"])
}

#[test]
fn bytes_pass_and_are_counted() {
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    let mut client = client(&proxy);
    let value = "x".repeat(1 << 20);
    assert_eq!(client.command(&["SET", "k", &value]).unwrap().text(), "OK");
    assert_eq!(client.command(&["GET", "k"]).unwrap().text(), value);
    assert_eq!(proxy.connections(), 1);
    for direction in [ToServer, ToClient] {
        eventually("the bytes are counted", LIMIT, || proxy.bytes(direction) > 1 << 20);
    }
}

#[test]
fn the_end_of_one_side_reaches_the_other() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = Proxy::start(listener.local_addr().unwrap());
    let client = TcpStream::connect(proxy.addr()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    assert_eq!(proxy.open(), 1);
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(std::io::Read::read(&mut server, &mut [0; 8]).unwrap(), 0);
    drop(server);
    eventually("the proxy has let go", LIMIT, || proxy.open() == 0);
}

#[test]
fn a_cut_resets_what_is_open_and_nothing_else() {
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    let mut before = client(&proxy);
    ping(&mut before).unwrap();
    proxy.cut();
    assert_eq!(proxy.open(), 0);
    assert_eq!(before.receive().unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert_eq!(ping(&mut client(&proxy)).unwrap().text(), "PONG");
}

#[test]
fn refused_connections_are_refused_until_they_pass() {
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    let mut before = client(&proxy);
    ping(&mut before).unwrap();
    proxy.refuse();
    let error = resp::Client::connect(proxy.addr(), LIMIT).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    assert_eq!(ping(&mut before).unwrap().text(), "PONG");
    proxy.pass();
    assert_eq!(ping(&mut client(&proxy)).unwrap().text(), "PONG");
}

#[test]
fn a_silenced_request_does_not_arrive_until_it_passes() {
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    let mut client = client(&proxy);
    ping(&mut client).unwrap();
    let sent = proxy.bytes(ToServer);
    proxy.silence(ToServer);
    client.send(&["SET", "k", "v"]).unwrap();
    // Another connection shows that the proxy had its chance to pass it on.
    let mut other = resp::Client::connect(proxy.addr(), Duration::from_millis(200)).unwrap();
    assert!(ping(&mut other).is_err());
    assert_eq!(proxy.bytes(ToServer), sent);
    assert!(server.cli(&["GET", "k"]).is_nil());
    proxy.pass();
    assert_eq!(client.receive().unwrap().text(), "OK");
}

#[test]
fn a_silenced_reply_was_still_earned() {
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    let mut client = resp::Client::connect(proxy.addr(), Duration::from_millis(200)).unwrap();
    proxy.silence(ToClient);
    client.send(&["INCR", "k"]).unwrap();
    eventually("the request has arrived", LIMIT, || server.cli(&["EXISTS", "k"]).int() == 1);
    assert!(client.receive().is_err());
    assert_eq!(proxy.bytes(ToClient), 0);
}

#[test]
fn a_half_open_connection_hides_the_death_of_the_server() {
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    let mut client = resp::Client::connect(proxy.addr(), Duration::from_millis(200)).unwrap();
    ping(&mut client).unwrap();
    proxy.silence(ToServer);
    proxy.silence(ToClient);
    server.kill();
    let error = client.receive().unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}");
    proxy.pass();
    assert!(matches!(
        client.receive().unwrap_err().kind(),
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset
    ));
}

#[test]
fn a_delay_postpones_every_reply_but_not_the_next_one_behind_it() {
    const DELAY: Duration = Duration::from_millis(100);
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    let mut client = client(&proxy);
    ping(&mut client).unwrap();
    proxy.delay(ToClient, DELAY);
    let start = Instant::now();
    for _ in 0..20 {
        client.send(&["PING"]).unwrap();
    }
    for _ in 0..20 {
        client.receive().unwrap();
    }
    assert!(start.elapsed() >= DELAY);
    assert!(start.elapsed() < DELAY * 10, "the delays have added up: {:?}", start.elapsed());
    proxy.delay(ToServer, LIMIT * 10);
    client.send(&["PING"]).unwrap();
    proxy.pass();
    client.receive().unwrap();
}

#[test]
fn a_server_that_is_gone_resets_new_connections() {
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    server.kill();
    // Where the reset is seen depends on how fast it comes.
    let answer =
        resp::Client::connect(proxy.addr(), LIMIT).and_then(|mut client| ping(&mut client));
    assert!(answer.is_err());
    server.restart();
    assert_eq!(ping(&mut client(&proxy)).unwrap().text(), "PONG");
}

#[test]
fn a_dropped_proxy_is_gone() {
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    let mut client = client(&proxy);
    ping(&mut client).unwrap();
    let addr = proxy.addr();
    drop(proxy);
    assert!(client.receive().is_err());
    assert!(TcpStream::connect(addr).is_err());
}

#[tokio::test]
async fn it_serves_while_the_executor_of_the_test_is_blocked() {
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    let mut client = client(&proxy);
    assert_eq!(ping(&mut client).unwrap().text(), "PONG");
    proxy.silence(ToClient);
    proxy.pass();
    assert_eq!(ping(&mut client).unwrap().text(), "PONG");
}
