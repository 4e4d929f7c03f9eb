//! Asks what a server does not tell itself: its replicas, the sentinels that watch it, and another connection.

use futures::future::join_all;
use lock_core::{Clock, Error, ErrorKind, check};

use super::clocks::{micros, told};
use super::facts::{Facts, Look, Probe, Replica, Sentinel, View};
use super::info::Info;
use crate::link::{Live, Origin, SWITCHED, Settings, enquire};
use crate::wire::{Address, Command, Endpoint, Reply};

/// The most replicas of a server that are asked.
const REPLICAS: usize = 16;

/// What each sentinel says. Nothing if the client knows of none.
pub(super) async fn sentinels(settings: &Settings) -> Vec<Sentinel> {
    let Origin::Service(service) = &settings.origin else { return Vec::new() };
    let question = Command::words(&["SENTINEL", "MASTER", &service.name]);
    // The connection and its subscription end at once.
    let listening = Command::words(&["SUBSCRIBE", SWITCHED]);
    let ask = async |at: &Endpoint| {
        let (address, at) = (at.address.to_string(), at.clone().into());
        let view = match enquire(settings, &at, &question).await {
            Ok(reply) => read(&reply).ok_or_else(|| "it answers with nonsense".to_owned()),
            Err(error) => Err(error.to_string()),
        };
        match view {
            Ok(view) => heard(address, view, enquire(settings, &at, &listening).await),
            Err(_) => Sentinel { address, view, unheard: None },
        }
    };
    join_all(service.sentinels.iter().map(ask)).await
}

/// What a sentinel says that answered, and how it takes a listener on a second connection.
fn heard(address: String, view: View, listening: Result<Reply, Error>) -> Sentinel {
    let (view, unheard) = match listening {
        Ok(_) => (Ok(view), None),
        Err(error) if error.kind() == ErrorKind::Denied => (Ok(view), Some(error.to_string())),
        // Rights are not the reason.
        Err(error) => (Err(format!("a second connection failed: {error}")), None),
    };
    Sentinel { address, view, unheard }
}

/// Reads the answer to `SENTINEL MASTER`.
fn read(reply: &Reply) -> Option<View> {
    let Reply::List(words) = reply else { return None };
    let field = |name: &str| {
        let pair = words.chunks_exact(2).find(|pair| pair[0] == Reply::Text(name.into()))?;
        let Reply::Text(value) = &pair[1] else { return None };
        let text = String::from_utf8_lossy(value);
        Some(text.chars().filter(|it| !it.is_control()).collect::<String>())
    };
    Some(View {
        primary: format!("{}:{}", field("ip")?, field("port")?),
        others: field("num-other-sentinels")?.parse().ok()?,
        quorum: field("quorum")?.parse().ok()?,
    })
}

/// The clocks of the replicas, if one of them may take over from this server, and the client may have to follow.
pub(super) async fn replicas(
    settings: &Settings,
    clock: Clock,
    live: &Live,
    facts: &Facts,
) -> Vec<Replica> {
    let Some(info) = facts.info.known().filter(|_| facts.wants.follows) else { return Vec::new() };
    let (question, begin) = (Command::words(&["TIME"]), clock.now());
    let ask = async |address: String| {
        let Some(at) = address_of(&address, live.endpoint()) else {
            let clock = Probe::Refused("its address is unknown".to_owned());
            return Replica { address, clock };
        };
        let steady = || micros(clock.now().saturating_duration_since(begin).as_micros());
        let (wall, before) = (check::Look::wall(), steady());
        let answer = enquire(settings, &live.endpoint().at(at).into(), &question).await;
        let clock = match answer.map(|reply| told(&reply)) {
            Ok(Some(told)) => {
                Probe::Known(Look { wall, steady: before, took: steady() - before, told })
            }
            Ok(None) => Probe::Refused("it answers with nonsense".to_owned()),
            Err(error) => Probe::Refused(error.to_string()),
        };
        Replica { address, clock }
    };
    join_all(info.replicas().into_iter().take(REPLICAS).map(|it| ask(it.address))).await
}

/// Whether one more connection leads to another server.
pub(super) async fn differs(settings: &Settings, live: &Live, facts: &Facts) -> bool {
    let Some(run) = facts.info.known().and_then(|info| info.get("run_id")) else { return false };
    match enquire(settings, live.endpoint(), &Command::words(&["INFO", "server"])).await {
        Ok(Reply::Text(text)) => Info::parse(&text).get("run_id").is_some_and(|other| other != run),
        // The server answers on the first connection.
        Ok(_) | Err(_) => false,
    }
}

/// Reads `host:port`, as `INFO` shows a replica.
fn address_of(text: &str, asked: &Endpoint) -> Option<Address> {
    let (host, port) = text.rsplit_once(':')?;
    Address::named(host, port.parse().ok()?, &asked.address)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::garbage;

    fn words(words: &[&str]) -> Reply {
        Reply::List(words.iter().map(|word| Reply::Text((*word).into())).collect())
    }

    #[test]
    fn what_a_sentinel_says_is_read() {
        let all =
            ["name", "main", "ip", "h1", "port", "7", "num-other-sentinels", "2", "quorum", "2"];
        let view = View { primary: "h1:7".to_owned(), others: 2, quorum: 2 };
        assert_eq!(read(&words(&all)), Some(view));
        assert_eq!(read(&words(&all[..8])), None);
        assert_eq!(read(&words(&["ip", "h1", "port"])), None);
    }

    #[test]
    fn a_sentinel_is_unheard_only_if_it_refuses_the_listener() {
        let view = || View { primary: "h1:7".to_owned(), others: 2, quorum: 2 };
        let heard = |listening| heard("s1".to_owned(), view(), listening);
        let failed = |kind| heard(Err(Error::new(kind, "no")));
        let well = heard(Ok(words(&["subscribe"])));
        assert_eq!((well.view, well.unheard), (Ok(view()), None));
        let denied = failed(ErrorKind::Denied);
        assert_eq!((denied.view, denied.unheard.as_deref()), (Ok(view()), Some("no")));
        for kind in [ErrorKind::Timeout, ErrorKind::Unreachable, ErrorKind::NotReady] {
            let silent = failed(kind);
            assert!(silent.view.unwrap_err().ends_with(": no"));
            assert_eq!(silent.unheard, None);
        }
    }

    #[test]
    fn the_address_of_a_replica_is_read() {
        let asked = Endpoint::parse("redis://h1:1").unwrap();
        let shown = |text| address_of(text, &asked).map(|it| it.to_string());
        assert_eq!(shown("10.0.0.1:6380").as_deref(), Some("10.0.0.1:6380"));
        assert_eq!(shown("::1:6380").as_deref(), Some("[::1]:6380"));
        assert_eq!(shown("?:6380"), None);
        assert_eq!(shown("h:?"), None);
    }

    proptest! {
        #[test]
        fn any_answer_of_a_sentinel_is_read_or_refused(reply in garbage::replies()) {
            read(&reply);
        }
    }
}
