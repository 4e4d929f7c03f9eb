//! TLS by rustls, if the crate was built with it.

#[cfg(feature = "tls")]
pub(crate) use with::Tls;
#[cfg(not(feature = "tls"))]
pub(crate) use without::Tls;

#[cfg(feature = "tls")]
mod with {
    use std::sync::Arc;

    use lock_core::{Error, ErrorKind};
    use tokio::sync::OnceCell;
    use tokio_postgres::Config;
    use tokio_postgres::config::SslMode;
    use tokio_postgres_rustls::MakeRustlsConnect;
    use tokio_rustls::rustls::pki_types::CertificateDer;
    use tokio_rustls::rustls::pki_types::pem::PemObject as _;
    use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

    /// The certificates to trust. Those of the system are read when they are first needed.
    #[derive(Default)]
    pub(crate) struct Tls {
        roots: Option<RootCertStore>,
        connector: OnceCell<MakeRustlsConnect>,
    }

    impl Tls {
        /// Trusts only these certificates.
        pub(crate) fn trusting(pem: &[u8]) -> Result<Self, Error> {
            let unusable = |error| {
                Error::with_source(
                    ErrorKind::InvalidConfig,
                    "a root certificate is not usable",
                    error,
                )
            };
            let mut roots = RootCertStore::empty();
            for certificate in CertificateDer::pem_slice_iter(pem) {
                let certificate = certificate.map_err(|error| unusable(Box::new(error)))?;
                roots.add(certificate).map_err(|error| unusable_root(&error))?;
            }
            if roots.is_empty() {
                return Err(Error::new(
                    ErrorKind::InvalidConfig,
                    "there is no root certificate in the PEM",
                ));
            }
            Ok(Self { roots: Some(roots), connector: OnceCell::new() })
        }

        /// With certificates of its own, a client never falls back to plain text, which is the usual level of the
        /// driver.
        pub(crate) fn check(&self, config: &mut Config) -> Result<(), Error> {
            if self.roots.is_some() && config.get_ssl_mode() == SslMode::Prefer {
                config.ssl_mode(SslMode::Require);
            }
            Ok(())
        }

        /// The connector; `None` if the URL asks for a connection without TLS.
        pub(crate) async fn connector(
            &self,
            config: &Config,
        ) -> Result<Option<MakeRustlsConnect>, Error> {
            if config.get_ssl_mode() == SslMode::Disable {
                return Ok(None);
            }
            self.connector.get_or_try_init(|| self.make()).await.cloned().map(Some)
        }

        async fn make(&self) -> Result<MakeRustlsConnect, Error> {
            let roots = match &self.roots {
                Some(roots) => roots.clone(),
                None => {
                    tokio::task::spawn_blocking(roots_of_the_system).await.map_err(|error| {
                        let message = "the certificates of the system were not read";
                        Error::with_source(ErrorKind::Unreachable, message, error)
                    })?
                }
            };
            let provider = Arc::new(crypto::ring::default_provider());
            let config = ClientConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .map_err(|error| {
                    Error::with_source(ErrorKind::InvalidConfig, "TLS is not available", error)
                })?
                .with_root_certificates(roots)
                .with_no_client_auth();
            Ok(MakeRustlsConnect::new(config))
        }
    }

    fn unusable_root(error: &tokio_rustls::rustls::Error) -> Error {
        Error::new(ErrorKind::InvalidConfig, format!("a root certificate is not usable: {error}"))
    }

    /// A certificate of the system that is not usable is left out.
    fn roots_of_the_system() -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        roots
    }
}

#[cfg(not(feature = "tls"))]
mod without {
    use lock_core::{Error, ErrorKind};
    use tokio_postgres::config::SslMode;
    use tokio_postgres::{Config, NoTls};

    #[derive(Default)]
    pub(crate) struct Tls;

    impl Tls {
        pub(crate) fn check(&self, config: &mut Config) -> Result<(), Error> {
            if config.get_ssl_mode() == SslMode::Require {
                let message = "`sslmode=require` needs the feature `tls` of lock-postgres";
                return Err(Error::new(ErrorKind::InvalidConfig, message));
            }
            Ok(())
        }

        pub(crate) async fn connector(&self, _: &Config) -> Result<Option<NoTls>, Error> {
            Ok(None)
        }
    }
}
