//! Quorums: of Redis servers that share all but their hosts, and of nodes of any kinds.

use std::sync::Arc;

use lock_core::observer::Observer;
use lock_core::{
    AnyBackend, Capabilities, CellBackend, Convertible, Error, ErrorKind, InspectBackend,
    QuorumNode, SharedBackend,
};
use lock_redlock::Redlock;

use crate::shown::place;
use crate::{Store, redis};

/// The port of a host that names none.
const PORT: u16 = 6379;

/// What a node of each kind is.
pub(crate) trait Node:
    QuorumNode + SharedBackend<Conversion = Convertible> + CellBackend + InspectBackend
{
}

impl<B> Node for B where
    B: QuorumNode + SharedBackend<Conversion = Convertible> + CellBackend + InspectBackend
{
}

pub(crate) type Quorum = Redlock<Arc<dyn Node>>;

pub(crate) async fn open(
    url: &str,
    observer: Option<Arc<dyn Observer>>,
) -> Result<AnyBackend, Error> {
    connect(url, observer).await.map(erased)
}

/// The quorum without its type.
pub(crate) fn erased(quorum: Quorum) -> AnyBackend {
    AnyBackend::describing(quorum, |quorum| {
        Capabilities::none().sharing(quorum).keeping(quorum).inspecting(quorum).without_queue()
    })
}

/// A database needs the schema before it votes.
pub(crate) async fn init(url: &str) -> Result<(), Error> {
    for (number, (_, url)) in (1..).zip(nodes(url)?) {
        if let (Store::Postgres, url) = Store::of(&url)? {
            crate::init_postgres(&url).await.map_err(|error| at_node(number, &error))?;
        }
    }
    connect(url, None).await?.init().await
}

pub(crate) async fn connect(
    url: &str,
    observer: Option<Arc<dyn Observer>>,
) -> Result<Quorum, Error> {
    let mut builder = Redlock::builder();
    for (number, (name, url)) in (1..).zip(nodes(url)?) {
        let node = node(&url, observer.clone()).map_err(|error| at_node(number, &error))?;
        builder = builder.node(name, node);
    }
    if let Some(observer) = observer {
        builder = builder.observer(observer);
    }
    builder.build().await
}

/// A client of one node.
fn node(url: &str, observer: Option<Arc<dyn Observer>>) -> Result<Arc<dyn Node>, Error> {
    let (store, url) = Store::of(url)?;
    match store {
        Store::Redis
            if url.split_once("://").is_some_and(|(scheme, _)| scheme.ends_with("+cluster")) =>
        {
            Err(invalid("a Redis cluster is no node: name one server of each node"))
        }
        Store::Redis => Ok(Arc::new(redis::open(&url, observer)?)),
        #[cfg(feature = "postgres")]
        Store::Postgres => Ok(Arc::new(crate::postgres::open(&url, observer)?)),
        #[cfg(not(feature = "postgres"))]
        Store::Postgres => Err(crate::needs("postgres")),
        #[cfg(feature = "etcd")]
        Store::Etcd => Ok(Arc::new(crate::etcd::open(&url, observer)?)),
        #[cfg(not(feature = "etcd"))]
        Store::Etcd => Err(crate::needs("etcd")),
        // Each process would have a node of its own, and two processes could each have a majority.
        Store::Memory => {
            Err(invalid("the memory of a process is no node: other processes do not see it"))
        }
        Store::Quorum => Err(invalid("a quorum is no node of a quorum")),
    }
}

fn invalid(what: &str) -> Error {
    Error::new(ErrorKind::InvalidConfig, what.to_owned())
}

fn at_node(number: usize, error: &Error) -> Error {
    Error::new(error.kind(), format!("node {number} of the quorum: {error}"))
}

/// The name and the URL of each node.
pub(crate) fn nodes(url: &str) -> Result<Vec<(String, String)>, Error> {
    let nodes = match url.strip_prefix("redlock:") {
        Some(urls) => {
            urls.split_ascii_whitespace().map(|url| Some((name(url)?, url.to_owned()))).collect()
        }
        None => alike(url),
    };
    nodes.filter(|nodes: &Vec<_>| !nodes.is_empty()).ok_or_else(|| {
        invalid(
            "the URL of a quorum is redlock+redis://host:port,host:port,host:port/db, or redlock: and the URL of each node, \
             with spaces between them",
        )
    })
}

/// The URL of a node without its login and its options: it names the node, and shows no password.
fn name(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let rest = place(scheme, rest);
    let (hosts, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    Some(format!("{}://{}{path}", scheme.to_ascii_lowercase(), hosts.to_ascii_lowercase()))
}

/// The nodes of a URL that has one scheme, and a list of hosts.
fn alike(url: &str) -> Option<Vec<(String, String)>> {
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
        Some(alike(url)?.into_iter().map(|(_, url)| url).collect())
    }

    #[test]
    fn nodes_share_login_database_and_options() {
        let nodes =
            alike("redlock+rediss://user:p%40w@A:1,b,[::1]:3,[::2]/2?protocol=resp3").unwrap();
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

    #[test]
    fn nodes_of_any_kinds_are_named_by_their_urls_without_secrets() {
        let urls = [
            "Redis://:p%40w@A:1/2?protocol=resp3",
            "postgres://ann:a?b@DB.example/Shop?sslmode=disable",
            "etcd://a,b,c/Shop",
            "redis+sentinel://s1/main?sentinel_pass=hun@ter2",
        ];
        let nodes = nodes(&format!("redlock: {}", urls.join(" \n"))).unwrap();
        let (names, same): (Vec<_>, Vec<_>) = nodes.into_iter().unzip();
        let places = ["redis://a:1/2", "postgres://db.example/Shop", "etcd://a,b,c/Shop"];
        assert_eq!(names[..3], places);
        assert_eq!(names[3], "redis+sentinel://s1/main");
        assert_eq!(same, urls);
    }

    #[test]
    fn a_list_of_what_is_no_node_is_refused() {
        for url in ["redlock:", "redlock:a b c"] {
            let error = nodes(url).unwrap_err();
            assert!(error.to_string().contains("the URL of each node"), "{url}: {error}");
        }
        for (url, why) in [
            ("memory://a", "other processes"),
            ("redis+cluster://a", "cluster"),
            ("redlock+redis://a,b,c", "a quorum"),
            ("redlock:redis://a", "a quorum"),
            ("http://a", "names no store"),
        ] {
            let error = node(url, None).map(drop).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{url}: {error}");
            assert!(error.to_string().contains(why), "{url}: {error}");
        }
    }
}
