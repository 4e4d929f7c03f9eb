//! The address of the server, and the credentials.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use lock_core::{Error, ErrorKind};
use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo as _, RedisConnectionInfo};

use crate::credentials::Provider;
use crate::options::Protocol;

/// A server, and how to log in to it.
#[derive(Clone)]
pub(crate) struct Endpoint {
    pub(crate) address: Address,
    pub(crate) tls: bool,
    pub(crate) database: i64,
    /// The version of the protocol, if the URL names one.
    pub(crate) protocol: Option<Protocol>,
    pub(super) login: RedisConnectionInfo,
    /// Says who logs in, at each connection. Then the URL does not say it.
    pub(crate) provider: Option<Provider>,
}

/// A place to connect to. It contains no secret, so messages may name it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Address {
    Tcp { host: String, port: u16 },
    Unix(PathBuf),
}

impl Endpoint {
    /// Reads a URL, without network access.
    pub(crate) fn parse(url: &str) -> Result<Self, Error> {
        let Some(mut url) = redis::parse_redis_url(url) else { return Err(unreadable(url)) };
        let tls = matches!(url.scheme(), "rediss" | "valkeys");
        if tls {
            // The crate does no TLS for us, and then refuses the scheme.
            url.set_scheme("redis")
                .map_err(|()| invalid("the scheme of the URL makes no sense"))?;
        }
        if url.fragment().is_some() {
            return Err(invalid(FRAGMENT));
        }
        // The parser passes over an option that it does not know.
        let (known, reason) = options(url.scheme());
        if url.query_pairs().any(|(name, _)| !known.contains(&&*name)) {
            return Err(invalid(reason));
        }
        let protocol = protocol(url.query_pairs().find(|(name, _)| name == "protocol"))?;
        let info = url.into_connection_info().map_err(|error| {
            // The reason may quote a part of the URL.
            let reason = error.to_string();
            invalid(match reason.split(" - ").next() {
                Some("Invalid database number") => DATABASE,
                Some("Missing hostname") => "the URL of the server has no host: write redis://host:6379",
                Some("Missing path") => SOCKET,
                Some(wildcard) if wildcard.contains("wildcard") => {
                    "the host in the URL of the server is a wildcard, which means every host: write redis://127.0.0.1:6379"
                }
                _ => {
                    "the URL of the server is wrong: write redis://user:password@host:6379/0, and each special \
                     character as a percent sign with two hexadecimal digits"
                }
            })
        })?;
        Self::new(info, tls, protocol)
    }

    fn new(info: ConnectionInfo, tls: bool, protocol: Option<Protocol>) -> Result<Self, Error> {
        let address = match info.addr() {
            ConnectionAddr::Tcp(host, port) => Address::Tcp { host: host.clone(), port: *port },
            ConnectionAddr::Unix(path) => Address::Unix(path.clone()),
            _ => return Err(invalid("the URL names a kind of address that is not supported")),
        };
        let login = info.redis_settings().clone();
        let database = login.db();
        if database < 0 {
            return Err(invalid(DATABASE));
        }
        Ok(Self { address, tls, database, protocol, login, provider: None })
    }

    /// The server at another address, with this login.
    pub(crate) fn at(&self, address: Address) -> Self {
        Self { address, ..self.clone() }
    }

    /// This server, with the given login.
    pub(crate) fn with_login(mut self, user: Option<&str>, password: Option<&str>) -> Self {
        if let Some(user) = user {
            self.login = self.login.set_username(user);
        }
        if let Some(password) = password {
            self.login = self.login.set_password(password);
        }
        self
    }

    /// Whether it is known who logs in.
    pub(crate) fn has_login(&self) -> bool {
        self.login.username().is_some() || self.login.password().is_some()
    }

    pub(crate) fn use_database(&mut self, number: i64) {
        self.database = number;
        self.login = self.login.clone().set_db(number);
    }

    /// This server, with the credentials for one connection.
    ///
    /// # Errors
    ///
    /// Those of the provider.
    pub(crate) async fn logging_in(self: &Arc<Self>) -> Result<Arc<Self>, Error> {
        let Some(provider) = &self.provider else { return Ok(Arc::clone(self)) };
        let credentials = provider.ask().await?;
        let (user, password) = credentials.parts();
        let login = RedisConnectionInfo::default().set_db(self.database);
        let endpoint = Self { login, ..(**self).clone() };
        Ok(Arc::new(endpoint.with_login(user, Some(password))))
    }

    #[cfg(test)]
    pub(crate) fn credentials(&self) -> (Option<&str>, Option<&str>) {
        (self.login.username(), self.login.password())
    }
}

impl Address {
    /// The address that a server names for another one. Without a host, it is the host of the server that was
    /// asked. `None` if the host is unknown.
    pub(crate) fn named(host: &str, port: u16, asked: &Self) -> Option<Self> {
        let host = host.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(host);
        match (host, asked) {
            ("?", _) | ("", Self::Unix(_)) => None,
            ("", Self::Tcp { host, .. }) => Some(Self::Tcp { host: host.clone(), port }),
            (host, _) => Some(Self::Tcp { host: host.to_owned(), port }),
        }
    }
}

/// Without user name and password.
impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.database)
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoint({self})")
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

const DATABASE: &str = "the database in the URL is wrong: a database is a number from 0 on";

const SOCKET: &str = "the URL has no path of a socket: write redis+unix:///path/to/socket";

pub(crate) const FRAGMENT: &str =
    "the URL has a fragment, which means nothing here: write # in a password as %23";

const UNESCAPED: &str = "the URL has an @ after a /, ? or #, which end the host: in a user name or a password write / as %2F, \
                         ? as %3F and # as %23";

/// Says why a URL cannot be read. It may have a secret in any place, so the message repeats no part of it.
fn unreadable(url: &str) -> Error {
    let (scheme, rest) = url.split_once("://").unwrap_or((url, ""));
    let scheme = scheme.to_ascii_lowercase();
    match scheme.as_str() {
        "redis" | "rediss" | "valkey" | "valkeys" => {}
        "redis+unix" | "valkey+unix" | "unix" => return invalid(SOCKET),
        _ => {
            return invalid(
                "this is no URL of a server: a URL of a server begins with redis://, rediss:// or \
                 redis+unix://, for example redis://host:6379",
            );
        }
    }
    let (server, after) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    if after.contains('@') {
        return invalid(UNESCAPED);
    }
    let place = server.rsplit_once('@').map_or(server, |(_, place)| place);
    let port = place.rsplit_once(':').map(|(_, port)| port).filter(|it| !it.ends_with(']'));
    invalid(if port.is_some_and(|port| !port.is_empty() && port.parse::<u16>().is_err()) {
        "the port in the URL is wrong: a port is a number from 1 to 65535, as in host:6379"
    } else {
        "the host in the URL of the server is wrong: write redis://host:6379, or redis://[::1]:6379"
    })
}

/// The options of a URL with this scheme, and the reason to refuse any other.
fn options(scheme: &str) -> (&'static [&'static str], &'static str) {
    match scheme {
        "redis" | "valkey" => (&["protocol"], "the URL has an unknown option: there is protocol"),
        _ => (
            &["protocol", "db", "user", "pass"],
            "the URL has an unknown option: there are protocol, db, user and pass",
        ),
    }
}

fn protocol<N, V: AsRef<str>>(pair: Option<(N, V)>) -> Result<Option<Protocol>, Error> {
    let Some((_, value)) = pair else { return Ok(None) };
    match value.as_ref() {
        "2" | "resp2" => Ok(Some(Protocol::Resp2)),
        "3" | "resp3" => Ok(Some(Protocol::Resp3)),
        _ => Err(invalid("the protocol in a URL is resp2 or resp3")),
    }
}

fn invalid(message: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::InvalidConfig, message)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    #[test]
    fn urls_name_the_server_and_the_user() {
        let endpoint = Endpoint::parse("redis://me:hunter2@redis.example:7000/3").unwrap();
        assert_eq!(endpoint.to_string(), "redis.example:7000/3");
        assert_eq!(endpoint.login.username(), Some("me"));
        assert_eq!(endpoint.login.password(), Some("hunter2"));
        assert!(!endpoint.tls && endpoint.protocol.is_none());

        let endpoint = Endpoint::parse("rediss://[::1]/?protocol=resp3").unwrap();
        assert_eq!(endpoint.to_string(), "[::1]:6379/0");
        assert!(endpoint.tls && endpoint.protocol == Some(Protocol::Resp3));

        let endpoint = Endpoint::parse("redis+unix:///run/redis.sock?db=2&pass=hunter2").unwrap();
        assert_eq!(endpoint.to_string(), "/run/redis.sock/2");
        assert_eq!(endpoint.login.password(), Some("hunter2"));
    }

    /// What the error says. It names no secret.
    fn refused(url: &str) -> String {
        let error = Endpoint::parse(url).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{url}");
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
        error.to_string()
    }

    #[test]
    fn a_wrong_url_is_refused_without_repeating_it() {
        for url in [
            "",
            "hunter2",
            "http://me:hunter2@redis.example",
            "redis://me:hunter2@redis.example/first",
            "redis://me:hunter2@redis.example/-1",
            "redis://me:hunter2@redis.example/?protocol=hunter2",
            "rediss://me:hunter2@redis.example/#insecure",
            "redis://me:hunter2@:70000",
            "redis+unix:relative?pass=hunter2&db=x",
        ] {
            refused(url);
        }
    }

    #[test]
    fn an_unknown_option_is_refused() {
        for (url, options) in [
            ("redis://redis.example?timeout=hunter2", "there is protocol"),
            ("valkeys://redis.example/1?protocol=resp3&db=hunter2", "there is protocol"),
            ("redis+unix:///run/redis.sock?password=hunter2", "protocol, db, user and pass"),
            ("unix:///run/redis.sock?db=1&hunter2", "protocol, db, user and pass"),
        ] {
            let error = refused(url);
            assert!(error.contains("unknown option"), "{url}: {error}");
            assert!(error.ends_with(options), "{url}: {error}");
        }
    }

    #[test]
    fn a_password_with_a_character_that_ends_the_host_is_told_how_to_be_written() {
        for url in [
            "redis://me:hun/ter2@redis.example",
            "redis://me:hun?ter2@redis.example:6379/0",
            "rediss://me:hun#ter2@redis.example",
            "redis://:/hunter2@redis.example",
        ] {
            let error = Endpoint::parse(url).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{url}");
            assert!(error.to_string().contains("# as %23"), "{url}: {error}");
            let shown = format!("{error} {error:?}");
            assert!(["hun", "ter2"].iter().all(|part| !shown.contains(part)), "{shown}");
        }
        let error = Endpoint::parse("redis://me:hunter2@redis.example:x/0").unwrap_err();
        assert!(error.to_string().contains("the port in the URL is wrong"), "{error}");
    }

    #[test]
    fn what_is_shown_holds_no_secret() {
        let endpoint = Endpoint::parse("redis://me:hunter2@redis.example").unwrap();
        assert_eq!(format!("{endpoint:?}"), "Endpoint(redis.example:6379/0)");
    }

    fn pieces(of: &[&str]) -> impl Strategy<Value = String> + use<> {
        let of: Vec<String> = of.iter().map(|&piece| piece.to_owned()).collect();
        prop_oneof![9 => select(of), 1 => "\\PC{0,4}"]
    }

    const SCHEMES: [&str; 7] =
        ["redis://", "rediss://", "valkeys://", "redis+unix://", "unix:///", "redis:", ""];

    const HOSTS: [&str; 9] =
        ["", "redis.example", "127.0.0.1", "[::1]", "[::1", "[", "a b", "\u{0}", "xn--"];

    const QUERIES: [&str; 9] = [
        "",
        "?protocol=resp3",
        "?protocol=hunter2",
        "?db=x&pass=hunter2",
        "?db=-1&pass=hunter2",
        "?user=%ff&pass=hunter2",
        "?pass",
        "#hunter2",
        "?&&=&#",
    ];

    /// URLs with a secret in a place for secrets, of which some make sense.
    fn urls() -> impl Strategy<Value = String> {
        let scheme = pieces(&SCHEMES);
        let user = pieces(&["", "me", "%", "%00", "%ff", "me%3A"]);
        let after = pieces(&["", ":hunter2", "hunter2:", ":hunter2%", ":%00hunter2", ":hunter2@"]);
        let host = pieces(&HOSTS);
        let port = pieces(&["", ":6379", ":0", ":65536", ":-1", ":x"]);
        let path =
            pieces(&["", "/", "/0", "/-1", "/9223372036854775808", "/run/redis.sock", "/1/2"]);
        let query = pieces(&QUERIES);
        let secret = prop_oneof![2 => Just("@"), 1 => Just("")];
        (scheme, user, after, secret, host, port, path, query).prop_map(
            |(scheme, user, after, at, host, port, path, query)| {
                // Without a host after it, the secret would be a host itself, or a path, which may
                // be shown.
                let has_user = !at.is_empty() && !scheme.contains("unix");
                let (after, at) = if has_user { (after, at) } else { (String::new(), "") };
                format!("{scheme}{user}{after}{at}{host}{port}{path}{query}")
            },
        )
    }

    proptest! {
        #[test]
        fn no_url_shows_its_secret_or_does_harm(url in urls()) {
            match Endpoint::parse(&url) {
                Ok(endpoint) => {
                    let shown = format!("{endpoint} {endpoint:?} {:?}", endpoint.address);
                    prop_assert!(!shown.contains("hunter2"), "{} of {}", shown, url);
                    prop_assert!(endpoint.database >= 0);
                }
                Err(error) => {
                    prop_assert_eq!(error.kind(), ErrorKind::InvalidConfig);
                    let shown = format!("{error} {error:?}");
                    prop_assert!(!shown.contains("hunter2"), "{} of {}", shown, url);
                }
            }
        }
    }
}
