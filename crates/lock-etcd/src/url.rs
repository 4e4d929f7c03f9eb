//! The URL of a store. Pure.

use std::fmt;

use lock_core::{Error, ErrorKind};

/// The port of a member that names none.
const PORT: u16 = 2379;

/// What a URL says.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) tls: bool,
    /// Name and password.
    pub(crate) user: Option<(String, String)>,
    /// Host and port of each member, as a URI has them.
    pub(crate) members: Vec<String>,
    /// Without slashes at its ends. `None` if the URL names none.
    pub(crate) prefix: Option<String>,
    /// Whether a member of any version will do.
    pub(crate) any_version: bool,
}

/// Hides the password.
impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tls, members, prefix, any_version, .. } = self;
        f.debug_struct("Place")
            .field("tls", tls)
            .field("members", members)
            .field("prefix", prefix)
            .field("any_version", any_version)
            .finish_non_exhaustive()
    }
}

impl Place {
    /// Reads `etcd://[user:password@]host[:port][,host[:port]…][/prefix][?option=value]`, or the same with `etcds`.
    pub(crate) fn of(url: &str) -> Result<Self, Error> {
        let (tls, rest) = match url.split_once("://") {
            Some(("etcd", rest)) => (false, rest),
            Some(("etcds", rest)) => (true, rest),
            _ => return Err(bad("the URL of an etcd cluster begins with etcd:// or etcds://")),
        };
        if rest.contains('#') {
            return Err(bad("the URL of an etcd cluster has no fragment"));
        }
        let (rest, options) = rest.split_once('?').unwrap_or((rest, ""));
        let any_version = any_version(options)?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, hosts) = match authority.rsplit_once('@') {
            Some((user, hosts)) => (Some(self::user(user)?), hosts),
            None => (None, authority),
        };
        let members = hosts.split(',').map(member).collect::<Result<Vec<_>, _>>()?;
        let path = path.trim_end_matches('/');
        let prefix = if path.is_empty() { None } else { Some(prefix(&decoded(path)?)?) };
        Ok(Self { tls, user, members, prefix, any_version })
    }
}

/// The only option that a URL may have.
const ANY_VERSION: &str = "allow_unsafe_version";

/// Reads the options of a URL, which follow its question mark: whether a member of any version will do.
fn any_version(options: &str) -> Result<bool, Error> {
    let mut any = None;
    for option in options.split('&').filter(|option| !option.is_empty()) {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        if name != ANY_VERSION {
            return Err(bad(format!(
                "the URL of an etcd cluster has no option other than {ANY_VERSION}"
            )));
        }
        let value = match value {
            "true" => true,
            "false" => false,
            _ => return Err(bad(format!("the option {ANY_VERSION} is true or false"))),
        };
        if any.replace(value).is_some() {
            return Err(bad(format!("the URL of an etcd cluster has {ANY_VERSION} twice")));
        }
    }
    Ok(any.unwrap_or(false))
}

/// Refuses a prefix that cannot be one.
pub(crate) fn prefix(prefix: &str) -> Result<String, Error> {
    let prefix = prefix.trim_matches('/');
    if prefix.is_empty() {
        return Err(bad("a prefix of keys in etcd is not empty"));
    }
    if prefix.len() > 256 {
        return Err(bad("a prefix of keys in etcd has at most 256 bytes"));
    }
    Ok(prefix.to_owned())
}

/// Refuses credentials that cannot be used.
pub(crate) fn credentials(name: &str, password: &str) -> Result<(String, String), Error> {
    if name.is_empty() {
        return Err(bad("the name of a user of etcd is not empty"));
    }
    Ok((name.to_owned(), password.to_owned()))
}

fn user(text: &str) -> Result<(String, String), Error> {
    let (name, password) =
        text.split_once(':').ok_or_else(|| bad("a user of etcd has a password: user:password@"))?;
    credentials(&decoded(name)?, &decoded(password)?)
}

/// Host and port.
fn member(text: &str) -> Result<String, Error> {
    let (host, port) = match text.rsplit_once(':') {
        // The colons of an address in brackets are no ports.
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (text, None),
    };
    let port = match port {
        None => PORT,
        Some(port) => match port.parse::<u16>() {
            Ok(number) if number > 0 && port.bytes().all(|it| it.is_ascii_digit()) => number,
            _ => {
                return Err(bad(
                    "the port of a member of etcd is wrong: a port is a number from 1 to 65535, as in etcd://host:2379",
                ));
            }
        },
    };
    let is_bracketed = host.starts_with('[') && host.ends_with(']');
    let inner = if is_bracketed { &host[1..host.len() - 1] } else { host };
    let is_valid = if is_bracketed {
        inner.parse::<std::net::Ipv6Addr>().is_ok()
    } else {
        !inner.is_empty()
            && inner.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
    };
    if !is_valid {
        return Err(bad(
            "the host of a member of etcd is wrong: write etcd://host:2379, etcd://[::1]:2379 or etcd://host,host,host",
        ));
    }
    Ok(format!("{host}:{port}"))
}

/// Text whose percent signs are undone.
fn decoded(text: &str) -> Result<String, Error> {
    let wrong = || bad("a percent sign in the URL of etcd is followed by two hexadecimal digits");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2).ok_or_else(wrong)?;
        let digits = std::str::from_utf8(digits).map_err(|_| wrong())?;
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        bytes.push(u8::from_str_radix(digits, 16).map_err(|_| wrong())?);
        rest = after;
    }
    String::from_utf8(bytes).map_err(|_| bad("the URL of etcd is not UTF-8"))
}

fn bad(message: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::InvalidConfig, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(url: &str) -> Place {
        Place::of(url).unwrap()
    }

    #[test]
    fn a_url_names_members_user_and_prefix() {
        let full = place("etcds://app:p%40ss%3a@one.example:1,two.example,[::1]:3/shop/eu/");
        assert!(full.tls);
        assert_eq!(full.user, Some(("app".to_owned(), "p@ss:".to_owned())));
        assert_eq!(full.members, ["one.example:1", "two.example:2379", "[::1]:3"]);
        assert_eq!(full.prefix.as_deref(), Some("shop/eu"));

        let short = place("etcd://localhost");
        assert_eq!(
            short,
            Place {
                tls: false,
                user: None,
                members: vec!["localhost:2379".to_owned()],
                prefix: None,
                any_version: false,
            }
        );
        assert_eq!(place("etcd://localhost/"), short);
        assert_eq!(place("etcd://[::1]").members, ["[::1]:2379"]);
        assert_eq!(place("etcd://user:a@b@host").user, Some(("user".into(), "a@b".into())));
    }

    #[test]
    fn a_url_may_allow_any_version() {
        for (url, allows) in [
            ("etcd://a?allow_unsafe_version=true", true),
            ("etcds://u:p@a,b/shop?allow_unsafe_version=true", true),
            ("etcd://a/?allow_unsafe_version=false", false),
            ("etcd://a?", false),
        ] {
            assert_eq!(place(url).any_version, allows, "{url}");
        }
        let place = place("etcd://a:1,b/shop?allow_unsafe_version=true");
        assert_eq!(place.members, ["a:1", "b:2379"]);
        assert_eq!(place.prefix.as_deref(), Some("shop"));
    }

    #[test]
    fn what_is_no_url_is_refused() {
        for url in [
            "",
            "http://host",
            "etcd:/host",
            "etcd://",
            "etcd://host:",
            "etcd://host:0",
            "etcd://host:65536",
            "etcd://host:+1",
            "etcd://host,",
            "etcd://a b",
            "etcd://[::1",
            "etcd://[host]",
            "etcd://user@host",
            "etcd://:password@host",
            "etcd://host/%zz",
            "etcd://host/%",
            "etcd://host/%+1",
            "etcd://host/%ff",
            "etcd://host?x=y",
            "etcd://host?allow_unsafe_version",
            "etcd://host?allow_unsafe_version=yes",
            "etcd://host?allow_unsafe_version=true&x=y",
            "etcd://host?allow_unsafe_version=true&allow_unsafe_version=true",
            "etcd://host?allow_unsafe_version=true?",
            "etcd://host/a#b",
            "etcd://host//",
        ] {
            match Place::of(url) {
                Err(error) => assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{url}"),
                Ok(place) => {
                    assert!(url == "etcd://host//" && place.prefix.is_none(), "{url}: {place:?}")
                }
            }
        }
        assert!(prefix("/").is_err() && prefix(&"a".repeat(257)).is_err());
        assert_eq!(prefix("/a/b/").unwrap(), "a/b");
    }

    #[test]
    fn a_password_is_not_shown() {
        assert!(!format!("{:?}", place("etcd://app:secret@host")).contains("secret"));
    }
}
