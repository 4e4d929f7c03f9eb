//! A link that follows sentinels, over servers and sentinels that answer as the test says.

use std::net::Ipv4Addr;
use std::sync::Mutex;

use lock_core::observer::Telling;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{broadcast, watch};

use super::super::Link;
use super::super::settings::Origin;
use super::*;
use crate::options::Protocol;
use crate::topology::Target;

/// On a busy machine.
const LIMIT: Duration = Duration::from_secs(20);

/// A server or a sentinel.
struct Fake {
    port: u16,
    /// The commands that have come, by their first words.
    asked: watch::Sender<Vec<String>>,
    /// The command that gets no answer for now, if there is one.
    withheld: watch::Sender<&'static str>,
    /// What a sentinel names: the epoch, and the port of the primary.
    named: Mutex<(u64, u16)>,
    /// The messages to all subscribers. An empty one hangs up.
    messages: broadcast::Sender<String>,
}

impl Fake {
    async fn start() -> Arc<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let fake = Arc::new(Self {
            port: listener.local_addr().unwrap().port(),
            asked: watch::Sender::default(),
            withheld: watch::Sender::default(),
            named: Mutex::default(),
            messages: broadcast::Sender::new(8),
        });
        let serving = Arc::clone(&fake);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(Arc::clone(&serving).serve(stream));
            }
        });
        fake
    }

    async fn serve(self: Arc<Self>, mut stream: TcpStream) {
        let (mut text, mut buffer) = (String::new(), [0; 4096]);
        let mut messages: Option<broadcast::Receiver<String>> = None;
        loop {
            let message = async {
                match &mut messages {
                    None => std::future::pending().await,
                    Some(messages) => messages.recv().await.unwrap(),
                }
            };
            tokio::select! {
                read = stream.read(&mut buffer) => {
                    let Ok(count @ 1..) = read else { return };
                    text += std::str::from_utf8(&buffer[..count]).unwrap();
                }
                message = message => {
                    if message.is_empty() {
                        return;
                    }
                    let channel = words(&["message", SWITCHED, &message]);
                    stream.write_all(channel.as_bytes()).await.unwrap();
                }
            }
            while let Some((command, end)) = request(&text) {
                text.drain(..end);
                if command == "SUBSCRIBE" {
                    messages = Some(self.messages.subscribe());
                }
                let answer = self.answer(&command).await;
                if stream.write_all(answer.as_bytes()).await.is_err() {
                    return;
                }
            }
        }
    }

    async fn answer(&self, command: &str) -> String {
        self.asked.send_modify(|asked| asked.push(command.to_owned()));
        self.withheld.subscribe().wait_for(|withheld| *withheld != command).await.unwrap();
        match command {
            "CLIENT" => "+OK\r\n".to_owned(),
            "ROLE" => words(&["master"]),
            "SUBSCRIBE" => {
                format!("*3\r\n$9\r\nsubscribe\r\n${}\r\n{SWITCHED}\r\n:1\r\n", SWITCHED.len())
            }
            "SENTINEL" => {
                let (epoch, port) = *self.named.lock().unwrap();
                let (epoch, port) = (epoch.to_string(), port.to_string());
                words(&["ip", "127.0.0.1", "port", &port, "config-epoch", &epoch])
            }
            _ => "-ERR no\r\n".to_owned(),
        }
    }

    /// Waits until this command has come so many times.
    async fn is_asked(&self, command: &str, times: usize) {
        let mut asked = self.asked.subscribe();
        let count = |asked: &Vec<String>| asked.iter().filter(|it| *it == command).count();
        let waiting = asked.wait_for(|asked| count(asked) >= times);
        let outcome = time::timeout(LIMIT, waiting).await.map(drop);
        assert!(outcome.is_ok(), "{command} came {} times", count(&self.asked.borrow()));
    }

    fn names(&self, epoch: u64, primary: &Self) {
        *self.named.lock().unwrap() = (epoch, primary.port);
    }

    fn tells(&self, old: &Self, new: &Self) {
        let message = format!("main 127.0.0.1 {} 127.0.0.1 {}", old.port, new.port);
        self.messages.send(message).unwrap();
    }

    fn hangs_up(&self) {
        self.messages.send(String::new()).unwrap();
    }

    fn address(&self) -> Address {
        Address::Tcp { host: "127.0.0.1".to_owned(), port: self.port }
    }
}

fn words(words: &[&str]) -> String {
    let words: Vec<_> = words.iter().map(|it| format!("${}\r\n{it}\r\n", it.len())).collect();
    format!("*{}\r\n{}", words.len(), words.concat())
}

/// The first word of the first request in these bytes, and the length of the request, if it is complete.
fn request(bytes: &str) -> Option<(String, usize)> {
    let number = |at: usize| {
        let (line, _) = bytes.get(at..)?.split_once("\r\n")?;
        Some((line[1..].parse::<usize>().ok()?, at + line.len() + 2))
    };
    let (count, mut at) = number(0)?;
    let mut first = None;
    for _ in 0..count {
        let (len, begin) = number(at)?;
        let word = bytes.get(begin..begin + len)?;
        first.get_or_insert_with(|| word.to_owned());
        at = begin + len + 2;
    }
    bytes.get(..at)?;
    Some((first?, at))
}

fn link(sentinels: &[&Arc<Fake>], connect_timeout: Duration) -> Link {
    let hosts: Vec<_> = sentinels.iter().map(|it| it.address().to_string()).collect();
    let url = format!("redis+sentinel://{}/main", hosts.join(","));
    let Target::Sentinel(service) = Target::parse(&url).unwrap() else { panic!("{url}") };
    let settings = Settings {
        origin: Origin::Service(Arc::new(service)),
        protocol: Protocol::Resp2,
        command_timeout: LIMIT,
        connect_timeout,
        telling: Telling::default(),
        terms: false,
        quarantine: None,
        #[cfg(feature = "tls")]
        tls: Arc::default(),
    };
    Link::new(settings, Arc::new(|_| {}))
}

/// Connects until there is a connection.
async fn connected(link: &Link) -> Arc<Live> {
    let connecting = async {
        loop {
            match link.connected().await {
                Ok(live) => return live,
                Err(error) => assert!(error.is_retryable(), "{error}"),
            }
            tokio::task::yield_now().await;
        }
    };
    time::timeout(LIMIT, connecting).await.unwrap()
}

/// Two servers, and a sentinel that names the first one.
async fn deployment() -> [Arc<Fake>; 3] {
    let [old, new, sentinel] = [Fake::start().await, Fake::start().await, Fake::start().await];
    sentinel.names(1, &old);
    [old, new, sentinel]
}

#[tokio::test]
async fn a_connection_to_a_server_that_is_replaced_meanwhile_is_not_used() {
    let [old, new, sentinel] = deployment().await;
    let link = link(&[&sentinel], LIMIT);
    let first = connected(&link).await;
    assert_eq!(first.endpoint().address, old.address());
    sentinel.is_asked("SUBSCRIBE", 1).await;
    first.leave();
    old.withheld.send_replace("ROLE");
    let switching = async {
        old.is_asked("ROLE", 2).await;
        sentinel.names(2, &new);
        sentinel.tells(&old, &new);
        // Once the client listens anew, it has heard the message.
        sentinel.hangs_up();
        sentinel.is_asked("SUBSCRIBE", 2).await;
        old.withheld.send_replace("");
    };
    let (outcome, ()) = tokio::join!(link.connected(), switching);
    let error = outcome.map(|live| live.endpoint().address.clone()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotReady, "{error}");
    assert_eq!(connected(&link).await.endpoint().address, new.address());
}

#[tokio::test]
async fn a_switch_without_a_message_is_noticed_when_a_sentinel_is_back() {
    let [old, new, sentinel] = deployment().await;
    let link = link(&[&sentinel], LIMIT);
    let live = connected(&link).await;
    assert_eq!(live.endpoint().address, old.address());
    sentinel.is_asked("SUBSCRIBE", 1).await;
    sentinel.names(2, &new);
    sentinel.hangs_up();
    sentinel.is_asked("SUBSCRIBE", 2).await;
    assert!(time::timeout(LIMIT, live.closed()).await.is_ok(), "the client stays");
    assert_eq!(connected(&link).await.endpoint().address, new.address());
}

#[tokio::test]
async fn a_switch_before_the_client_listens_is_noticed() {
    let [old, new, sentinel] = deployment().await;
    sentinel.withheld.send_replace("SUBSCRIBE");
    let link = link(&[&sentinel], LIMIT);
    let live = connected(&link).await;
    assert_eq!(live.endpoint().address, old.address());
    sentinel.is_asked("SUBSCRIBE", 1).await;
    sentinel.names(2, &new);
    sentinel.withheld.send_replace("");
    assert!(time::timeout(LIMIT, live.closed()).await.is_ok(), "the client stays");
    assert_eq!(connected(&link).await.endpoint().address, new.address());
}

#[tokio::test]
async fn a_sentinel_that_is_behind_costs_no_connection() {
    let [old, new, behind] = deployment().await;
    let ahead = Fake::start().await;
    ahead.names(2, &new);
    let link = link(&[&behind, &ahead], LIMIT);
    let live = connected(&link).await;
    assert_eq!(live.endpoint().address, new.address());
    behind.is_asked("SUBSCRIBE", 1).await;
    behind.hangs_up();
    // The client asks where the primary is before it listens a third time.
    behind.is_asked("SUBSCRIBE", 2).await;
    behind.hangs_up();
    behind.is_asked("SUBSCRIBE", 3).await;
    assert!(!live.is_closed());
    assert!(!old.asked.borrow().contains(&"ROLE".to_owned()));
}

#[tokio::test]
async fn sentinels_that_disagree_without_a_failover_cost_no_connection() {
    // The sentinel whose answer comes first decides where the client is.
    for _ in 0..3 {
        let [_, new, first] = deployment().await;
        let second = Fake::start().await;
        second.names(1, &new);
        let link = link(&[&first, &second], LIMIT);
        let live = connected(&link).await;
        for sentinel in [&first, &second] {
            sentinel.is_asked("SUBSCRIBE", 1).await;
            sentinel.hangs_up();
        }
        // The client asks where the primary is before it listens again.
        first.is_asked("SUBSCRIBE", 2).await;
        second.is_asked("SUBSCRIBE", 2).await;
        assert!(!live.is_closed());
    }
}

#[tokio::test]
async fn a_sentinel_that_does_not_confirm_a_subscription_is_tried_again() {
    let [_, _, sentinel] = deployment().await;
    sentinel.withheld.send_replace("SUBSCRIBE");
    let link = link(&[&sentinel], Duration::from_secs(2));
    connected(&link).await;
    sentinel.is_asked("SUBSCRIBE", 2).await;
}
