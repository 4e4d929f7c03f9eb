//! The least rights of each feature, and the need for each of them.

use lock_core::conformance::Suite;
use lock_core::{Mode, OwnerToken, Ttl};
use lock_redis::{Builder, Notifications, Protocol};

use super::laws::{Law, backend, capability};
use super::scenes::Scene;

/// A feature that apps use, and the least rights of its user.
pub(super) struct Feature {
    /// Its name in the docs.
    pub(super) name: &'static str,
    /// Each right, with a part of the feature that breaks without it.
    pub(super) rights: Vec<(&'static str, Law)>,
    /// The laws that hold with these rights.
    pub(super) laws: Vec<Law>,
    /// The ways to set up a client.
    pub(super) setups: &'static [fn(Builder) -> Builder],
    /// The events that the server reports: its `notify-keyspace-events`.
    pub(super) events: &'static str,
}

/// All features, in the order of the docs.
pub(super) fn all() -> Vec<Feature> {
    vec![
        mutex_by_time(),
        mutex(),
        rwlock(),
        semaphore(),
        reentrant(),
        node(),
        looking(),
        listing(),
        notifications(),
        requiring_notifications(),
        enabling_notifications(),
        tracking(),
        sitting_out(),
    ]
}

/// The features whose rights the docs give together, on one line.
pub(super) fn usual() -> Vec<Feature> {
    vec![mutex(), rwlock(), semaphore(), reentrant()]
}

const BY_TIME: [fn(Builder) -> Builder; 2] =
    [|it| by_time(it).protocol(Protocol::Resp2), |it| by_time(it).protocol(Protocol::Resp3)];

const IN_LINE: [fn(Builder) -> Builder; 2] =
    [|it| it.protocol(Protocol::Resp2), |it| it.protocol(Protocol::Resp3)];

const BY_EVENTS: [fn(Builder) -> Builder; 2] = [
    |it| it.release_messages(false).protocol(Protocol::Resp2),
    |it| it.release_messages(false).protocol(Protocol::Resp3),
];

fn by_time(builder: Builder) -> Builder {
    builder.notifications(Notifications::Off).release_messages(false)
}

const ONE_PERMIT: Mode = Mode::Permits { take: 1, of: 1 };

/// `Mutex`, with waiters that wait by the clock alone.
fn mutex_by_time() -> Feature {
    let taken = Law::Backend("a_free_key_is_granted");
    Feature {
        name: "mutex, by the clock",
        rights: vec![
            ("~lock:*", taken),
            ("+evalsha", taken),
            ("+script|load", taken),
            ("+get", Law::Backend("a_repeated_acquire_returns_the_same_grant")),
            ("+set", taken),
            ("+time", taken),
            ("+exists", Law::Backend("a_repeated_release_is_no_error")),
            ("+pexpire", Law::Backend("renew_extends_the_lease")),
            ("+getrange", Law::Backend("keys_are_independent")),
            ("+del", Law::Backend("keys_are_independent")),
            ("+pttl", Law::Backend("a_held_key_is_refused")),
        ],
        laws: laws_of_a_mutex(),
        setups: &BY_TIME,
        events: "",
    }
}

fn laws_of_a_mutex() -> Vec<Law> {
    let mut laws = backend("a_free_key_is_granted", "a_dropped_acquire_can_be_released");
    laws.push(Law::Backend("a_cut_client_recovers"));
    laws
}

/// `Mutex`, `lock_all`, `SlotSemaphore`, `OnceCell` and `Election`.
fn mutex() -> Feature {
    let mut rights = mutex_by_time().rights;
    rights.extend(in_line());
    rights.extend([
        ("+setrange", Law::Backend("a_release_and_requeue_hands_over_and_queues_again")),
        ("+lpop", Law::Backend("a_release_and_requeue_hands_over_and_queues_again")),
        ("+lrange", Law::Backend("a_release_and_requeue_hands_over_and_queues_again")),
        ("+hmget", Law::Backend("a_release_and_requeue_hands_over_and_queues_again")),
        ("+lpush", Law::Scene(Scene::PlaceIsPutBack(Mode::Exclusive))),
        ("+lindex", Law::Backend("leases_are_granted_together_or_not_at_all")),
    ]);
    let mut laws = laws_of_a_mutex();
    laws.extend(laws_of_a_line());
    laws.extend(backend(
        "leases_are_granted_together_or_not_at_all",
        "no_waiter_is_overtaken_together",
    ));
    laws.extend(capability(&Suite::cell(), Law::Cell, &[]));
    let scenes = [
        Scene::PlaceIsPutBack(Mode::Exclusive),
        Scene::PlaceIsKeptWithoutMemory,
        Scene::IsReleasedByForce(Mode::Exclusive),
        Scene::EndedWatchDisturbsNoClient,
    ];
    laws.extend(scenes.map(Law::Scene));
    Feature { name: "mutex", rights, laws, setups: &IN_LINE, events: "" }
}

/// The additional rights for places in the queue, for any kind of lock.
fn in_line() -> Vec<(&'static str, Law)> {
    let (queued, told) = ("a_refused_watcher_is_queued", "a_release_wakes_a_watcher");
    vec![
        ("&lock:*", Law::Backend(told)),
        ("+publish", Law::Backend(told)),
        ("+subscribe", Law::Backend(told)),
        ("+unsubscribe", Law::Scene(Scene::EndedWatchDisturbsNoClient)),
        ("+llen", Law::Backend(queued)),
        ("+rpush", Law::Backend(queued)),
        ("+hset", Law::Backend(queued)),
        ("+lrem", Law::Backend("a_newcomer_does_not_overtake")),
        ("+hget", Law::Backend("a_newcomer_does_not_overtake")),
        ("+hdel", Law::Backend("only_a_client_that_asks_and_watches_is_queued")),
    ]
}

fn laws_of_a_line() -> Vec<Law> {
    backend("a_release_wakes_a_watcher", "every_answer_tells_the_contention")
}

/// `RwLock`, whose writers need what a mutex needs.
fn rwlock() -> Feature {
    let mut rights = mutex().rights;
    rights.extend(shared());
    rights.extend([
        ("+zcard", Law::Convert("an_upgrade_waits_for_readers")),
        ("+zcount", Law::Scene(Scene::IsReleasedByForce(Mode::Shared))),
        ("+zrange", Law::Backend("readers_in_line_are_granted_together")),
    ]);
    let mut laws = laws_of_a_mutex();
    laws.extend(laws_of_a_line());
    laws.extend(backend("readers_share_a_key", "only_one_reader_is_upgradable"));
    laws.extend(capability(&Suite::convert(), Law::Convert, &OF_PERMITS_AS_WELL));
    laws.extend(capability(&Suite::shared(), Law::Shared, &[]));
    laws.push(Law::Scene(Scene::IsReleasedByForce(Mode::Shared)));
    Feature { name: "reader-writer lock", rights, laws, setups: &IN_LINE, events: "" }
}

/// Laws of conversions that also concern permits.
const OF_PERMITS_AS_WELL: [&str; 3] = [
    "every_conversion_is_served",
    "converting_what_is_not_held_fails",
    "impossible_conversions_are_refused",
];

/// The rights for several holders of one lock.
fn shared() -> Vec<(&'static str, Law)> {
    let shared = Law::Backend("readers_share_a_key");
    vec![
        ("+zadd", shared),
        ("+zrem", shared),
        ("+zscore", shared),
        ("+zrevrange", shared),
        ("+zrangebyscore", shared),
    ]
}

/// `Semaphore`. A `Barrier` also needs what a mutex needs.
fn semaphore() -> Feature {
    let counted = Law::Backend("permits_add_up_to_their_limit");
    let large = Law::Backend("a_large_request_is_not_starved");
    let mut rights = of_many(counted, large, ONE_PERMIT);
    rights.extend([
        ("+lrange", Law::Permits("the_state_of_a_semaphore_can_be_seen")),
        ("+hincrby", counted),
        ("+hmget", large),
        ("+zrange", counted),
        ("+zcount", Law::Scene(Scene::IsReleasedByForce(ONE_PERMIT))),
    ]);
    let mut laws = backend("permits_add_up_to_their_limit", "a_large_request_is_not_starved");
    laws.extend(capability(&Suite::permits(), Law::Permits, &[]));
    laws.push(Law::Scene(Scene::PlaceIsPutBack(ONE_PERMIT)));
    laws.push(Law::Scene(Scene::IsReleasedByForce(ONE_PERMIT)));
    Feature { name: "semaphore", rights, laws, setups: &IN_LINE, events: "" }
}

/// `ReentrantMutex`, whose owner may be in several processes.
fn reentrant() -> Feature {
    let group = Mode::Joint { group: OwnerToken::from_bytes([9; 16]) };
    let held = Law::Joint("a_group_holds_a_key_together");
    let mut rights = of_many(held, held, group);
    rights.extend([
        ("+lrange", Law::Joint("a_group_in_line_is_granted_together")),
        ("+hmget", held),
        ("+zrange", held),
        ("+zcount", Law::Scene(Scene::IsReleasedByForce(group))),
    ]);
    let mut laws = capability(&Suite::joint(), Law::Joint, &[]);
    laws.push(Law::Scene(Scene::PlaceIsPutBack(group)));
    laws.push(Law::Scene(Scene::IsReleasedByForce(group)));
    Feature { name: "reentrant mutex", rights, laws, setups: &IN_LINE, events: "" }
}

/// The rights for kinds of lock that several owners may hold, and whose queue holds other claims
/// than exclusive ones.
fn of_many(taken: Law, waited_for: Law, mode: Mode) -> Vec<(&'static str, Law)> {
    let mut rights: Vec<_> = [
        "~lock:*",
        "+evalsha",
        "+script|load",
        "+get",
        "+getrange",
        "+set",
        "+exists",
        "+pexpire",
        "+time",
        "+setrange",
        "+del",
        "+pttl",
        "+hget",
        "+hset",
        "+hdel",
        "+zadd",
        "+zrem",
        "+zscore",
        "+zrevrange",
        "+zrangebyscore",
    ]
    .map(|right| (right, taken))
    .into();
    let waiting = ["&lock:*", "+publish", "+subscribe", "+llen", "+lindex", "+rpush", "+lrem"];
    rights.extend(waiting.map(|right| (right, waited_for)));
    rights.push(("+lpush", Law::Scene(Scene::PlaceIsPutBack(mode))));
    rights.push(("+unsubscribe", Law::Scene(Scene::EndedWatchDisturbsNoClient)));
    rights
}

/// A server of a quorum, for mutexes, reader-writer locks and values.
fn node() -> Feature {
    let (vote, mode) = (Law::Node("a_vote_is_a_lease"), Law::Node("a_vote_keeps_to_its_mode"));
    let mut rights: Vec<_> = [
        "~lock:*",
        "+evalsha",
        "+script|load",
        "+get",
        "+getrange",
        "+set",
        "+exists",
        "+pexpire",
        "+time",
        "+del",
        "+pttl",
    ]
    .map(|right| (right, vote))
    .into();
    let shared = [
        "+setrange",
        "+hget",
        "+hset",
        "+hdel",
        "+zadd",
        "+zrem",
        "+zscore",
        "+zrevrange",
        "+zrangebyscore",
    ];
    let hears = Law::Backend("a_release_wakes_a_watcher");
    rights.extend(["&lock:*", "+publish", "+subscribe"].map(|right| (right, hears)));
    rights.extend(shared.map(|right| (right, mode)));
    rights.push(("+unsubscribe", Law::Scene(Scene::EndedWatchDisturbsNoClient)));
    rights.push(("+info", Law::Node("an_unknown_node_abstains")));
    // The other laws use the server's queue, which the servers of a quorum do not.
    let mut laws = capability(
        &Suite::quorum(),
        Law::Node,
        &["a_vote_overtakes_no_waiter", "a_vote_gets_no_place"],
    );
    laws.extend([hears, Law::Scene(Scene::EndedWatchDisturbsNoClient)]);
    Feature { name: "node of a quorum", rights, laws, setups: &IN_LINE, events: "" }
}

/// A user that inspects locks, and changes nothing.
fn looking() -> Feature {
    let sees = Law::Scene(Scene::LooksAtOthers);
    let rights = [
        "~lock:*",
        "+evalsha",
        "+script|load",
        "+get",
        "+getrange",
        "+exists",
        "+pttl",
        "+time",
        "+hget",
        "+llen",
        "+lrange",
        "+zscore",
        "+zcard",
        "+zrangebyscore",
    ];
    Feature {
        name: "looking",
        rights: rights.map(|right| (right, sees)).into(),
        laws: vec![sees],
        setups: &IN_LINE,
        events: "",
    }
}

/// Lists of locks with a prefix.
fn listing() -> Feature {
    let lists = Law::Scene(Scene::ListsOthers);
    let mut rights = looking().rights;
    rights.push(("+scan", lists));
    Feature { name: "listing", rights, laws: vec![lists], setups: &IN_LINE, events: "" }
}

/// Hints about changes of a lock by other clients than those of this library.
fn notifications() -> Feature {
    let hears = Law::Scene(Scene::HearsOfDeletions);
    let mut rights = mutex_by_time().rights;
    rights.extend([
        ("&__keyspace@*__:lock:*", hears),
        ("+subscribe", hears),
        ("+setrange", hears),
        ("+unsubscribe", Law::Scene(Scene::EndedWatchDisturbsNoClient)),
    ]);
    let mut laws = backend("a_release_wakes_a_watcher", "a_cut_watch_says_so");
    laws.extend([hears, Law::Scene(Scene::EndedWatchDisturbsNoClient)]);
    Feature { name: "notifications", rights, laws, setups: &BY_EVENTS, events: "Kg$xe" }
}

fn requiring_notifications() -> Feature {
    configured(
        "required notifications",
        Law::Scene(Scene::RequiredNotificationsAreFound),
        &["+config|get"],
        &[|it| it.release_messages(false).notifications(Notifications::Require)],
    )
}

fn enabling_notifications() -> Feature {
    configured(
        "enabling notifications",
        Law::Scene(Scene::NotificationsAreSwitchedOn),
        &["+config|get", "+config|set"],
        &[|it| it.release_messages(false).notifications(Notifications::Enable)],
    )
}

/// Notifications for which the server's configuration is read, or changed.
fn configured(
    name: &'static str,
    law: Law,
    more: &[&'static str],
    setups: &'static [fn(Builder) -> Builder],
) -> Feature {
    let mut feature = notifications();
    feature.rights.extend(more.iter().map(|right| (*right, law)));
    Feature { name, laws: vec![law], setups, ..feature }
}

/// Hints about changes of a lock by other clients than those of this library, from the server's
/// tracking.
fn tracking() -> Feature {
    let hears = Law::Scene(Scene::HearsOfDeletions);
    let mut rights = mutex_by_time().rights;
    rights.extend(["+client|tracking", "+client|caching", "+setrange"].map(|right| (right, hears)));
    Feature {
        name: "tracking",
        rights,
        laws: vec![hears],
        setups: &[|it| it.tracking(true).notifications(Notifications::Off).release_messages(false)],
        events: "",
    }
}

/// A server that lost its data sits out.
fn sitting_out() -> Feature {
    let sits_out = Law::Scene(Scene::ServerSitsOut);
    let rights = mutex_by_time().rights.into_iter().map(|(right, _)| right);
    Feature {
        name: "the quarantine of data",
        rights: rights.chain(["+info"]).map(|right| (right, sits_out)).collect(),
        laws: vec![sits_out],
        setups: &[|it| by_time(it).data_quarantine(Ttl::MAX)],
        events: "",
    }
}
