//! Servers: start, faults, end.

use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use lock_tests::{Port, RedisServer, eventually, process, resp};

const LIMIT: Duration = Duration::from_secs(20);

#[test]
fn two_servers_know_nothing_of_each_other() {
    let (one, other) = (RedisServer::start(), RedisServer::start());
    assert_ne!(one.port(), other.port());
    assert_eq!(one.cli(&["SET", "k", "1"]).text(), "OK");
    assert!(other.cli(&["GET", "k"]).is_nil());
    assert_eq!(one.keys("*"), ["k"]);
    one.flushall();
    assert!(one.keys("*").is_empty());
}

#[test]
fn any_command_and_any_bytes_go_through() {
    let server = RedisServer::start();
    server.cli(&[&b"SET"[..], b"\0\r\n{}", b"\xff"]);
    assert_eq!(server.cli(&[&b"GET"[..], b"\0\r\n{}"]), resp::Value::Text(vec![0xff]));
    assert_eq!(server.cli(&["RPUSH", "list", "a", "b"]).int(), 2);
    assert_eq!(server.cli(&["LRANGE", "list", "0", "-1"]).array()[1].text(), "b");
    assert!(server.cli(&["INCR", "list"]).error().starts_with("WRONGTYPE"));
}

#[test]
fn a_stopped_server_answers_once_it_goes_on() {
    let server = RedisServer::start();
    // Long enough for the first answer of a server on a busy machine.
    let mut client = resp::Client::connect(server.addr(), Duration::from_secs(2)).unwrap();
    assert_eq!(client.command(&["PING"]).unwrap().text(), "PONG");
    server.stop();
    client.send(&["SET", "k", "v"]).unwrap();
    assert!(client.receive().is_err());
    server.cont();
    // A command that was sent to a stopped server takes effect when the server goes on.
    eventually("the key is set", LIMIT, || server.cli(&["EXISTS", "k"]).int() == 1);
}

#[test]
fn a_killed_server_refuses_connections_and_comes_back_empty() {
    let server = RedisServer::start();
    server.cli(&["SET", "k", "v"]);
    let (pid, addr) = (server.pid(), server.addr());
    server.kill();
    assert!(!process::is_alive(pid));
    let refused = server.try_cli(&["PING"]).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    server.restart();
    assert_eq!(server.addr(), addr);
    assert_ne!(server.pid(), pid);
    assert!(server.cli(&["GET", "k"]).is_nil());
}

#[test]
fn a_restart_keeps_an_append_only_file() {
    let server = RedisServer::builder().append_only().start();
    server.cli(&["SET", "k", "v"]);
    server.restart();
    assert_eq!(server.cli(&["GET", "k"]).text(), "v");
}

#[test]
fn a_server_comes_back_with_a_copy_from_before_or_with_nothing() {
    for server in [RedisServer::builder(), RedisServer::builder().append_only()] {
        let server = server.start();
        server.cli(&["SET", "k", "then"]);
        let copy = server.copy_data();
        server.cli(&["SET", "k", "now"]);
        server.kill();
        server.restore(&copy);
        server.restart();
        assert_eq!(server.cli(&["GET", "k"]).text(), "then");
        server.kill();
        server.erase();
        server.restart();
        assert!(server.cli(&["GET", "k"]).is_nil());
    }
}

#[test]
fn a_restart_also_ends_a_server_that_stands_still() {
    let server = RedisServer::start();
    server.stop();
    server.restart();
    assert_eq!(server.cli(&["PING"]).text(), "PONG");
}

#[test]
fn options_reach_the_server() {
    let server = RedisServer::builder()
        .password("open sesame")
        .user("reader", "on >secret ~lock:* +get")
        .config("notify-keyspace-events", "Kgxe")
        .start();
    let flags = server.cli(&["CONFIG", "GET", "notify-keyspace-events"]).array()[1].text();
    assert_eq!(flags.len(), 4, "{flags}");

    let mut client = resp::Client::connect(server.addr(), LIMIT).unwrap();
    assert!(client.command(&["PING"]).unwrap().error().starts_with("NOAUTH"));
    assert_eq!(client.command(&["AUTH", "open sesame"]).unwrap().text(), "OK");
    assert_eq!(client.command(&["AUTH", "reader", "secret"]).unwrap().text(), "OK");
    assert!(client.command(&["GET", "lock:a"]).unwrap().is_nil());
    assert!(client.command(&["GET", "other"]).unwrap().error().starts_with("NOPERM"));
    assert!(client.command(&["DEL", "lock:a"]).unwrap().error().starts_with("NOPERM"));
}

#[test]
fn the_unix_socket_is_there() {
    let server = RedisServer::start();
    UnixStream::connect(server.socket()).unwrap();
}

#[test]
fn a_server_that_cannot_start_says_why() {
    let start = || RedisServer::builder().config("no-such-option", "1").start();
    let panic = std::panic::catch_unwind(start).unwrap_err();
    let message = panic.downcast_ref::<String>().unwrap();
    assert!(message.contains("no-such-option"), "{message}");
}

#[test]
fn clients_are_killed_but_for_the_kit() {
    let server = RedisServer::start();
    let mut client = resp::Client::connect(server.addr(), LIMIT).unwrap();
    let mut subscriber = resp::Client::connect(server.addr(), LIMIT).unwrap();
    client.command(&["PING"]).unwrap();
    subscriber.command(&["SUBSCRIBE", "news"]).unwrap();
    assert_eq!(server.client_kill_all(), 2);
    assert!(client.receive().is_err());
    assert!(subscriber.receive().is_err());
    assert_eq!(server.cli(&["PING"]).text(), "PONG");
}

#[test]
fn commands_are_counted() {
    let server = RedisServer::start();
    let before = server.commandstats();
    for _ in 0..3 {
        server.cli(&["SET", "k", "v"]);
    }
    let stats = server.commandstats().since(&before);
    assert_eq!((stats.calls("set"), stats.total()), (3, 3));
}

#[test]
fn a_dropped_server_is_gone_with_its_folder() {
    let server = RedisServer::start();
    let (pid, folder) = (server.pid(), server.folder().to_owned());
    assert!(process::is_alive(pid) && folder.is_dir());
    drop(server);
    assert!(!process::is_alive(pid) && !folder.exists());
}

#[test]
fn many_servers_start_at_once() {
    let start = Instant::now();
    let servers: Vec<RedisServer> = std::thread::scope(|scope| {
        let starts: Vec<_> = (0..8).map(|_| scope.spawn(RedisServer::start)).collect();
        starts.into_iter().map(|start| start.join().unwrap()).collect()
    });
    for (number, server) in servers.iter().enumerate() {
        server.cli(&["SET", "number", &number.to_string()]);
    }
    for (number, server) in servers.iter().enumerate() {
        assert_eq!(server.cli(&["GET", "number"]).text(), number.to_string());
    }
    assert!(start.elapsed() < LIMIT);
}

#[test]
fn a_port_that_a_stranger_took_is_not_used() {
    let port = Port::reserve();
    let _stranger = std::net::TcpListener::bind(port.addr()).unwrap();
    let start = || RedisServer::builder().config("port", port.number().to_string()).start();
    // The option overrides the kit's own choice, so every attempt fails.
    let panic = std::panic::catch_unwind(start).unwrap_err();
    let message = panic.downcast_ref::<String>().unwrap().to_lowercase();
    assert!(message.contains("address already in use"), "{message}");
}
