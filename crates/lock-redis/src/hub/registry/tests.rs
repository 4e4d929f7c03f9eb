//! How the registry hands messages on, and to which watchers.

use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt as _;
use futures::task::noop_waker;
use lock_core::{Claim, Grant, Instant, Key, OwnerToken, Ttl};
use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::wire::garbage;

#[test]
fn a_channel_is_heard_from_its_confirmation_to_the_end_of_the_connection() {
    let registry = Registry::default();
    let channel = Channel::from(&b"lock:{a}:released@0"[..]);
    let pieces: [&[u8]; 2] = [b"lock:{a}", b":released@0"];
    assert!(registry.add(&channel, Topic::Releases, 1, &Arc::default()));
    assert!(!registry.hears(pieces));
    registry.confirm(0, [&channel]);
    assert!(registry.hears(pieces));
    // A second listener needs no other confirmation.
    assert!(!registry.add(&channel, Topic::Releases, 2, &Arc::default()));
    assert!(registry.hears(pieces));
    registry.disconnect(0);
    assert!(!registry.hears(pieces));
    registry.confirm(0, [&channel]);
    assert!(!registry.remove(&channel, 1) && registry.remove(&channel, 2));
    assert!(!registry.hears(pieces));
}

#[test]
fn the_inbox_is_for_locks_that_are_watched_while_it_is_heard() {
    let inbox = Channel::from(&b"lock:inbox:7"[..]);
    let registry = Registry::new(Some(Arc::clone(&inbox)));
    let lock = Channel::from(&b"lock:{a}"[..]);
    registry.enter(&lock, 1, &Arc::default());
    assert_eq!(registry.inbox_for(&lock), None);
    registry.confirm(0, [&inbox]);
    assert_eq!(registry.inbox_for(&lock), Some(Inbox(Arc::clone(&inbox))));
    assert_eq!(registry.inbox_for(b"lock:{b}"), None);
    registry.disconnect(0);
    assert_eq!(registry.inbox_for(&lock), None);
    registry.confirm(0, [&inbox]);
    registry.leave(&lock, 1);
    assert_eq!(registry.inbox_for(&lock), None);
}

#[test]
fn claims_name_the_inbox_in_a_slot_while_the_server_has_the_slot() {
    let registry = Registry::new(Some(INBOX.into()));
    let (by, lost) = registry.take_over();
    let (lock, mailbox) = (Channel::from(LOCK), Arc::<Mailbox>::default());
    registry.enter(&lock, 1, &mailbox);
    registry.confirm(by, [&Channel::from(INBOX)]);
    let [shard, other] = [7, 8].map(|slot| Shard::of(INBOX, slot));
    let hears = |by, shard: &Shard| {
        registry.seek_in_slot(by, shard) && registry.hear_in_slot(by, shard.clone())
    };
    assert!(!hears(by - 1, &shard));
    assert_eq!(registry.inbox_for(LOCK), Some(Inbox(INBOX.into())));
    assert!(hears(by, &shard));
    assert_eq!(registry.inbox_for(LOCK), Some(Inbox(Arc::clone(&shard.named))));
    registry.hear(Push::Ended { channel: &other.channel });
    assert!(registry.hears_in_slot() && !is_woken(&lost));
    registry.hear(Push::Ended { channel: &shard.channel });
    assert!(!registry.hears_in_slot() && is_woken(&lost));
    assert_eq!(registry.inbox_for(LOCK), Some(Inbox(INBOX.into())));
    // Claims may name the former one.
    assert!(hears(by, &other));
    assert_eq!(registry.last_slot(), Some(8));
    // The server may lose the slot before its confirmation was noted.
    assert!(registry.seek_in_slot(by, &shard));
    registry.hear(Push::Ended { channel: &shard.channel });
    assert!(!registry.hear_in_slot(by, shard.clone()));
    let payload = [b"wanted ", LOCK].concat();
    for channel in [INBOX, &shard.channel, &shard.named] {
        registry.hear(Push::Message { channel, payload: &payload });
        let hint = mailbox.poll_next(&Context::from_waker(&noop_waker()));
        assert_eq!(hint, Poll::Ready(Some(Hint::Contended)));
    }
    registry.disconnect(by);
    assert!(!registry.hears_in_slot() && registry.inbox_for(LOCK).is_none());
}

/// Whether the reader was woken since the last call.
fn is_woken(bell: &Notify) -> bool {
    bell.notified().now_or_never().is_some()
}

#[test]
fn the_reader_of_the_latest_task_reads_what_changed() {
    let registry = Registry::default();
    let (lock, other) = (Channel::from(LOCK), Channel::from(&b"lock:{b}"[..]));
    registry.enter(&lock, 1, &Arc::default());
    registry.enter(&other, 2, &Arc::default());
    let [first, second, late] = [(); 3].map(|()| Arc::new(Notify::new()));
    let (older, _) = registry.take_over();
    registry.wake_reader(older, Arc::clone(&first));
    registry.hear(Push::Invalid { key: LOCK });
    assert!(is_woken(&first));
    // The first reader is replaced before it has looked, and the second one has to look.
    registry.wake_reader(older, Arc::clone(&second));
    assert!(is_woken(&first) && is_woken(&second));
    assert_eq!(registry.changed(&first), None);
    assert_eq!(registry.changed(&second), Some(HashSet::from([lock])));
    let (newer, _) = registry.take_over();
    assert!(is_woken(&second));
    registry.wake_reader(newer, Arc::clone(&first));
    registry.wake_reader(older, Arc::clone(&late));
    assert!(is_woken(&late) && !is_woken(&first));
    assert_eq!(registry.changed(&late), None);
    registry.hear(Push::Invalid { key: &other });
    assert!(is_woken(&first));
    // A key that no watcher watches any more is not read.
    registry.leave(&other, 2);
    assert_eq!(registry.changed(&first), Some(HashSet::new()));
}

#[test]
fn a_new_value_is_no_release() {
    assert_eq!(Topic::Releases.hint(b"released"), Some(Hint::Released));
    assert_eq!(Topic::Releases.hint(b"changed"), Some(Hint::Changed));
}

#[test]
fn what_others_do_to_a_key_is_told_and_what_we_do_is_not() {
    for (event, hint) in [
        (&b"del"[..], Some(Hint::Released)),
        (b"move_from", Some(Hint::Released)),
        (b"evicted", Some(Hint::Expired)),
        (b"set", Some(Hint::Changed)),
        (b"rename_to", Some(Hint::Changed)),
        (b"restore", Some(Hint::Changed)),
        (b"setrange", None),
        (b"expire", None),
        (b"persist", None),
    ] {
        assert_eq!(Topic::Keyspace.hint(event), hint);
    }
}

const LOCK: &[u8] = b"lock:{a}";
const INBOX: &[u8] = b"lock:inbox:7";
const NOON: u64 = 1_795_000_000_000_000;

/// Pushes of the server, and similar ones.
#[derive(Clone, Debug)]
enum Said {
    /// This claim was granted, this many microseconds after it took its place, for this many
    /// milliseconds.
    Granted {
        who: u8,
        lock: &'static [u8],
        after: i64,
        lease: u64,
    },
    On(Vec<u8>, Vec<u8>),
    Invalid(Vec<u8>),
    AllInvalid,
}

fn said() -> impl Strategy<Value = Said> {
    let channel = || {
        let known =
            select(vec![INBOX, b"lock:{a}:released@0", b"__keyspace@0__:lock:{a}", LOCK, b""]);
        prop_oneof![5 => known.prop_map(<[u8]>::to_vec), 1 => garbage::texts()]
    };
    let payload = prop_oneof![
        garbage::texts(),
        garbage::texts().prop_map(|text| [b"granted ", &text[..]].concat()),
        select(vec!["released", "changed", "del", "expired", "set", "wanted lock:{a}", "ask"])
            .prop_map(|text| text.as_bytes().to_vec()),
    ];
    let lease = prop_oneof![select(vec![0, 1, 1_000, 86_400_000, u64::MAX]), any::<u64>()];
    let after = prop_oneof![-3_000_000..3_000_000i64, select(vec![0, -(NOON as i64), i64::MAX])];
    prop_oneof![
        3 => (0..4u8, select(vec![LOCK, b"lock:{b}", b""]), after, lease)
            .prop_map(|(who, lock, after, lease)| Said::Granted { who, lock, after, lease }),
        3 => (channel(), payload).prop_map(|(channel, payload)| Said::On(channel, payload)),
        1 => channel().prop_map(Said::Invalid),
        1 => Just(Said::AllInvalid),
    ]
}

fn owner(who: u8) -> OwnerToken {
    OwnerToken::from_bytes([who; 16])
}

/// The grants in the hints, each with its owner.
fn grants(mailbox: &Mailbox) -> Vec<(OwnerToken, Grant)> {
    let waker = noop_waker();
    let mut grants = Vec::new();
    while let Poll::Ready(Some(hint)) = mailbox.poll_next(&Context::from_waker(&waker)) {
        if let Hint::Granted { owner, grant: Some(grant) } = hint {
            grants.push((owner, grant));
        }
    }
    grants
}

proptest! {
    /// Whatever is pushed, a grant goes only to a claim that waits for this lock, at most once, and
    /// for no longer than that claim expects.
    #[test]
    fn pushes_grant_only_what_is_waited_for(said in prop::collection::vec(said(), 0..20)) {
        let registry = Registry::new(Some(INBOX.into()));
        let (lock, mailbox) = (Channel::from(LOCK), Arc::<Mailbox>::default());
        registry.enter(&lock, 1, &mailbox);
        registry.add(&Channel::from(&b"lock:{a}:released@0"[..]), Topic::Releases, 1, &mailbox);
        registry.add(&Channel::from(&b"__keyspace@0__:lock:{a}"[..]), Topic::Keyspace, 1, &mailbox);
        registry.confirm(0, [&Channel::from(INBOX)]);
        let ttl = Ttl::new(Duration::from_secs(9)).unwrap();
        let sent = Clock::boot().now();
        for who in [0, 1] {
            let claim = Claim::exclusive(Key::new("a").unwrap(), owner(who));
            registry.inbox_of(LOCK, &Acquire::new(claim, ttl).queued(), false);
        }
        // The second claim has no sample of the clocks.
        registry.compare(LOCK, owner(0), Sample { sent, seen: NOON });
        let (mut proper, mut entered) = (false, Vec::new());
        for said in &said {
            match said {
                Said::Granted { who, lock, after, lease } => {
                    let owner = owner(*who);
                    let digits = String::from_utf8_lossy(owner.expose());
                    let at = NOON.saturating_add_signed(*after);
                    let lock = String::from_utf8_lossy(lock);
                    let payload = format!("granted {digits} 7 9 {lease} {at} 1 {lock}");
                    let payload = payload.as_bytes();
                    proper |= *who == 0 && lock.as_bytes() == LOCK;
                    registry.hear(Push::Message { channel: INBOX, payload });
                }
                Said::On(channel, payload) => registry.hear(Push::Message { channel, payload }),
                Said::Invalid(key) => registry.hear(Push::Invalid { key }),
                Said::AllInvalid => registry.hear(Push::AllInvalid),
            }
            entered.extend(grants(&mailbox));
        }
        prop_assert!(entered.len() <= 1);
        for (who, grant) in entered {
            prop_assert!(proper && who == owner(0));
            let latest = Clock::boot().now() + ttl.for_grant().duration();
            prop_assert!(grant.valid_until < latest && grant.valid_until > Instant::from_nanos(0));
        }
    }
}

/// A waker that looks whether the registry is locked, as a task does that the waker polls.
struct Looks(Registry, std::sync::atomic::AtomicBool);

impl std::task::Wake for Looks {
    fn wake(self: Arc<Self>) {
        assert!(self.0.state.try_lock().is_ok(), "the registry is locked");
        self.1.store(true, std::sync::atomic::Ordering::Release);
    }
}

#[test]
fn watchers_are_woken_under_no_lock() {
    let (inbox, lock) = (Channel::from(INBOX), Channel::from(LOCK));
    let looks = Arc::new(Looks(Registry::new(Some(inbox)), false.into()));
    let (registry, mailbox) = (&looks.0, Arc::<Mailbox>::default());
    let (by, _lost) = registry.take_over();
    let channel = Channel::from(&b"lock:{a}:released@0"[..]);
    registry.enter(&lock, 1, &mailbox);
    registry.add(&channel, Topic::Releases, 1, &mailbox);
    registry.confirm(by, [&Channel::from(INBOX), &channel]);
    let tells: [&dyn Fn(); 3] = [
        &|| registry.hear(Push::AllInvalid),
        &|| registry.hear(Push::Message { channel: &channel, payload: b"" }),
        &|| {
            registry.see(&lock, Some(1), false);
            registry.see(&lock, None, true);
        },
    ];
    for tell in tells {
        let waker = std::task::Waker::from(Arc::clone(&looks));
        let context = Context::from_waker(&waker);
        while mailbox.poll_next(&context).is_ready() {}
        tell();
        assert!(looks.1.swap(false, std::sync::atomic::Ordering::AcqRel), "it was not woken");
    }
}
