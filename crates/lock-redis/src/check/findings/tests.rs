//! Every finding, from facts that make it appear and from facts of a healthy server.

use lock_core::ErrorKind;
use lock_core::check::Severity::{Critical, Info as Inform, Unknown, Warning};
use lock_core::check::{Outcome, Rehearsal};
use lock_core::conformance::{FindingCase, enforce_findings};

use super::super::facts::{Config, Look, Probe, Scripts, Wants};
use super::*;
use crate::options::Notifications;

const HEALTHY: &str = "redis_version:8.2.3\nredis_mode:standalone\nrole:master\nconnected_slaves:0\n\
    aof_enabled:1\nrdb_last_bgsave_status:ok\naof_last_write_status:ok\naof_last_bgrewrite_status:ok\n\
    maxmemory:1000000000\nused_memory:1000000\nmaxmemory_policy:noeviction\nevicted_keys:0\n\
    cmdstat_evalsha:calls=1000,usec=40000\n";

/// A later line replaces an earlier one.
fn info(lines: &str) -> Probe<Info> {
    Probe::Known(Info::parse(format!("{HEALTHY}{lines}\n").as_bytes()))
}

fn healthy() -> Facts {
    let now = 1_795_000_000_000_000;
    let look = Look { wall: now, steady: 0, took: 200, told: now + 100 };
    let later = Look { wall: now + 9_000, steady: 9_000, told: look.told + 9_000, ..look };
    Facts {
        server: "redis.example:6379/0".into(),
        wants: Wants {
            prefix: "lock:".into(),
            notifications: Notifications::IfPresent,
            queues: true,
            follows: false,
            confirms: None,
            sits_out: false,
        },
        info: info(""),
        is_replica: Probe::Skipped,
        config: config("always", "", "0"),
        notifications: Probe::Known("AKE".into()),
        sentinels: Probe::Skipped,
        replicas: Vec::new(),
        differs: false,
        clock: Probe::Known([look, later]),
        scripts: Scripts::default(),
        refused: Probe::Known(Vec::new()),
        untracked: None,
        rehearsal: Some(Rehearsal::default()),
    }
}

fn config(appendfsync: &str, save: &str, min_replicas: &str) -> Probe<Config> {
    let some = |text: &str| Some(text.to_owned());
    Probe::Known(Config {
        appendfsync: some(appendfsync),
        save: some(save),
        min_replicas_to_write: some(min_replicas),
    })
}

fn refused<T>() -> Probe<T> {
    Probe::Refused("redis.example:6379 does not allow that".into())
}

fn told(by: i64, second: i64) -> Probe<[Look; 2]> {
    let Probe::Known([mut first, mut last]) = healthy().clock else { panic!() };
    first.told += by;
    last.told += by + second;
    Probe::Known([first, last])
}

fn commands(names: &[&str]) -> Probe<Vec<String>> {
    Probe::Known(names.iter().map(|name| (*name).to_owned()).collect())
}

fn rehearsed(change: impl FnOnce(&mut Rehearsal)) -> Option<Rehearsal> {
    let mut rehearsal = Rehearsal::default();
    change(&mut rehearsal);
    Some(rehearsal)
}

fn said() -> Option<String> {
    Some("redis.example:6379 said no".to_owned())
}

const REPLICAS: &str =
    "connected_slaves:1\nslave0:ip=10.0.0.2,port=6379,state=online,offset=1,lag=1";

type Case = FindingCase<Facts>;

const SERVER: [Case; 15] = [
    ("connections-differ", Critical, |it| it.differs = true),
    ("old-version", Critical, |it| it.info = info("redis_version:4.0.14")),
    ("script-faults", Unknown, |it| it.info = info("redis_version:7.0.15")),
    ("script-faults", Warning, |it| it.info = info("valkey_version:8.1.3")),
    ("sentinel-process", Critical, |it| it.info = info("redis_mode:sentinel")),
    ("replica", Critical, |it| it.info = info("role:slave\nmaster_link_status:up")),
    ("replica", Critical, |it| (it.info, it.is_replica) = (refused(), Probe::Known(true))),
    ("cluster-node", Warning, |it| it.info = info("redis_mode:cluster")),
    ("unfit-as-node", Inform, |it| it.info = info("server_mode:cluster")),
    ("unfit-as-node", Inform, |it| it.info = refused()),
    ("info-refused", Unknown, |it| it.info = refused()),
    ("config-refused", Unknown, |it| it.config = refused()),
    ("sentinel-unknown", Unknown, |it| it.sentinels = refused()),
    ("clock-unknown", Unknown, |it| it.clock = refused()),
    ("rights-unknown", Unknown, |it| it.refused = refused()),
];

const DATA: [Case; 12] = [
    ("no-persistence", Warning, |it| it.info = info("aof_enabled:0")),
    ("snapshots-only", Warning, |it| {
        (it.info, it.config) = (info("aof_enabled:0"), config("everysec", "3600 1", "0"));
    }),
    ("snapshots-only", Warning, |it| (it.info, it.config) = (info("aof_enabled:0"), refused())),
    ("appendfsync-no", Warning, |it| it.config = config("no", "", "0")),
    ("appendfsync-everysec", Inform, |it| it.config = config("everysec", "", "0")),
    ("snapshot-failed", Warning, |it| it.info = info("rdb_last_bgsave_status:err")),
    ("append-failed", Critical, |it| it.info = info("aof_last_write_status:err")),
    ("append-failed", Critical, |it| it.info = info("aof_last_bgrewrite_status:err")),
    ("eviction-policy", Critical, |it| it.info = info("maxmemory_policy:volatile-ttl")),
    ("eviction-policy", Warning, |it| it.info = info("maxmemory:0\nmaxmemory_policy:allkeys-lru")),
    ("keys-evicted", Warning, |it| it.info = info("evicted_keys:7")),
    ("memory-almost-full", Warning, |it| it.info = info("used_memory:900000000")),
];

/// The server is one of a deployment, and has a replica with this clock.
fn follow(facts: &mut Facts, clock: Probe<Look>) {
    facts.wants.follows = true;
    facts.info = info(REPLICAS);
    let address = "10.0.0.2:6379".to_owned();
    facts.replicas = vec![super::super::facts::Replica { address, clock }];
}

fn look(ahead: i64) -> Probe<Look> {
    let Probe::Known([first, _]) = told(ahead, 0) else { panic!() };
    Probe::Known(first)
}

const REPLICATION: [Case; 11] = [
    ("min-replicas-below-all", Inform, |it| {
        follow(it, look(0));
        it.info = info(&REPLICAS.replace("connected_slaves:1", "connected_slaves:2"));
        it.config = config("always", "", "1");
    }),
    ("no-replica", Warning, |it| it.wants.follows = true),
    ("replica-clock", Warning, |it| follow(it, look(-2_000_000))),
    ("replica-clock-unknown", Unknown, |it| follow(it, refused())),
    ("failover-forgets", Warning, |it| it.info = info(REPLICAS)),
    ("no-min-replicas", Warning, |it| it.info = info(REPLICAS)),
    ("too-few-replicas", Critical, |it| {
        (it.info, it.config) = (info("min_slaves_good_slaves:0"), config("always", "", "1"));
    }),
    ("replicas-miscounted", Critical, |it| it.wants.confirms = Some(1)),
    ("replicas-miscounted", Critical, |it| {
        (it.info, it.wants.confirms) = (info(REPLICAS), Some(2));
    }),
    ("replica-lagging", Warning, |it| it.info = info(&REPLICAS.replace("lag=1", "lag=3"))),
    ("replica-not-online", Warning, |it| {
        it.info = info(&REPLICAS.replace("state=online", "state=send_bulk"));
    }),
];

const LISTENING: [Case; 8] = [
    ("notifications-missing", Inform, |it| it.notifications = Probe::Known("Kg".into())),
    ("notifications-missing", Warning, |it| {
        it.wants.notifications = Notifications::Enable;
        it.notifications = refused();
    }),
    ("notifications-required", Critical, |it| {
        it.wants.notifications = Notifications::Require;
        it.rehearsal = rehearsed(|rehearsal| rehearsal.unwatched = said());
    }),
    ("tracking-refused", Warning, |it| it.untracked = said()),
    ("watch-refused", Warning, |it| it.rehearsal = rehearsed(|it| it.unwatched = said())),
    ("releases-unheard", Warning, |it| {
        it.rehearsal = rehearsed(|it| it.unheard = true);
    }),
    ("queue-refused", Warning, |it| it.rehearsal = rehearsed(|it| it.unqueued = true)),
    ("grants-uncounted", Warning, |it| it.rehearsal = rehearsed(|it| it.uncounted = true)),
];

const SCRIPTS: [Case; 14] = [
    ("not-ready", Critical, |it| {
        it.scripts.refused = Some((ErrorKind::NotReady, "busy with a script".into()));
    }),
    ("scripts-refused", Critical, |it| {
        it.scripts.refused = Some((ErrorKind::Denied, "denied".into()));
    }),
    ("scripts-not-loaded", Warning, |it| it.scripts.unloaded = said()),
    ("scripts-sent-whole", Warning, |it| it.scripts.sent_whole = true),
    ("slow-scripts", Warning, |it| it.info = info("cmdstat_eval:calls=20,usec=9000000")),
    ("rights-missing", Critical, |it| it.refused = commands(&["set"])),
    ("rights-missing", Warning, |it| it.refused = commands(&["channel"])),
    ("rights-missing", Inform, |it| it.refused = commands(&["zcard", "hincrby"])),
    ("rights-missing", Critical, |it| it.refused = commands(&["wait", "spublish"])),
    ("rights-missing", Warning, |it| it.refused = commands(&["asking"])),
    ("rights-missing", Inform, |it| it.refused = commands(&["spublish", "ssubscribe"])),
    ("clock-skew", Warning, |it| it.clock = told(-2_000_000, 0)),
    ("clock-rate", Critical, |it| it.clock = told(0, -9_000)),
    ("clock-unset", Critical, |it| it.clock = told(-900_000_000_000_000, 0)),
];

const LOCK: [Case; 4] = [
    ("lock-refused", Critical, |it| {
        it.rehearsal = rehearsed(|it| {
            it.outcome = Outcome::Failed(ErrorKind::OutOfMemory, "no memory".into());
        });
    }),
    ("lock-vanished", Critical, |it| it.rehearsal = rehearsed(|it| it.outcome = Outcome::Vanished)),
    ("rehearsal-busy", Unknown, |it| it.rehearsal = rehearsed(|it| it.outcome = Outcome::Busy)),
    ("holders-unseen", Warning, |it| it.rehearsal = rehearsed(|it| it.unseen = said())),
];

#[test]
fn the_docs_name_each_finding_with_its_severity() {
    let of_deployments = [
        "slots-uncovered",
        "failover-unconfirmed",
        "sentinel-silent",
        "sentinel-unheard",
        "sentinels-disagree",
        "sentinels-apart",
        "sentinels-few",
    ];
    let groups = [&SERVER[..], &DATA, &REPLICATION, &LISTENING, &SCRIPTS, &LOCK];
    enforce_findings(include_str!("../mod.rs"), &of_deployments, &groups.concat(), |change| {
        let mut facts = healthy();
        change(&mut facts);
        let found = findings(&facts);
        assert!(found.iter().all(|it| it.server == facts.server), "{found:?}");
        found
    });
}

#[test]
fn a_server_that_is_not_ready_is_asked_nothing_else() {
    let mut facts = healthy();
    facts.info = refused();
    facts.scripts.refused = Some((ErrorKind::NotReady, "loading".into()));
    let found = findings(&facts);
    assert_eq!(found.iter().map(|it| it.code).collect::<Vec<_>>(), ["not-ready"]);
}

#[test]
fn the_check_says_nothing_else_of_a_sentinel() {
    let mut facts = healthy();
    facts.info = info("redis_mode:sentinel");
    facts.config = refused();
    facts.scripts.refused = Some((ErrorKind::Unsupported, "unknown command".into()));
    let found = findings(&facts);
    assert_eq!(found.iter().map(|it| it.code).collect::<Vec<_>>(), ["sentinel-process"]);
}

#[test]
fn what_is_not_wanted_is_not_missed() {
    let mut facts = healthy();
    facts.wants.notifications = Notifications::Off;
    facts.notifications = Probe::Known(String::new());
    assert_eq!(findings(&facts), []);
    // A master without replicas is asked for none.
    facts.config = config("always", "", "1");
    facts.info = info("min_slaves_good_slaves:1\nmaxmemory:0");
    assert_eq!(findings(&facts), []);
}

#[test]
fn where_a_server_sits_out_it_need_not_keep_its_data() {
    for config in [config("no", "", "0"), config("everysec", "3600 1", "0"), refused()] {
        for lines in ["aof_enabled:0", "aof_enabled:1"] {
            let mut facts = healthy();
            (facts.config, facts.info, facts.wants.sits_out) = (config.clone(), info(lines), true);
            let codes: Vec<_> = findings(&facts).into_iter().map(|it| it.code).collect();
            let unknown =
                if facts.config.known().is_some() { &[][..] } else { &["config-refused"] };
            assert_eq!(codes, unknown);
        }
    }
    let mut facts = healthy();
    facts.info = info("aof_enabled:0");
    assert!(findings(&facts)[0].remedy.contains("Builder::data_quarantine"));
}

#[test]
fn what_a_failover_forgets_is_told_only_where_not_exactly_the_wished_replicas_confirm() {
    let mut facts = healthy();
    facts.info = info(&REPLICAS.replace("connected_slaves:1", "connected_slaves:2"));
    let mut codes = |confirms| {
        facts.wants.confirms = confirms;
        findings(&facts).into_iter().map(|it| it.code).collect::<Vec<_>>()
    };
    let forgets = ["failover-forgets", "no-min-replicas"];
    assert_eq!(codes(None), forgets);
    assert_eq!(codes(Some(2)), [""; 0]);
    for number in [1, 3] {
        assert_eq!(codes(Some(number)), [&["replicas-miscounted"][..], &forgets].concat());
    }
}

#[test]
fn a_setting_that_only_config_shows_is_not_guessed() {
    let mut facts = healthy();
    facts.config = refused();
    facts.info = info(&format!("{REPLICAS}\nmin_slaves_good_slaves:1"));
    let codes: Vec<_> = findings(&facts).into_iter().map(|it| it.code).collect();
    assert_eq!(codes, ["failover-forgets", "config-refused"]);
}

#[test]
fn the_server_is_shown_as_it_tells() {
    let of = |lines: &str, sentinels| {
        let mut facts = healthy();
        (facts.info, facts.sentinels) = (info(lines), sentinels);
        let server = server(&facts);
        (server.role, server.topology, server.replicas)
    };
    let master = Some(Role::Master);
    assert_eq!(of("", Probe::Skipped), (master, Some(Topology::Standalone), Some(0)));
    assert_eq!(of(REPLICAS, Probe::Known(0)), (master, Some(Topology::Replicated), Some(1)));
    assert_eq!(of(REPLICAS, Probe::Known(3)), (master, Some(Topology::Sentinel), Some(1)));
    assert_eq!(of(REPLICAS, refused()), (master, None, Some(1)));
    let cluster = of("redis_mode:cluster", Probe::Skipped);
    assert_eq!(cluster, (master, Some(Topology::Cluster), Some(0)));
    let replica = of("role:slave", Probe::Known(3));
    assert_eq!(replica, (Some(Role::Replica), Some(Topology::Sentinel), Some(0)));
    let mut facts = healthy();
    facts.info = refused();
    let server = server(&facts);
    assert_eq!((server.version, server.role, server.topology), (None, None, None));
    assert_eq!(server.clock.unwrap().micros, 0);
}
