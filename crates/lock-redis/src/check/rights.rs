//! What a server refuses to the user, of everything that locks need.
//!
//! Users are not shared between servers, so each server with keys is asked.

use lock_core::{Error, ErrorKind, Key};

use super::asking::{ask, nonsense};
use super::facts::{Probe, is_silence};
use super::rehearsal::NAME;
use crate::RedisBackend;
use crate::commit::Wish;
use crate::link::{Live, enquire};
use crate::scripts::RIGHTS;
use crate::slot;
use crate::topology::Site;
use crate::wire::{Call, Command, Failure, Reply, Version};

/// The commands that locks need and the server refuses to this user.
///
/// # Errors
///
/// The server does not answer on this connection. If it does not answer on another one, the rights are unknown.
pub(super) async fn refused(
    backend: &RedisBackend,
    site: &Site,
    live: &Live,
) -> Result<Probe<Vec<String>>, Error> {
    let place = Place::of(backend, site)?;
    let asked = Probe::of(on_this(backend, site, &place, live).await)?;
    let Probe::Known(mut refused) = asked else { return Ok(asked) };
    // A channel that is refused says nothing of the commands that name it.
    let has_channel = !refused.iter().any(|it| it == "channel");
    for (name, command) in alone(backend, site, &place, live, has_channel) {
        match is_denied(enquire(site.link().settings(), live.endpoint(), &command).await) {
            Ok(true) => refused.push(name.to_owned()),
            Ok(false) => {}
            Err(error) => return Ok(Probe::Refused(error.to_string())),
        }
    }
    Ok(Probe::Known(refused))
}

/// The refused ones of the commands that leave nothing behind on the connection.
async fn on_this(
    backend: &RedisBackend,
    site: &Site,
    place: &Place,
    live: &Live,
) -> Result<Vec<String>, Error> {
    let mut refused = to_scripts(place, live).await?;
    for (name, words) in options(backend, site) {
        if is_denied(ask(live, words).await)? {
            refused.push(name.to_owned());
        }
    }
    let has_channel = !refused.iter().any(|it| it == "channel");
    if sends_to_slots(backend, site)
        && has_channel
        && is_denied(ask(live, &["SPUBLISH", &place.channel, "rights"]).await)?
    {
        refused.push("spublish".to_owned());
    }
    Ok(refused)
}

/// Whether a message may go to one server of a cluster alone.
fn sends_to_slots(backend: &RedisBackend, site: &Site) -> bool {
    backend.fleet().is_cluster() && site.queue_limit() > 0
}

/// A key and a channel of no lock, in a slot of the server.
struct Place {
    key: String,
    channel: String,
}

impl Place {
    fn of(backend: &RedisBackend, site: &Site) -> Result<Self, Error> {
        let key = match backend.fleet().slot_of(site) {
            Some(slot) => Key::new(slot::text_in(slot))?,
            None => Key::new(NAME)?,
        };
        let names = backend.layout().names(&key)?;
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        let key = text(names.lock()) + ":rights";
        let channel = key.clone() + &text(names.released()[1]);
        Ok(Self { key, channel })
    }
}

/// The commands that an option of the client needs. They change nothing, and wait for no replica.
fn options(backend: &RedisBackend, site: &Site) -> Vec<(&'static str, &'static [&'static str])> {
    let mut options: Vec<(&str, &[&str])> = Vec::new();
    if site.link().settings().terms || backend.wish().is_some() {
        options.push(("info", &["INFO", "replication"]));
    }
    match backend.wish() {
        Some(Wish { on_disk: true, .. }) => options.push(("waitaof", &["WAITAOF", "0", "0", "1"])),
        Some(_) => options.push(("wait", &["WAIT", "0", "1"])),
        None => {}
    }
    if backend.fleet().is_cluster() {
        options.push(("cluster|slots", &["CLUSTER", "SLOTS"]));
    }
    options
}

/// The commands of the scripts of locks that the server refuses to this user.
async fn to_scripts(place: &Place, live: &Live) -> Result<Vec<String>, Error> {
    let Place { key, channel } = place;
    let mut call = Call::new(&RIGHTS, 1, key.len() + channel.len());
    call.bytes(key.as_bytes()).bytes(channel.as_bytes());
    match live.run(call).await.map_err(Failure::into_error)?.reply {
        Reply::Text(text) => {
            let text = String::from_utf8_lossy(&text);
            let words = text.split_ascii_whitespace();
            Ok(words
                .filter(|word| word.bytes().all(|it| it.is_ascii_lowercase()))
                .map(str::to_owned)
                .collect())
        }
        _ => Err(nonsense("the script about rights")),
    }
}

/// The commands of watches, for slots that move, and for messages from one server alone.
///
/// `ASKING` concerns the next command of its connection, and a subscription stays as long as its connection. So each
/// has a connection for itself alone, and nothing remains of it.
fn alone(
    backend: &RedisBackend,
    site: &Site,
    place: &Place,
    live: &Live,
    has_channel: bool,
) -> Vec<(&'static str, Command)> {
    let of_channel = |word| Command::words(&[word, &place.channel]);
    let mut alone = vec![("unsubscribe", of_channel("UNSUBSCRIBE"))];
    if backend.fleet().is_cluster() {
        alone.push(("asking", Command::words(&["ASKING"])));
    }
    if has_channel {
        alone.push(("subscribe", of_channel("SUBSCRIBE")));
        if sends_to_slots(backend, site) && live.connection().version() == Version::Resp3 {
            alone.push(("ssubscribe", of_channel("SSUBSCRIBE")));
        }
    }
    alone
}

/// Whether the server refuses a command to this user. The command may fail for any other reason.
fn is_denied(answer: Result<Reply, Error>) -> Result<bool, Error> {
    match answer {
        Err(error) if is_silence(&error) => Err(error),
        Err(error) => Ok(error.kind() == ErrorKind::Denied),
        Ok(_) => Ok(false),
    }
}
