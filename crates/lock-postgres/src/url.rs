//! The options that the URL of a database has for this crate. The driver reads the others. Pure.

use lock_core::{Error, ErrorKind};

/// The ways to a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ways {
    /// The URL without these options.
    pub(crate) url: String,
    /// The URL of the pooler, if there is one beside the direct way.
    pub(crate) pooler: Option<String>,
    /// Whether the URL leads to the database itself.
    pub(crate) is_direct: bool,
}

impl Ways {
    /// Takes `direct=false` and `pooler=host:port` out of a URL.
    pub(crate) fn of(url: &str) -> Result<Self, Error> {
        let (mut pooler, mut is_direct, mut others) = (None, true, Vec::new());
        let (place, options) = url.rsplit_once('?').unwrap_or((url, ""));
        for option in options.split('&').filter(|option| !option.is_empty()) {
            match option.split_once('=') {
                Some(("direct", "true")) => is_direct = true,
                Some(("direct", "false")) => is_direct = false,
                Some(("direct", _)) => return Err(bad("the option direct is true or false")),
                Some(("pooler", host)) => pooler = Some(host),
                _ => others.push(option),
            }
        }
        let with = |place: &str| match &*others {
            [] => place.to_owned(),
            others => format!("{place}?{}", others.join("&")),
        };
        let pooler = pooler.map(|host| at(place, host)).transpose()?;
        Ok(Self { url: with(place), pooler: pooler.as_deref().map(with), is_direct })
    }
}

/// The URL with another host.
fn at(place: &str, host: &str) -> Result<String, Error> {
    let parts = place.split_once("://").filter(|_| !host.is_empty() && !host.contains(['/', '@']));
    let Some((scheme, rest)) = parts else {
        return Err(bad(
            "the option pooler names a host, or a host and its port: pooler=pool.example:6432",
        ));
    };
    let (login, rest) = rest.rsplit_once('@').map_or(("", rest), |(login, rest)| (login, rest));
    let database = rest.split_once('/').map_or("", |(_, database)| database);
    let at = if login.is_empty() { "" } else { "@" };
    Ok(format!("{scheme}://{login}{at}{host}/{database}"))
}

fn bad(message: &'static str) -> Error {
    Error::new(ErrorKind::InvalidConfig, message)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn ways(url: &str, pooler: Option<&str>, is_direct: bool) -> Ways {
        Ways { url: url.to_owned(), pooler: pooler.map(str::to_owned), is_direct }
    }

    #[test]
    fn a_url_says_how_to_get_past_a_pooler() {
        for (url, expected) in [
            ("postgres://db/shop", ways("postgres://db/shop", None, true)),
            ("postgres://db/shop?direct=true", ways("postgres://db/shop", None, true)),
            (
                "postgres://pool:6432/shop?direct=false",
                ways("postgres://pool:6432/shop", None, false),
            ),
            (
                "postgres://u:p@db,db2/shop?sslmode=require&pooler=pool:6432&connect_timeout=3",
                ways(
                    "postgres://u:p@db,db2/shop?sslmode=require&connect_timeout=3",
                    Some("postgres://u:p@pool:6432/shop?sslmode=require&connect_timeout=3"),
                    true,
                ),
            ),
            ("postgres://db?pooler=pool", ways("postgres://db", Some("postgres://pool/"), true)),
            // The driver takes such a password.
            ("postgres://u:a?b@db/shop", ways("postgres://u:a?b@db/shop", None, true)),
            ("host=db dbname=shop", ways("host=db dbname=shop", None, true)),
        ] {
            assert_eq!(Ways::of(url).unwrap(), expected, "{url}");
        }
    }

    #[test]
    fn an_option_that_makes_no_sense_is_refused() {
        for url in [
            "postgres://db/shop?direct=no",
            "postgres://db/shop?direct=",
            "postgres://db/shop?pooler=",
            "postgres://db/shop?pooler=postgres://pool/shop",
        ] {
            assert_eq!(Ways::of(url).unwrap_err().kind(), ErrorKind::InvalidConfig, "{url}");
        }
    }
}
