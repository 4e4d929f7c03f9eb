//! The ways to servers and sentinels: hosts, credentials, certificates.

use std::error::Error as StdError;

use lock_core::Error;

use super::{Builder, Place};
use crate::credentials::{Credentials, Provider};
use crate::topology::Target;

impl Builder {
    /// Starts to set up a backend for the primary of a service that these sentinels watch, as a URL
    /// `redis+sentinel://…` does. A host is `name`, `name:port`, or an address; the port is 26379 by default.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_redis::{Builder, Credentials};
    ///
    /// let backend = Builder::for_sentinels(["s1", "s2", "s3:26380"], "orders")
    ///     .login(Credentials::new("locks", "p@ss/word"))
    ///     .sentinel_login(Credentials::password("another"))
    ///     .database(2)
    ///     .build()?;
    /// assert_eq!(format!("{backend:?}"), "RedisBackend(orders at s1:26379,s2:26379,s3:26380/2)");
    /// # Ok::<(), lock_core::Error>(())
    /// ```
    pub fn for_sentinels<H: Into<String>>(
        hosts: impl IntoIterator<Item = H>,
        service: impl Into<String>,
    ) -> Self {
        let hosts = hosts.into_iter().map(Into::into).collect();
        Self::at(Place::Hosts(hosts, Some(service.into())))
    }

    /// Starts to set up a backend for a cluster, by some of its servers, as a URL `redis+cluster://…` does. A host is
    /// `name`, `name:port`, or an address; the port is 6379 by default.
    ///
    /// # Examples
    ///
    /// ```
    /// let backend = lock_redis::Builder::for_cluster(["h1", "h2:7000"]).build()?;
    /// assert_eq!(format!("{backend:?}"), "RedisBackend(cluster at h1:6379,h2:7000)");
    /// # Ok::<(), lock_core::Error>(())
    /// ```
    pub fn for_cluster<H: Into<String>>(hosts: impl IntoIterator<Item = H>) -> Self {
        Self::at(Place::Hosts(hosts.into_iter().map(Into::into).collect(), None))
    }

    /// The number of the database: that of the URL by default, which is 0 if the URL names none.
    ///
    /// A cluster has database 0 alone.
    pub fn database(mut self, number: u32) -> Self {
        self.extras.database = Some(number);
        self
    }

    /// Logs in to the servers with these credentials. Here no character is encoded, as in a URL.
    ///
    /// A URL that has credentials as well is refused. The last of [`login`](Self::login) and
    /// [`credentials`](Self::credentials) counts.
    pub fn login(mut self, credentials: Credentials) -> Self {
        self.extras.login = Some(Provider::fixed(credentials));
        self
    }

    /// As [`login`](Self::login), for the sentinels.
    pub fn sentinel_login(mut self, credentials: Credentials) -> Self {
        self.extras.sentinel_login = Some(Provider::fixed(credentials));
        self
    }

    /// Asks `provide` for the credentials whenever a connection to a server is opened. So a client finds a password
    /// that was replaced.
    ///
    /// The provider is asynchronous, because most secrets are in another process: a blocking call would stop a thread
    /// of the app's runtime. A provider that knows its answer is `|| async { Ok::<_, Error>(credentials) }`. It runs on
    /// the runtime of the connection, and has no longer than [`connect_timeout`](Self::connect_timeout), which includes
    /// the time to connect.
    ///
    /// A connection that is open stays logged in: servers ask for the password once. While a password is being
    /// replaced, have the server accept both of them (`ACL SETUSER user >new`), and remove the old one (`<old`) when
    /// the provider gives the new one. A provider that gives a password that the server does not accept leads to
    /// [`ErrorKind::Denied`](lock_core::ErrorKind::Denied), which the client does not retry by itself.
    ///
    /// # Errors
    ///
    /// If the provider fails, panics or takes too long, the requests that need the connection fail with
    /// [`ErrorKind::Unreachable`](lock_core::ErrorKind::Unreachable), which is retryable. The text of the provider's
    /// error is the [source](std::error::Error::source) of that error, so it must not contain the secret. The next
    /// attempt asks again, after a pause.
    ///
    /// # Examples
    ///
    /// ```
    /// use lock_redis::{Credentials, RedisBackend};
    ///
    /// async fn secret() -> std::io::Result<Credentials> {
    ///     let password = std::fs::read_to_string("/run/secrets/redis")?;
    ///     Ok(Credentials::new("locks", password.trim()))
    /// }
    ///
    /// let backend = RedisBackend::builder("rediss://redis.example").credentials(secret);
    /// ```
    pub fn credentials<F, Fut, E>(mut self, provide: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Credentials, E>> + Send + 'static,
        E: Into<Box<dyn StdError + Send + Sync>> + 'static,
    {
        self.extras.login = Some(Provider::new(provide));
        self
    }

    /// As [`credentials`](Self::credentials), for the sentinels.
    pub fn sentinel_credentials<F, Fut, E>(mut self, provide: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Credentials, E>> + Send + 'static,
        E: Into<Box<dyn StdError + Send + Sync>> + 'static,
    {
        self.extras.sentinel_login = Some(Provider::new(provide));
        self
    }

    /// Uses TLS, as a URL that begins with `rediss` does: to servers and sentinels alike. Needs the feature `tls`.
    pub fn tls(mut self) -> Self {
        self.extras.tls = true;
        self
    }

    /// Trusts these certificates, in PEM, instead of those of the system.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use lock_redis::RedisBackend;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let backend = RedisBackend::builder("redis://redis.example:6380")
    ///     .tls()
    ///     .root_certificates(std::fs::read("ca.pem")?)
    ///     .client_certificate(std::fs::read("client.pem")?, std::fs::read("client.key")?)
    ///     .build()?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "tls")]
    #[cfg_attr(docsrs, doc(cfg(feature = "tls")))]
    pub fn root_certificates(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.root_certificates = Some(pem.into());
        self
    }

    /// Shows this certificate to servers and sentinels, and proves by this key that it is the client's own: mutual TLS.
    ///
    /// Both are PEM. Further certificates, which lead to one that the server trusts, follow the client's own in
    /// `certificates`. The key is in PKCS#8, PKCS#1 or SEC1, without a password.
    ///
    /// A server that does not accept the certificate ends the connection. Depending on how far the connection has
    /// come, the error is [`ErrorKind::Denied`](lock_core::ErrorKind::Denied) or
    /// [`ErrorKind::Unreachable`](lock_core::ErrorKind::Unreachable).
    #[cfg(feature = "tls")]
    #[cfg_attr(docsrs, doc(cfg(feature = "tls")))]
    pub fn client_certificate(
        mut self,
        certificates: impl Into<Vec<u8>>,
        key: impl Into<Vec<u8>>,
    ) -> Self {
        self.client_certificate = Some((certificates.into(), key.into()));
        self
    }

    /// Where the servers are, and who logs in.
    pub(super) fn target(&self) -> Result<Target, Error> {
        let target = match &self.place {
            Place::Url(url) => Target::parse(url),
            Place::Hosts(hosts, service) => Target::of_hosts(hosts, service.as_deref()),
        };
        target?.with(&self.extras)
    }
}

#[cfg(test)]
mod tests {
    use lock_core::ErrorKind;

    use super::*;

    #[test]
    fn hosts_mean_what_they_mean_in_a_url() {
        let shown = |builder: Builder| format!("{:?}", builder.build().unwrap());
        let service = Builder::for_sentinels(["s1", "[::1]:5"], "main");
        assert_eq!(shown(service), "RedisBackend(main at s1:26379,[::1]:5/0)");
        let cluster = Builder::for_cluster(vec!["h1:7000".to_owned()]);
        assert_eq!(shown(cluster), "RedisBackend(cluster at h1:7000)");
    }

    #[test]
    fn wrong_hosts_and_names_are_refused() {
        for (builder, reason) in [
            (Builder::for_cluster(["h1,h2"]), "a host is"),
            (Builder::for_cluster(["me:hunter2@h1"]), "a host is"),
            (Builder::for_cluster(["h1/3"]), "a host is"),
            (Builder::for_cluster(["h1?protocol=resp3"]), "a host is"),
            (Builder::for_cluster([""]), "a host is"),
            (Builder::for_cluster([] as [String; 0]), "no host"),
            (Builder::for_cluster(["h1"]).database(1), "database 0"),
            (Builder::for_sentinels(["s1"], ""), "name of the service"),
            (Builder::for_sentinels(["s1"], "main/3"), "name of the service"),
            (Builder::for_sentinels(["s1"], "hunter2 "), "name of the service"),
        ] {
            let error = builder.build().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error}");
            assert!(error.to_string().contains(reason), "{error}");
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
        }
    }

    #[cfg(feature = "tls")]
    #[test]
    fn a_client_certificate_is_read_at_once() {
        let builder = || crate::RedisBackend::builder("rediss://127.0.0.1");
        for (certificates, key) in [
            ("", ""),
            ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", ""),
            ("", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"),
        ] {
            let error = builder().client_certificate(certificates, key).build().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{error}");
        }
    }
}
