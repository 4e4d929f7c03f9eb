//! TLS by rustls.

use std::sync::Arc;

use lock_core::{Error, ErrorKind};
use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tokio_rustls::{TlsConnector, rustls};

use crate::wire::{Address, is_final_alert};

/// The certificates to trust, and the one to show. Those of the system are read when they are first needed.
#[derive(Default)]
pub(crate) struct Tls {
    roots: Option<RootCertStore>,
    client: Option<Arc<CertifiedKey>>,
    connector: OnceCell<TlsConnector>,
}

impl Tls {
    /// Trusts the system, or only these certificates. Shows this certificate, with its key, to servers that ask.
    pub(crate) fn new(pem: Option<&[u8]>, client: Option<(&[u8], &[u8])>) -> Result<Self, Error> {
        let roots = pem.map(roots_of).transpose()?;
        let client = client.map(|(certificates, key)| client_of(certificates, key)).transpose()?;
        Ok(Self { roots, client: client.map(Arc::new), connector: OnceCell::new() })
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
            // An untrusted certificate stays untrusted; a broken connection may work next time.
            let kind = match error.get_ref() {
                Some(inner) => match inner.downcast_ref::<rustls::Error>() {
                    Some(rustls::Error::AlertReceived(_))
                        if !is_final_alert(&inner.to_string()) =>
                    {
                        ErrorKind::Unreachable
                    }
                    Some(_) => ErrorKind::Denied,
                    None => ErrorKind::Unreachable,
                },
                None => ErrorKind::Unreachable,
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
            .with_root_certificates(roots);
        let config = match &self.client {
            Some(client) => config
                .with_client_cert_resolver(Arc::new(SingleCertAndKey::from(Arc::clone(client)))),
            None => config.with_no_client_auth(),
        };
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

/// Reads the certificates of a client and their key, which must fit.
fn client_of(certificates: &[u8], key: &[u8]) -> Result<CertifiedKey, Error> {
    // The errors of the parser tell of sections and never of their contents.
    let unusable = |what: &'static str, error: BoxError| {
        Error::with_source(ErrorKind::InvalidConfig, what, error)
    };
    let chain = CertificateDer::pem_slice_iter(certificates)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| unusable("the client certificate is not usable", Box::new(error)))?;
    if chain.is_empty() {
        return Err(Error::new(
            ErrorKind::InvalidConfig,
            "there is no client certificate in the PEM",
        ));
    }
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| {
        unusable("the key of the client certificate is not usable", Box::new(error))
    })?;
    CertifiedKey::from_der(chain, key, &rustls::crypto::ring::default_provider()).map_err(|error| {
        unusable("the client certificate and its key are not usable together", Box::new(error))
    })
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
