//! What a builder adds to a URL.

use lock_core::{Error, ErrorKind};

use super::url::Target;
use crate::credentials::Provider;
use crate::wire::{Address, Endpoint};

/// What a builder adds to a URL.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extras {
    /// Asks for TLS, to servers and sentinels.
    pub(crate) tls: bool,
    pub(crate) database: Option<u32>,
    /// Who logs in to the servers.
    pub(crate) login: Option<Provider>,
    /// Who logs in to the sentinels.
    pub(crate) sentinel_login: Option<Provider>,
}

impl Target {
    /// This target, with the options of a builder. An error repeats no part of the URL.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidConfig`] if an option does not fit, or the URL says something else.
    pub(crate) fn with(mut self, extras: &Extras) -> Result<Self, Error> {
        if extras.sentinel_login.is_some() && !matches!(self, Self::Sentinel(_)) {
            return Err(invalid("there are no sentinels to log in to"));
        }
        match &mut self {
            Self::Single(endpoint) => extras.add_to_server(endpoint)?,
            Self::Sentinel(service) => {
                extras.add_to_server(&mut service.server)?;
                for sentinel in &mut service.sentinels {
                    sentinel.tls |= extras.tls;
                    log_in(sentinel, extras.sentinel_login.as_ref())?;
                }
            }
            Self::Cluster(seeds) => {
                if extras.database.is_some_and(|number| number != 0) {
                    return Err(invalid("a cluster has database 0 and no other"));
                }
                seeds.iter_mut().try_for_each(|seed| extras.add_to_server(seed))?;
            }
        }
        Ok(self)
    }
}

impl Extras {
    fn add_to_server(&self, server: &mut Endpoint) -> Result<(), Error> {
        if self.tls && matches!(server.address, Address::Unix(_)) {
            return Err(invalid("a unix socket has no TLS"));
        }
        server.tls |= self.tls;
        if let Some(number) = self.database {
            let number = i64::from(number);
            if server.database != 0 && server.database != number {
                return Err(invalid("the URL names another database than the builder"));
            }
            server.use_database(number);
        }
        log_in(server, self.login.as_ref())
    }
}

fn log_in(endpoint: &mut Endpoint, provider: Option<&Provider>) -> Result<(), Error> {
    let Some(provider) = provider else { return Ok(()) };
    if endpoint.has_login() {
        return Err(invalid("the URL has credentials, and so has the builder: remove one of them"));
    }
    endpoint.provider = Some(provider.clone());
    Ok(())
}

fn invalid(message: &'static str) -> Error {
    Error::new(ErrorKind::InvalidConfig, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credentials::Credentials;

    fn provider() -> Option<Provider> {
        Some(Provider::fixed(Credentials::password("hunter2")))
    }

    fn refused(url: &str, extras: &Extras) -> String {
        let error = Target::parse(url).unwrap().with(extras).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidConfig);
        let shown = format!("{error} {error:?} {extras:?}");
        assert!(!shown.contains("hunter2"), "{shown}");
        error.to_string()
    }

    #[test]
    fn options_reach_servers_and_sentinels() {
        let login = Extras { login: provider(), ..Extras::default() };
        let all =
            Extras { tls: true, database: Some(3), sentinel_login: provider(), ..login.clone() };
        let target = Target::parse("redis+sentinel://s1,s2/main").unwrap().with(&all).unwrap();
        assert_eq!(target.to_string(), "main at s1:26379,s2:26379/3");
        let Target::Sentinel(service) = target else { panic!() };
        assert!(service.server.tls && service.server.provider.is_some());
        assert!(service.sentinels.iter().all(|it| it.tls && it.provider.is_some()));
        assert!(service.sentinels.iter().all(|it| it.database == 0));

        let cluster = Target::parse("redis+cluster://h1,h2").unwrap().with(&login).unwrap();
        let Target::Cluster(seeds) = cluster else { panic!() };
        assert!(seeds.iter().all(|it| it.provider.is_some() && !it.tls));
    }

    #[test]
    fn options_that_do_not_fit_are_refused() {
        let login = Extras { login: provider(), ..Extras::default() };
        let sentinel_login = Extras { sentinel_login: provider(), ..Extras::default() };
        let database = Extras { database: Some(3), ..Extras::default() };
        let tls = Extras { tls: true, ..Extras::default() };
        for (url, extras, reason) in [
            ("redis://:hunter2@h", &login, "credentials"),
            ("redis+cluster://me:hunter2@h", &login, "credentials"),
            ("redis+sentinel://:hunter2@s/main", &login, "credentials"),
            ("redis+sentinel://s/main?sentinel_pass=hunter2", &sentinel_login, "credentials"),
            ("redis+cluster://h", &sentinel_login, "no sentinels"),
            ("redis://h", &sentinel_login, "no sentinels"),
            ("redis://h/2", &database, "another database"),
            ("redis+cluster://h", &database, "database 0"),
            ("redis+unix:///run/redis.sock", &tls, "no TLS"),
        ] {
            let told = refused(url, extras);
            assert!(told.contains(reason), "{url}: {told}");
        }
    }
}
