//! TLS by rustls.

use std::sync::Arc;

use lock_core::{Error, ErrorKind};
use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tokio_rustls::{TlsConnector, rustls};

use crate::wire::Address;

/// Whom to trust. The certificates of the system are read when they are needed first.
#[derive(Default)]
pub(crate) struct Tls {
    roots: Option<RootCertStore>,
    connector: OnceCell<TlsConnector>,
}

impl Tls {
    /// Trusts the system, or these certificates alone.
    pub(crate) fn new(pem: Option<&[u8]>) -> Result<Self, Error> {
        let roots = pem.map(roots_of).transpose()?;
        Ok(Self { roots, connector: OnceCell::new() })
    }

    pub(super) async fn connect(
        &self,
        host: &str,
        stream: TcpStream,
        address: &Address,
    ) -> Result<TlsStream<TcpStream>, Error> {
        let name = ServerName::try_from(host.to_owned()).map_err(|error| {
            let message = format!("{address} has no name that a certificate could bear");
            Error::with_source(ErrorKind::InvalidConfig, message, error)
        })?;
        let connector = self.connector.get_or_try_init(|| self.connector()).await?;
        connector.connect(name, stream).await.map_err(|error| {
            // An untrusted certificate stays untrusted; a broken connection may be better next time.
            let kind = match error.get_ref() {
                Some(inner) if inner.is::<rustls::Error>() => ErrorKind::Denied,
                _ => ErrorKind::Unreachable,
            };
            Error::with_source(kind, format!("no TLS connection to {address}"), error)
        })
    }

    async fn connector(&self) -> Result<TlsConnector, Error> {
        let roots = match &self.roots {
            Some(roots) => roots.clone(),
            None => tokio::task::spawn_blocking(roots_of_the_system).await.map_err(|error| {
                let message = "the certificates of the system were not read";
                Error::with_source(ErrorKind::Unreachable, message, error)
            })??,
        };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| {
                Error::with_source(ErrorKind::InvalidConfig, "TLS is not available", error)
            })?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(TlsConnector::from(Arc::new(config)))
    }
}

fn roots_of(pem: &[u8]) -> Result<RootCertStore, Error> {
    let unusable = |error| {
        Error::with_source(ErrorKind::InvalidConfig, "a root certificate is not usable", error)
    };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| unusable(Box::new(error) as _))?;
        roots.add(certificate).map_err(|error| unusable(Box::new(error) as BoxError))?;
    }
    if roots.is_empty() {
        return Err(Error::new(
            ErrorKind::InvalidConfig,
            "there is no root certificate in the PEM",
        ));
    }
    Ok(roots)
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

fn roots_of_the_system() -> Result<RootCertStore, Error> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        return Err(Error::new(
            ErrorKind::InvalidConfig,
            "the system has no root certificates: install them, or give them to the builder",
        ));
    }
    Ok(roots)
}
