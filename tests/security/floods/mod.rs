//! A server that sends more than a client can use, or another client that makes it do so.

mod flooder;

use std::time::Duration;

use lock_core::{Backend as _, Key};
use lock_redis::{Notifications, Protocol, RedisBackend};
use lock_tests::eventually_async;

use self::flooder::{Flooder, Junk};

/// How many bytes are sent. A client that keeps them all needs several times as much memory.
const FLOOD: u64 = 6 << 20;

/// How much memory that may cost.
const MOST: u64 = 6 << 20;

/// How much memory a message without an end may cost.
const LONGEST: u64 = 256 << 20;

/// How many bytes of it are sent before its client has to hang up.
const FAR: u64 = 1 << 30;

const PATIENCE: Duration = Duration::from_secs(60);

fn message(sign: char, channel: &str, payload: &str) -> Vec<u8> {
    let (channels, payloads) = (channel.len(), payload.len());
    let text = format!(
        "{sign}3\r\n$7\r\nmessage\r\n${channels}\r\n{channel}\r\n${payloads}\r\n{payload}\r\n"
    );
    text.into_bytes()
}

/// The memory of this process.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse().unwrap();
    kilobytes << 10
}

/// The junk during a watch.
struct Ordeal {
    protocol: Protocol,
    tracking: bool,
    junk: Junk,
    /// Whether the client endures all of it. Otherwise it hangs up.
    endures: bool,
}

impl Ordeal {
    fn new(protocol: Protocol, junk: Junk) -> Self {
        Self { protocol, tracking: false, junk, endures: true }
    }

    /// As above, for a client whose keys are tracked.
    fn tracked(junk: Junk) -> Self {
        Self { tracking: true, ..Self::new(Protocol::Resp3, junk) }
    }

    /// Bytes that are no message at all.
    fn endless(protocol: Protocol, junk: Junk) -> Self {
        Self { endures: false, ..Self::new(protocol, junk) }
    }

    /// The growth of the memory.
    async fn growth(&self) -> u64 {
        let after = if self.tracking { "EVALSHA" } else { "SUBSCRIBE" };
        let flooder = Flooder::start(self.junk, after, if self.endures { FLOOD } else { FAR });
        let backend = RedisBackend::builder(format!("redis://{}", flooder.addr))
            .protocol(self.protocol)
            .tracking(self.tracking)
            // The client gets no answer as long as junk is to be sent.
            .command_timeout(PATIENCE)
            .notifications(Notifications::Off)
            .build()
            .unwrap();
        let before = resident();
        let watch = backend.watch(&Key::new("flood").unwrap()).await;
        // A client that hangs up may do so before the watch is in place.
        assert!(watch.is_ok() || !self.endures, "{watch:?}");
        let hearing = tokio::spawn(async move {
            if let Ok(mut watch) = watch {
                while watch.next().await.is_some() {}
            }
        });
        let mut most = before;
        eventually_async("all was said", PATIENCE, async || {
            most = most.max(resident());
            flooder.is_over()
        })
        .await;
        hearing.abort();
        assert_eq!(flooder.is_hung_up(), !self.endures, "the client hangs up on what has no end");
        most - before
    }
}

fn invalid(keys: &str) -> Vec<u8> {
    format!(">2\r\n$10\r\ninvalidate\r\n{keys}").into_bytes()
}

/// Whether this is the only test in its process, whose memory is measured. If not, starts a process
/// for it alone.
fn is_alone(test: &str) -> bool {
    const ALONE: &str = "LOCK_TESTS_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let mut process = std::process::Command::new(std::env::current_exe().unwrap());
    let output = process.args(["--exact", test]).env(ALONE, "1").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
    false
}

#[tokio::test]
async fn unwanted_messages_cost_no_memory() {
    if !is_alone("floods::unwanted_messages_cost_no_memory") {
        return;
    }
    let ordeals = [
        Ordeal::new(Protocol::Resp2, |channels, _| message('*', &channels[0], "released")),
        Ordeal::new(Protocol::Resp2, |_, number| message('*', &format!("{number}"), "released")),
        Ordeal::new(Protocol::Resp3, |channels, _| message('>', &channels[0], "released")),
        Ordeal::new(Protocol::Resp3, |channels, number| {
            // Grants of places that no claim has asked for.
            let grant = format!("granted {number:032x} 1 1 1000 1 0 lock:{{flood}}");
            message('>', channels.last().unwrap(), &grant)
        }),
        Ordeal::tracked(|_, _| invalid("*1\r\n$12\r\nlock:{flood}\r\n")),
        Ordeal::tracked(|_, number| invalid(&format!("*1\r\n$20\r\n{number:020}\r\n"))),
        Ordeal::tracked(|_, _| invalid("_\r\n")),
    ];
    for (index, ordeal) in ordeals.iter().enumerate() {
        let growth = ordeal.growth().await;
        assert!(growth < MOST, "{index}: {} MiB of {} MiB", growth >> 20, FLOOD >> 20);
    }
}

#[tokio::test]
async fn a_message_without_an_end_is_not_waited_for() {
    if !is_alone("floods::a_message_without_an_end_is_not_waited_for") {
        return;
    }
    let ordeals = [
        Ordeal::endless(Protocol::Resp3, |_, number| match number {
            1 => b"$4000000000\r\n".to_vec(),
            _ => vec![b'x'; 1 << 16],
        }),
        Ordeal::endless(Protocol::Resp2, |_, number| match number {
            1 => b"*3\r\n$7\r\nmessage\r\n$4000000000\r\n".to_vec(),
            _ => vec![b'x'; 1 << 16],
        }),
        Ordeal::endless(Protocol::Resp3, |_, number| match number {
            1 => b">2000000000\r\n".to_vec(),
            _ => b":1\r\n".repeat(1 << 10),
        }),
    ];
    for (index, ordeal) in ordeals.iter().enumerate() {
        let growth = ordeal.growth().await;
        assert!(growth < LONGEST, "{index}: {} MiB", growth >> 20);
    }
}
