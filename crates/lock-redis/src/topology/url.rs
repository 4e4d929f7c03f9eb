//! What a URL names: one server, the servers that sentinels watch, or a cluster.

use std::borrow::Cow;
use std::fmt;

use lock_core::{Error, ErrorKind};

use crate::options::Protocol;
use crate::wire::{Endpoint, FRAGMENT};

/// The port of a sentinel whose URL names none.
const SENTINEL_PORT: u16 = 26379;

/// What a URL names.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// One server, whatever it is.
    Single(Endpoint),
    /// The primary of a service that sentinels watch.
    Sentinel(Service),
    /// The primaries of a cluster: the endpoints of some of its nodes, with one login for all.
    Cluster(Vec<Endpoint>),
}

/// A service that sentinels watch.
#[derive(Clone, Debug)]
pub(crate) struct Service {
    pub(crate) name: String,
    pub(crate) sentinels: Vec<Endpoint>,
    /// The login, database and encryption of the servers. Its address is not that of a server.
    pub(crate) server: Endpoint,
}

impl Target {
    /// Reads a URL, without network access. An error repeats no part of the URL.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`].
    pub(crate) fn parse(url: &str) -> Result<Self, Error> {
        let (scheme, rest) = url.split_once("://").unwrap_or((url, ""));
        let scheme = scheme.to_ascii_lowercase();
        let single = || Endpoint::parse(url).map(Self::Single);
        let Some((base, kind)) = scheme.split_once('+') else { return single() };
        let base = match base {
            "redis" | "valkey" => "redis",
            "rediss" | "valkeys" => "rediss",
            _ => return single(),
        };
        match kind {
            "sentinel" => Parts::split(base, rest)?.sentinel().map(Self::Sentinel),
            "cluster" => Parts::split(base, rest)?.cluster().map(Self::Cluster),
            _ => single(),
        }
    }

    /// The service that these sentinels watch, or without a service the cluster of these servers.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`].
    pub(crate) fn of_hosts(hosts: &[String], service: Option<&str>) -> Result<Self, Error> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte);
        if hosts.iter().any(|host| host.is_empty() || !host.bytes().all(is_plain)) {
            return Err(invalid("a host is a name or an address, with or without a port"));
        }
        if hosts.is_empty() {
            return Err(invalid("there is no host"));
        }
        let hosts = hosts.iter().map(String::as_str).collect();
        let mut parts =
            Parts { hosts, path: service.unwrap_or_default(), ..Parts::split("redis", "h")? };
        if parts.path.contains('/') {
            parts.path = "";
        }
        match service {
            Some(_) => parts.sentinel().map(Self::Sentinel),
            None => parts.cluster().map(Self::Cluster),
        }
    }

    /// An endpoint with the database, the encryption and the version of the protocol of all servers.
    pub(crate) fn server(&self) -> &Endpoint {
        match self {
            Self::Single(endpoint) => endpoint,
            Self::Sentinel(service) => &service.server,
            // A URL without a host is refused.
            Self::Cluster(seeds) => &seeds[0],
        }
    }

    /// The version of the protocol, if the URL names one.
    pub(crate) fn protocol(&self) -> Option<Protocol> {
        self.server().protocol
    }
}

/// Hosts, ports and database, without the credentials.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Single(endpoint) => write!(f, "{endpoint}"),
            Self::Sentinel(service) => write!(f, "{service}"),
            Self::Cluster(seeds) => {
                f.write_str("cluster at ")?;
                list(seeds, f)
            }
        }
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at ", self.name)?;
        list(&self.sentinels, f)?;
        write!(f, "/{}", self.server.database)
    }
}

fn list(endpoints: &[Endpoint], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (index, endpoint) in endpoints.iter().enumerate() {
        write!(f, "{}{}", if index > 0 { "," } else { "" }, endpoint.address)?;
    }
    Ok(())
}

/// The parts of a URL that names several hosts.
struct Parts<'a> {
    /// `redis` or `rediss`
    scheme: &'a str,
    /// The user and the password with the `@` behind them, or nothing.
    login: &'a str,
    hosts: Vec<&'a str>,
    path: &'a str,
    /// `?protocol=…`, or nothing.
    protocol: String,
    sentinel_user: Option<String>,
    sentinel_pass: Option<String>,
}

impl<'a> Parts<'a> {
    fn split(scheme: &'a str, rest: &'a str) -> Result<Self, Error> {
        if rest.contains('#') {
            return Err(invalid(FRAGMENT));
        }
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let at = authority.rfind('@').map_or(0, |at| at + 1);
        let (login, hosts) = authority.split_at(at);
        let hosts: Vec<_> = hosts.split(',').collect();
        if hosts.contains(&"") {
            return Err(invalid("the URL lacks a host: separate hosts by one comma"));
        }
        let path = path.strip_suffix('/').unwrap_or(path);
        let (protocol, sentinel_user, sentinel_pass) = (String::new(), None, None);
        let mut parts = Self { scheme, login, hosts, path, protocol, sentinel_user, sentinel_pass };
        query.split('&').filter(|pair| !pair.is_empty()).try_for_each(|pair| parts.option(pair))?;
        Ok(parts)
    }

    /// Reads `name=value` from the query.
    fn option(&mut self, pair: &str) -> Result<(), Error> {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        match name {
            "protocol" => self.protocol = format!("?protocol={value}"),
            "sentinel_user" => self.sentinel_user = Some(decoded(value)?),
            "sentinel_pass" => self.sentinel_pass = Some(decoded(value)?),
            _ => {
                return Err(invalid(
                    "the URL has an unknown option: there are protocol, sentinel_user and sentinel_pass",
                ));
            }
        }
        Ok(())
    }

    fn cluster(self) -> Result<Vec<Endpoint>, Error> {
        if !matches!(self.path, "" | "0") {
            return Err(invalid("a cluster has database 0 and no other"));
        }
        if self.sentinel_user.is_some() || self.sentinel_pass.is_some() {
            return Err(invalid("a cluster has no sentinels to log in to"));
        }
        self.hosts.iter().map(|host| self.endpoint(self.login, host, "")).collect()
    }

    fn sentinel(self) -> Result<Service, Error> {
        let (name, database) = self.path.split_once('/').unwrap_or((self.path, ""));
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
        if name.is_empty() || !name.bytes().all(is_plain) {
            return Err(invalid(
                "the name of the service is missing or wrong: after the hosts, letters, digits, '.', '-' and '_'",
            ));
        }
        let server = self.endpoint(self.login, self.hosts[0], database)?;
        if self.sentinel_user.is_some() && self.sentinel_pass.is_none() {
            return Err(invalid("the URL has a user for the sentinels and no password"));
        }
        let sentinel = |host: &&str| {
            let has_port = host.rsplit(']').next().is_some_and(|tail| tail.contains(':'));
            let host = match has_port {
                true => Cow::Borrowed(*host),
                false => Cow::Owned(format!("{host}:{SENTINEL_PORT}")),
            };
            let endpoint = self.endpoint("", &host, "")?;
            Ok(endpoint.with_login(self.sentinel_user.as_deref(), self.sentinel_pass.as_deref()))
        };
        let sentinels = self.hosts.iter().map(sentinel).collect::<Result<_, Error>>()?;
        Ok(Service { name: name.to_owned(), sentinels, server })
    }

    /// One of the hosts, in the words of a URL of one server.
    fn endpoint(&self, login: &str, host: &str, database: &str) -> Result<Endpoint, Error> {
        let Self { scheme, protocol, .. } = self;
        Endpoint::parse(&format!("{scheme}://{login}{host}/{database}{protocol}"))
    }
}

/// Undoes percent-encoding.
fn decoded(text: &str) -> Result<String, Error> {
    let wrong = || invalid("an option of the URL is not percent-encoded UTF-8");
    let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
    let mut read = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        read.push(match byte {
            b'%' => {
                let pair = digit(bytes.next()).zip(digit(bytes.next())).ok_or_else(wrong)?;
                (pair.0 * 16 + pair.1) as u8
            }
            plain => plain,
        });
    }
    String::from_utf8(read).map_err(|_| wrong())
}

fn invalid(message: &'static str) -> Error {
    Error::new(ErrorKind::InvalidConfig, message)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    fn cluster(url: &str) -> Vec<String> {
        let Target::Cluster(seeds) = Target::parse(url).unwrap() else { panic!("{url}") };
        seeds.iter().map(Endpoint::to_string).collect()
    }

    fn service(url: &str) -> Service {
        let Target::Sentinel(service) = Target::parse(url).unwrap() else { panic!("{url}") };
        service
    }

    #[test]
    fn urls_of_one_server_mean_what_they_always_meant() {
        for (url, shown) in [
            ("redis://me:hunter2@redis.example:7000/3", "redis.example:7000/3"),
            ("rediss://[::1]/?protocol=resp3", "[::1]:6379/0"),
            ("valkey://valkey.example", "valkey.example:6379/0"),
            ("valkeys://valkey.example", "valkey.example:6379/0"),
            ("redis+unix:///run/redis.sock?db=2&pass=hunter2", "/run/redis.sock/2"),
            ("valkey+unix:///run/valkey.sock", "/run/valkey.sock/0"),
            ("unix:///run/redis.sock", "/run/redis.sock/0"),
        ] {
            let target = Target::parse(url).unwrap();
            assert!(matches!(target, Target::Single(_)), "{url}");
            assert_eq!(target.to_string(), shown);
        }
    }

    #[test]
    fn a_cluster_has_seeds_with_one_login() {
        assert_eq!(
            cluster("redis+cluster://h1,h2:7001,[::1]"),
            ["h1:6379/0", "h2:7001/0", "[::1]:6379/0"]
        );
        for scheme in ["redis", "rediss", "valkey", "valkeys", "REDIS"] {
            let target =
                Target::parse(&format!("{scheme}+cluster://me:hunter2@h1,h2/0?protocol=3"))
                    .unwrap();
            assert_eq!(target.to_string(), "cluster at h1:6379,h2:6379");
            assert_eq!(target.protocol(), Some(Protocol::Resp3));
            assert_eq!(target.server().tls, matches!(scheme, "rediss" | "valkeys"));
            assert_eq!(target.server().credentials(), (Some("me"), Some("hunter2")));
        }
    }

    #[test]
    fn sentinels_and_servers_have_logins_of_their_own() {
        let url = "redis+sentinel://me:hunter2@s1,s2:5000,[::1]/main-db/3?sentinel_user=eye&sentinel_pass=a%40b%2F+";
        let service = service(url);
        assert_eq!(service.to_string(), "main-db at s1:26379,s2:5000,[::1]:26379/3");
        assert_eq!(service.server.credentials(), (Some("me"), Some("hunter2")));
        assert_eq!(service.server.database, 3);
        for sentinel in &service.sentinels {
            assert_eq!(sentinel.credentials(), (Some("eye"), Some("a@b/+")));
            assert_eq!((sentinel.database, sentinel.tls), (0, false));
        }
    }

    #[test]
    fn without_credentials_for_sentinels_none_are_sent_to_them() {
        let service = service("valkeys+sentinel://:hunter2@s1,s2/main");
        assert_eq!(service.server.credentials(), (None, Some("hunter2")));
        assert_eq!(service.server.database, 0);
        assert!(service.sentinels.iter().all(|it| it.credentials() == (None, None) && it.tls));
    }

    #[test]
    fn a_wrong_url_is_refused_without_repeating_it() {
        for (url, reason) in [
            ("redis+cluster://", "lacks a host"),
            ("redis+cluster://h1,,hunter2", "lacks a host"),
            ("redis+cluster://h1/hunter2", "database 0"),
            ("redis+cluster://h1/3", "database 0"),
            ("redis+cluster://h1:hunter2", "a port is a number from 1 to 65535"),
            ("redis+cluster://me:hunter2@h1#insecure", "fragment"),
            ("redis+cluster://h1?sentinel_pass=hunter2", "no sentinels"),
            ("redis+cluster://h1?password=hunter2", "unknown option"),
            ("redis+cluster://h1?protocol=hunter2", "resp2 or resp3"),
            ("redis+sentinel://me:hunter2@s1", "name of the service"),
            ("redis+sentinel://s1/", "name of the service"),
            ("redis+sentinel://s1//3", "name of the service"),
            ("redis+sentinel://s1/hunter2%20", "name of the service"),
            ("redis+sentinel://s1/main/hunter2", "a number from 0 on"),
            ("redis+sentinel://s1/main/-1", "a number from 0 on"),
            ("redis+sentinel://s1/main/1/2", "a number from 0 on"),
            ("redis+sentinel://s1/main?sentinel_user=hunter2", "no password"),
            ("redis+sentinel://s1/main?sentinel_pass=hunter2%f", "percent-encoded"),
            ("redis+sentinel://s1/main?sentinel_pass=hunter2%ff", "percent-encoded"),
            ("redis+proxy://hunter2", "no URL of a server"),
            ("http+cluster://hunter2", "no URL of a server"),
            ("redis+cluster:hunter2", "no URL of a server"),
        ] {
            let error = Target::parse(url).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{url}");
            assert!(error.to_string().contains(reason), "{url}: {error}");
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
        }
    }

    fn urls() -> impl Strategy<Value = String> {
        let any_of = |of: &[&str]| {
            let of: Vec<String> = of.iter().map(|&it| it.to_owned()).collect();
            prop_oneof![9 => select(of), 1 => "\\PC{0,4}"]
        };
        let scheme = any_of(&["redis", "rediss", "valkey", "valkeys", ""]);
        let kind = any_of(&["+sentinel://", "+cluster://", "+unix://", "+cluster:", "+://", "://"]);
        let login = any_of(&["", "me:hunter2@", ":hunter2@", "hunter2@", "%:hunter2@", "@"]);
        let hosts = any_of(&["h1", "h1,h2", "[::1]:7,h", "h:70000", ",", "", "[", "a b,c"]);
        let path = any_of(&["", "/", "/0", "/main", "/main/2", "/main/-1", "/a%20b", "//"]);
        let query = any_of(&[
            "",
            "?protocol=resp3",
            "?sentinel_pass=hunter2",
            "?sentinel_user=eye&sentinel_pass=hunter2",
            "?sentinel_pass=%hunter2",
            "?hunter2",
            "#hunter2",
            "?&&=",
        ]);
        (scheme, kind, login, hosts, path, query)
            .prop_map(|(a, b, c, d, e, f)| format!("{a}{b}{c}{d}{e}{f}"))
    }

    proptest! {
        #[test]
        fn no_url_shows_its_secret_or_does_harm(url in urls()) {
            match Target::parse(&url) {
                Ok(target) => {
                    let shown = format!("{target} {target:?}");
                    prop_assert!(!shown.contains("hunter2"), "{} of {}", shown, url);
                    prop_assert!(target.server().database >= 0);
                }
                Err(error) => {
                    prop_assert_eq!(error.kind(), ErrorKind::InvalidConfig);
                    prop_assert!(!format!("{error} {error:?}").contains("hunter2"), "{:?}", error);
                }
            }
        }
    }
}
