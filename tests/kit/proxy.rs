//! Proxies: every switch, seen from both sides.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use lock_tests::Direction::{ToClient, ToServer};
use lock_tests::{Proxy, RedisServer, eventually, resp};

const LIMIT: Duration = Duration::from_secs(20);

fn client(proxy: &Proxy) -> resp::Client {
    resp::Client::connect(proxy.addr(), LIMIT).unwrap_or_else(|error| panic!("{error}"))
}

/// A client that waits for an answer for as long as a busy machine may need, and no longer.
fn hasty(proxy: &Proxy) -> resp::Client {
    resp::Client::connect(proxy.addr(), Duration::from_secs(2)).unwrap()
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
    assert_eq!(server.read(&mut [0; 8]).unwrap(), 0);
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
    // Another connection shows that the proxy had time to pass it on.
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
    let mut client = hasty(&proxy);
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
    let mut client = hasty(&proxy);
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

/// The kernel answers keepalives for a client that is silent, and nothing answers them for a client that has vanished.
#[cfg(target_os = "linux")]
#[test]
fn a_client_that_has_vanished_answers_no_keepalive() {
    let second = Duration::from_secs(1);
    let keepalive =
        socket2::TcpKeepalive::new().with_time(second).with_interval(second).with_retries(1);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let connect = || {
        let proxy = Proxy::start(listener.local_addr().unwrap());
        let client = TcpStream::connect(proxy.addr()).unwrap();
        let (server, _) = listener.accept().unwrap();
        socket2::SockRef::from(&server).set_tcp_keepalive(&keepalive).unwrap();
        server.set_read_timeout(Some(LIMIT)).unwrap();
        (proxy, client, server)
    };
    let ((vanished, _client, mut server), (silent, peer, mut other)) = (connect(), connect());
    silent.silence(ToServer);
    silent.silence(ToClient);
    vanished.vanish();
    // A signal ends a read with a time limit.
    let error = loop {
        match server.read(&mut [0; 8]) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            other => break other.unwrap_err(),
        }
    };
    assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
    assert_eq!(vanished.open(), 1, "the client hears nothing of it");

    other.set_nonblocking(true).unwrap();
    assert_eq!(other.read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock);
    silent.pass();
    other.set_nonblocking(false).unwrap();
    (&peer).write_all(b"here").unwrap();
    assert_eq!(other.read(&mut [0; 8]).unwrap(), 4);
}

#[test]
fn a_delay_postpones_every_reply_but_not_the_next_one_behind_it() {
    const DELAY: Duration = Duration::from_millis(300);
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    let mut client = client(&proxy);
    ping(&mut client).unwrap();
    proxy.delay(ToClient, DELAY);
    let start = Instant::now();
    for _ in 0..40 {
        client.send(&["PING"]).unwrap();
    }
    for _ in 0..40 {
        client.receive().unwrap();
    }
    assert!(start.elapsed() >= DELAY);
    assert!(start.elapsed() < DELAY * 20, "the delays have added up: {:?}", start.elapsed());
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
    // Which call sees the reset depends on how fast it comes.
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

#[test]
fn jitter_delays_each_by_another_time_and_keeps_the_order() {
    const MOST: Duration = Duration::from_millis(100);
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    let mut client = client(&proxy);
    ping(&mut client).unwrap();
    proxy.jitter(ToClient, MOST);
    let times: Vec<Duration> = (0..12)
        .map(|_| {
            let start = Instant::now();
            ping(&mut client).unwrap();
            start.elapsed()
        })
        .collect();
    assert!(times.iter().min() < Some(&(MOST / 3)), "{times:?}");
    assert!(times.iter().max() > Some(&(MOST / 2)), "{times:?}");
    for number in 0..20 {
        client.send(&["ECHO", &number.to_string()]).unwrap();
    }
    for number in 0..20 {
        assert_eq!(client.receive().unwrap().text(), number.to_string());
    }
}

#[test]
fn single_arrivals_straggle_and_other_connections_overtake_them() {
    const BY: Duration = Duration::from_millis(300);
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    let mut clients = [client(&proxy), client(&proxy)];
    clients.iter_mut().for_each(|client| drop(ping(client).unwrap()));
    proxy.straggle(ToServer, BY);
    let overtaken = (0..2_000).any(|_| {
        let start = Instant::now();
        let [slow, fast] = &mut clients;
        slow.send(&["PING"]).unwrap();
        ping(fast).unwrap();
        let other = start.elapsed();
        slow.receive().unwrap();
        start.elapsed() >= BY && other < BY / 2
    });
    assert!(overtaken, "no request of two thousand");
    proxy.straggle(ToServer, Duration::ZERO);
    // With the switch some fifteen of these would straggle. On a busy machine a few are late without it.
    let late = (0..1_000).filter(|_| {
        let start = Instant::now();
        ping(&mut clients[0]).unwrap();
        start.elapsed() >= BY
    });
    assert!(late.count() < 4, "requests are late without the switch");
}

#[test]
fn bytes_dribble_one_by_one() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = Proxy::start(listener.local_addr().unwrap());
    let mut client = TcpStream::connect(proxy.addr()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    proxy.dribble(ToServer, Some(Duration::from_millis(20)));
    let start = Instant::now();
    std::io::Write::write_all(&mut client, &[b'x'; 100]).unwrap();
    let mut buffer = [0; 128];
    let mut reads = Vec::new();
    while reads.iter().sum::<usize>() < 100 {
        let read = std::io::Read::read(&mut server, &mut buffer).unwrap();
        assert!(read > 0, "the proxy has closed the connection");
        reads.push(read);
        // Each byte but the first comes 20 ms after the one before it.
        let later = u32::try_from(reads.iter().sum::<usize>() - 1).unwrap();
        assert!(start.elapsed() >= later * Duration::from_millis(20), "{reads:?}");
    }
    assert!(reads.len() > 1, "all bytes came at once");
    proxy.dribble(ToServer, None);
    std::io::Write::write_all(&mut client, b"hello").unwrap();
    assert_eq!(std::io::Read::read(&mut server, &mut buffer).unwrap(), 5);
}

#[test]
fn a_dribbling_link_still_works() {
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    for direction in [ToServer, ToClient] {
        proxy.dribble(direction, Some(Duration::ZERO));
    }
    let mut client = client(&proxy);
    let value = "x".repeat(2_000);
    assert_eq!(client.command(&["SET", "k", &value]).unwrap().text(), "OK");
    assert_eq!(client.command(&["GET", "k"]).unwrap().text(), value);
}

#[test]
fn a_cut_reply_is_one_to_a_request_that_was_carried_out() {
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    let (mut busy, mut idle) = (client(&proxy), client(&proxy));
    ping(&mut busy).unwrap();
    ping(&mut idle).unwrap();
    proxy.cut_replies();
    let received = proxy.bytes(ToClient);
    let error = busy.command(&["INCR", "k"]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    assert_eq!((server.cli(&["GET", "k"]).text().as_str(), proxy.bytes(ToClient)), ("1", received));
    // A new client is served, and an existing one is cut whenever it asks.
    assert_eq!(client(&proxy).command(&["INCR", "k"]).unwrap().int(), 2);
    assert!(idle.command(&["INCR", "k"]).is_err());
    assert_eq!(server.cli(&["GET", "k"]).text(), "3");
}

#[test]
fn a_repeated_request_is_carried_out_twice_and_answered_once() {
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    let mut client = client(&proxy);
    assert_eq!(client.command(&["INCR", "k"]).unwrap().int(), 1);
    proxy.repeat(true);
    for number in 1..=50 {
        assert_eq!(client.command(&["INCR", "k"]).unwrap().int(), 2 * number + 1);
    }
    // Many at once: each twice, the copies in their order, the requests in theirs, and after their copies.
    for number in 0..20 {
        client.send(&["RPUSH", "list", &number.to_string()]).unwrap();
    }
    let lengths: Vec<i64> = (0..20).map(|_| client.receive().unwrap().int()).collect();
    let list = server.cli(&["LRANGE", "list", "0", "-1"]);
    let list: Vec<i64> = list.array().iter().map(|it| it.text().parse().unwrap()).collect();
    assert_eq!((list.len(), *lengths.last().unwrap()), (40, 40));
    for (number, length) in lengths.iter().enumerate() {
        let end = *length as usize;
        assert_eq!(list[end - 1], number as i64, "{list:?} {lengths:?}");
        assert_eq!(list[..end].iter().filter(|it| **it == number as i64).count(), 2, "{list:?}");
    }
    let copies = (0..40).filter(|at| !lengths.contains(&(*at as i64 + 1))).map(|at| list[at]);
    assert_eq!(copies.collect::<Vec<_>>(), (0..20).collect::<Vec<_>>());
    proxy.repeat(false);
    assert_eq!(client.command(&["INCR", "k"]).unwrap().int(), 102);
    let connections = || server.cli(&["CLIENT", "LIST", "TYPE", "normal"]).text().lines().count();
    eventually("the second connection is gone", LIMIT, || connections() == 2);
}

#[test]
fn a_copy_comes_from_the_same_user_and_what_subscribes_is_not_copied() {
    let server =
        RedisServer::builder().user("default", "off").user("me", "on >secret ~* &* +@all").start();
    let proxy = Proxy::before(&server);
    let mut client = client(&proxy);
    assert_eq!(client.command(&["AUTH", "me", "secret"]).unwrap().text(), "OK");
    assert_eq!(client.command(&["SELECT", "3"]).unwrap().text(), "OK");
    proxy.repeat(true);
    assert_eq!(client.command(&["INCR", "k"]).unwrap().int(), 2);
    assert_eq!(client.command(&["SUBSCRIBE", "news"]).unwrap().array().len(), 3);
    let subscribers = server.cli(&["PUBSUB", "NUMSUB", "news"]);
    assert_eq!(subscribers.array()[1].int(), 1);
}

#[test]
fn a_connection_that_speaks_something_else_is_not_repeated() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = Proxy::start(listener.local_addr().unwrap());
    proxy.repeat(true);
    let mut client = TcpStream::connect(proxy.addr()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    for text in ["GET / HTTP/1.1", "\r\n\r\n*1\r\n"] {
        std::io::Write::write_all(&mut client, text.as_bytes()).unwrap();
        let mut buffer = vec![0; text.len()];
        std::io::Read::read_exact(&mut server, &mut buffer).unwrap();
        assert_eq!(buffer, text.as_bytes());
    }
    assert_eq!(proxy.connections(), 1);
}

#[test]
fn what_was_silenced_is_delivered_when_it_may_speak_and_the_rest_stays_as_it_is() {
    let server = RedisServer::start();
    let proxy = Proxy::before(&server);
    let mut client = client(&proxy);
    ping(&mut client).unwrap();
    proxy.refuse();
    proxy.silence(ToServer);
    client.send(&["SET", "k", "v"]).unwrap();
    proxy.speak(ToServer);
    assert_eq!(client.receive().unwrap().text(), "OK");
    assert!(TcpStream::connect(proxy.addr()).is_err());
    proxy.accept();
    TcpStream::connect(proxy.addr()).unwrap();
}
