//! Asks the server for the facts.

use lock_core::check::{self, Rehearsal};
use lock_core::{Backend as _, Error, Instant, Key};

use super::around;
use super::asking::{ask, nonsense};
use super::clocks::{micros, told};
use super::facts::{Config, Deployment, Facts, Look, Probe, Scripts, Wants, is_silence};
use super::info::Info;
use super::rehearsal::{NAME, rehearse};
use super::rights;
use crate::RedisBackend;
use crate::hub::{notifications, tracking};
use crate::link::Live;
use crate::options::Notifications;
use crate::scripts;
use crate::slot::SLOTS;
use crate::topology::Site;
use crate::wire::{Failure, Reply};

/// Asks every server that has keys, and rehearses a lock at the server that has it.
pub(super) async fn gather(backend: &RedisBackend) -> Result<Deployment, Error> {
    let fleet = backend.fleet();
    let (sites, covered) = fleet.all().await?;
    let home = fleet.home(backend.layout().names(&Key::new(NAME)?)?.lock()).await.ok();
    let mut servers = Vec::new();
    for site in &sites {
        let is_home = home.as_ref().is_some_and(|home| site.is_beside(home));
        servers.push(examine(backend, site, is_home).await?);
    }
    Ok(Deployment {
        name: fleet.to_string(),
        is_unconfirmed: fleet.fails_over() && backend.wish().is_none(),
        uncovered: covered.map_or(0, |covered| usize::from(SLOTS) - covered),
        sentinels: match sites.first() {
            Some(site) => around::sentinels(site.link().settings()).await,
            None => Vec::new(),
        },
        servers,
    })
}

/// Asks for everything that a server may tell this user, and rehearses a lock at its home.
async fn examine(backend: &RedisBackend, site: &Site, is_home: bool) -> Result<Facts, Error> {
    let live = site.link().connected().await?;
    let begin = backend.clock().now();
    let first = look(&live, begin, backend).await?;
    let mut facts = Facts {
        server: live.endpoint().to_string(),
        wants: wants(backend, site)?,
        info: info(&live).await?,
        is_replica: Probe::Skipped,
        config: Probe::Skipped,
        notifications: Probe::of(notifications::flags(&live).await)?,
        sentinels: Probe::Skipped,
        replicas: Vec::new(),
        differs: false,
        clock: Probe::Skipped,
        scripts: unloaded(&live, site.link().settings().terms).await?,
        refused: Probe::Skipped,
        untracked: None,
        rehearsal: None,
    };
    replication(&live, &mut facts).await?;
    let settings = site.link().settings();
    facts.replicas = around::replicas(settings, backend.clock(), &live, &facts).await;
    facts.differs = around::differs(settings, &live, &facts).await;
    if facts.scripts.refused.is_none() {
        facts.refused = rights::refused(backend, site, &live).await?;
    }
    if backend.listening().tracking {
        facts.untracked = untracked(&live).await?;
    }
    if facts.is_replica() != Some(true) && facts.scripts.refused.is_none() && is_home {
        facts.rehearsal = Some(rehearse(backend).await?);
    }
    if let Some(notifications) = enabled(backend, &live, &facts).await? {
        facts.notifications = notifications;
    }
    facts.scripts.sent_whole = live.brings_all();
    facts.clock = second_look(first, begin, backend, &live, facts.rehearsal.as_ref()).await?;
    Ok(facts)
}

/// The settings, and what the server knows of replication.
async fn replication(live: &Live, facts: &mut Facts) -> Result<(), Error> {
    facts.config = config(live).await?;
    if facts.is_replica().is_none() {
        facts.is_replica = Probe::of(is_replica(live).await)?;
    }
    if has_replication(facts) {
        facts.sentinels = Probe::of(sentinels(live).await)?;
    }
    Ok(())
}

fn wants(backend: &RedisBackend, site: &Site) -> Result<Wants, Error> {
    let (listening, key) = (backend.listening(), Key::new(NAME)?);
    let names = backend.layout().names(&key)?;
    let lock = String::from_utf8_lossy(names.lock());
    // A prefix contains no brace.
    let prefix = lock.split('{').next().unwrap_or_default().to_owned();
    Ok(Wants {
        prefix,
        notifications: listening.notifications,
        queues: site.queue_limit() > 0,
        follows: backend.fleet().fails_over(),
        confirms: backend.wish().map(|wish| wish.replicas),
        sits_out: backend.longest().is_some(),
    })
}

/// The notifications after the rehearsal, whose watch enables them if the app says so.
async fn enabled(
    backend: &RedisBackend,
    live: &Live,
    facts: &Facts,
) -> Result<Option<Probe<String>>, Error> {
    let is_enabled = backend.listening().notifications == Notifications::Enable;
    if is_enabled && facts.rehearsal.as_ref().is_some_and(|it| !it.has_failed()) {
        return Ok(Some(Probe::of(notifications::flags(live).await)?));
    }
    Ok(None)
}

/// Whether there may be replicas, so that there may be Sentinels.
fn has_replication(facts: &Facts) -> bool {
    let Some(info) = facts.info.known() else { return true };
    info.get("role") == Some("slave") || info.number("connected_slaves") != Some(0)
}

/// All sections that matter.
async fn info(live: &Live) -> Result<Probe<Info>, Error> {
    let mut text = Vec::new();
    // Only newer servers accept several sections at once.
    for section in ["default", "commandstats"] {
        match ask(live, &["INFO", section]).await {
            Ok(Reply::Text(more)) => text.extend([more, b"\r\n".to_vec()].concat()),
            Ok(_) => return Ok(Probe::Refused(nonsense("INFO").to_string())),
            Err(error) if is_silence(&error) => return Err(error),
            Err(error) => return Ok(Probe::Refused(error.to_string())),
        }
    }
    Ok(Probe::Known(Info::parse(&text)))
}

async fn config(live: &Live) -> Result<Probe<Config>, Error> {
    let all = async {
        Ok(Config {
            appendfsync: setting(live, "appendfsync").await?,
            save: setting(live, "save").await?,
            min_replicas_to_write: setting(live, "min-replicas-to-write").await?,
        })
    };
    Probe::of(all.await)
}

/// The value of a setting; `None` if the server does not have it.
async fn setting(live: &Live, name: &str) -> Result<Option<String>, Error> {
    let Reply::List(pair) = ask(live, &["CONFIG", "GET", name]).await? else {
        return Err(nonsense("CONFIG GET"));
    };
    match pair.as_slice() {
        [] => Ok(None),
        [Reply::Text(_), Reply::Text(value)] => {
            let value = String::from_utf8_lossy(value);
            Ok(Some(value.chars().filter(|it| !it.is_control()).collect()))
        }
        _ => Err(nonsense("CONFIG GET")),
    }
}

async fn is_replica(live: &Live) -> Result<bool, Error> {
    match ask(live, &["ROLE"]).await? {
        Reply::List(parts) => match parts.first() {
            Some(Reply::Text(role)) if role == b"master" => Ok(false),
            Some(Reply::Text(role)) if role == b"slave" => Ok(true),
            _ => Err(nonsense("ROLE")),
        },
        _ => Err(nonsense("ROLE")),
    }
}

/// Every Sentinel listens to this channel on each server that it monitors.
async fn sentinels(live: &Live) -> Result<u64, Error> {
    let reply = ask(live, &["PUBSUB", "NUMSUB", "__sentinel__:hello"]).await?;
    let Reply::List(pair) = &reply else { return Err(nonsense("PUBSUB NUMSUB")) };
    match pair.as_slice() {
        [Reply::Text(_), Reply::Int(count)] => {
            u64::try_from(*count).map_err(|_| nonsense("PUBSUB NUMSUB"))
        }
        _ => Err(nonsense("PUBSUB NUMSUB")),
    }
}

/// Has the server load every script. Other clients may have loaded the scripts, but a server may forget them at any
/// time.
async fn unloaded(live: &Live, terms: bool) -> Result<Scripts, Error> {
    let mut found = Scripts::default();
    for script in scripts::all(terms) {
        match live.load(script).await {
            Ok(()) => {}
            Err(Failure::NoCommand(error)) => {
                match live.brings(error.clone()).await.map_err(Failure::into_error) {
                    Ok(()) => found.unloaded = Some(error.to_string()),
                    Err(error) if is_silence(&error) => return Err(error),
                    Err(error) => found.refused = Some((error.kind(), error.to_string())),
                }
                break;
            }
            Err(failure) => {
                let error = failure.into_error();
                if is_silence(&error) {
                    return Err(error);
                }
                found.refused = Some((error.kind(), error.to_string()));
                break;
            }
        }
    }
    Ok(found)
}

async fn untracked(live: &Live) -> Result<Option<String>, Error> {
    match tracking::switch_on(live).await {
        Ok(()) => Ok(None),
        Err(error) if is_silence(&error) => Err(error),
        Err(error) => Ok(Some(error.to_string())),
    }
}

/// Looks at the clock of the server.
async fn look(live: &Live, begin: Instant, backend: &RedisBackend) -> Result<Probe<Look>, Error> {
    let steady = || micros(backend.clock().now().saturating_duration_since(begin).as_micros());
    let (wall, before) = (check::Look::wall(), steady());
    let answer = ask(live, &["TIME"]).await;
    let took = steady() - before;
    let read = |reply| match told(&reply) {
        Some(told) => Ok(Look { wall, steady: before, took, told }),
        None => Err(nonsense("TIME")),
    };
    Probe::of(answer.and_then(read))
}

/// Looks again, to see whether the clock runs. A rehearsal that failed may have ended the connection.
async fn second_look(
    first: Probe<Look>,
    begin: Instant,
    backend: &RedisBackend,
    live: &Live,
    rehearsal: Option<&Rehearsal>,
) -> Result<Probe<[Look; 2]>, Error> {
    let first = match first {
        Probe::Known(first) => first,
        Probe::Refused(why) => return Ok(Probe::Refused(why)),
        Probe::Skipped => return Ok(Probe::Skipped),
    };
    let failed = rehearsal.is_some_and(Rehearsal::has_failed);
    match look(live, begin, backend).await {
        Ok(Probe::Known(second)) => Ok(Probe::Known([first, second])),
        Ok(_) => Ok(Probe::Known([first, first])),
        Err(_) if failed => Ok(Probe::Known([first, first])),
        Err(error) => Err(error),
    }
}
