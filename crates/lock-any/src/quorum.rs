//! A quorum of servers.

use std::sync::Arc;

use lock_core::observer::Observer;
use lock_core::{AnyBackend, Capabilities, Error, ErrorKind};
use lock_redis::RedisBackend;
use lock_redlock::Redlock;

use crate::redis;

/// The port of a host that names none.
const PORT: u16 = 6379;

pub(crate) async fn open(
    url: &str,
    observer: Option<Arc<dyn Observer>>,
) -> Result<AnyBackend, Error> {
    connect(url, observer).await.map(erased)
}

/// The quorum without its type.
pub(crate) fn erased(quorum: Redlock<RedisBackend>) -> AnyBackend {
    AnyBackend::describing(quorum, |quorum| {
        Capabilities::none().sharing(quorum).keeping(quorum).inspecting(quorum)
    })
}

pub(crate) async fn init(url: &str) -> Result<(), Error> {
    connect(url, None).await?.init().await
}

pub(crate) async fn connect(
    url: &str,
    observer: Option<Arc<dyn Observer>>,
) -> Result<Redlock<RedisBackend>, Error> {
    let mut builder = Redlock::builder();
    for (name, url) in nodes(url).ok_or_else(invalid)? {
        builder = builder.node(name, redis::open(&url, observer.clone())?);
    }
    if let Some(observer) = observer {
        builder = builder.observer(observer);
    }
    builder.build().await
}

pub(crate) fn invalid() -> Error {
    let what = "the URL of a quorum is redlock+redis://host:port,host:port,host:port/db";
    Error::new(ErrorKind::InvalidConfig, what)
}

/// The name and the URL of each node.
pub(crate) fn nodes(url: &str) -> Option<Vec<(String, String)>> {
    let (scheme, rest) = url.split_once("://")?;
    let (_, scheme) = scheme.split_once('+')?;
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let (login, hosts) = match authority.rsplit_once('@') {
        Some((login, hosts)) => (format!("{login}@"), hosts),
        None => (String::new(), authority),
    };
    let plain = !scheme.contains('+') && scheme != "unix";
    let node = |host: &str| {
        let name = named(host)?;
        let url = format!("{scheme}://{login}{name}{path}");
        Some((name, url))
    };
    hosts.split(',').map(node).collect::<Option<_>>().filter(|_| plain)
}

/// The host and its port, in one spelling for all clients.
fn named(host: &str) -> Option<String> {
    if host.is_empty() {
        return None;
    }
    // An IPv6 address with its colons is in brackets.
    let port = &host[host.rfind(']').map_or(0, |end| end + 1)..];
    let host = host.to_ascii_lowercase();
    Some(if port.contains(':') { host } else { format!("{host}:{PORT}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn urls(url: &str) -> Option<Vec<String>> {
        Some(nodes(url)?.into_iter().map(|(_, url)| url).collect())
    }

    #[test]
    fn nodes_share_login_database_and_options() {
        let nodes =
            nodes("redlock+rediss://user:p%40w@A:1,b,[::1]:3,[::2]/2?protocol=resp3").unwrap();
        let (names, urls): (Vec<_>, Vec<_>) = nodes.into_iter().unzip();
        assert_eq!(names, ["a:1", "b:6379", "[::1]:3", "[::2]:6379"]);
        assert_eq!(urls[0], "rediss://user:p%40w@a:1/2?protocol=resp3");
        assert_eq!(urls[3], "rediss://user:p%40w@[::2]:6379/2?protocol=resp3");
    }

    #[test]
    fn a_url_that_names_no_hosts_is_refused() {
        for url in [
            "redlock+redis://",
            "redlock+redis://a,,b",
            "redlock+redis:a,b,c",
            "redlock+redis+cluster://a,b,c",
            "redlock+unix:///a,b",
        ] {
            assert_eq!(urls(url), None, "{url}");
        }
    }
}
