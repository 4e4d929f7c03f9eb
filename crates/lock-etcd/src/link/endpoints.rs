//! Where the members of a cluster are, and how a connection to them is set up.

use std::time::Duration;

use lock_core::{Error, ErrorKind};
use tonic::transport::Endpoint;

use crate::url::Place;

/// How long a member may take to accept a connection, at most. Another member is tried afterwards.
const CONNECT: Duration = Duration::from_secs(2);

/// How often a connection is tried out, and how long the other end may take to answer.
const PULSE: Duration = Duration::from_secs(2);

/// The certificates of a builder, in PEM.
#[cfg(feature = "tls")]
#[derive(Clone, Default)]
pub(crate) struct Certificates {
    pub(crate) roots: Option<Vec<u8>>,
    /// The certificate of the client, and its key.
    pub(crate) own: Option<(Vec<u8>, Vec<u8>)>,
}

/// The endpoints of the members that a URL names.
#[cfg(feature = "tls")]
pub(crate) fn endpoints(
    place: &Place,
    limit: Duration,
    certificates: &Certificates,
) -> Result<Vec<Endpoint>, Error> {
    if !place.tls {
        if certificates.roots.is_some() || certificates.own.is_some() {
            return Err(invalid("certificates need a URL that begins with etcds://"));
        }
        return plain(place, "http", limit);
    }
    let config = tls::config(certificates)?;
    let unusable = |error| {
        Error::with_source(
            ErrorKind::InvalidConfig,
            "a certificate or its key is not usable",
            error,
        )
    };
    plain(place, "https", limit)?
        .into_iter()
        .map(|endpoint| endpoint.tls_config(config.clone()).map_err(unusable))
        .collect()
}

/// The endpoints of the members that a URL names.
#[cfg(not(feature = "tls"))]
pub(crate) fn endpoints(place: &Place, limit: Duration) -> Result<Vec<Endpoint>, Error> {
    if place.tls {
        return Err(invalid("etcds:// needs the feature `tls` of lock-etcd"));
    }
    plain(place, "http", limit)
}

/// Host and port of a member.
pub(super) fn name(endpoint: &Endpoint) -> String {
    endpoint.uri().authority().map_or_else(String::new, ToString::to_string)
}

fn plain(place: &Place, scheme: &str, limit: Duration) -> Result<Vec<Endpoint>, Error> {
    let endpoint = |member: &String| {
        let endpoint = Endpoint::from_shared(format!("{scheme}://{member}")).map_err(|error| {
            Error::with_source(
                ErrorKind::InvalidConfig,
                format!("{member:?} is no member of etcd"),
                error,
            )
        })?;
        Ok(endpoint
            .connect_timeout(CONNECT.min(limit))
            .http2_keep_alive_interval(PULSE)
            .keep_alive_timeout(PULSE)
            .tcp_nodelay(true))
    };
    place.members.iter().map(endpoint).collect()
}

fn invalid(message: &'static str) -> Error {
    Error::new(ErrorKind::InvalidConfig, message)
}

#[cfg(feature = "tls")]
mod tls {
    use lock_core::Error;
    use tonic::transport::{Certificate, ClientTlsConfig, Identity};

    use super::{Certificates, invalid};

    pub(super) fn config(certificates: &Certificates) -> Result<ClientTlsConfig, Error> {
        let config = match &certificates.roots {
            None => ClientTlsConfig::new().with_native_roots(),
            // The reader of PEM skips what it does not know, and would trust no root without a word.
            Some(pem) if !has_certificate(pem) => {
                return Err(invalid("there is no root certificate in the PEM"));
            }
            Some(pem) => ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem)),
        };
        Ok(match &certificates.own {
            None => config,
            Some((pem, _)) if !has_certificate(pem) => {
                return Err(invalid("there is no certificate of the client in the PEM"));
            }
            Some((pem, key)) => config.identity(Identity::from_pem(pem, key)),
        })
    }

    fn has_certificate(pem: &[u8]) -> bool {
        const BEGIN: &[u8] = b"-----BEGIN CERTIFICATE-----";
        pem.windows(BEGIN.len()).any(|window| window == BEGIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(url: &str) -> Result<Vec<Endpoint>, Error> {
        let place = Place::of(url).unwrap();
        #[cfg(feature = "tls")]
        return endpoints(&place, CONNECT, &Certificates::default());
        #[cfg(not(feature = "tls"))]
        endpoints(&place, CONNECT)
    }

    #[test]
    fn each_member_has_an_endpoint() {
        let uris: Vec<_> = made("etcd://a,[::1]:7/x").unwrap();
        let uris: Vec<_> = uris.iter().map(|it| it.uri().to_string()).collect();
        assert_eq!(uris, ["http://a:2379/", "http://[::1]:7/"]);
    }

    #[cfg(not(feature = "tls"))]
    #[test]
    fn tls_needs_its_feature() {
        assert_eq!(made("etcds://a").unwrap_err().kind(), ErrorKind::InvalidConfig);
    }

    #[cfg(feature = "tls")]
    #[test]
    fn certificates_that_are_none_are_refused() {
        assert_eq!(made("etcds://a").unwrap()[0].uri().scheme_str(), Some("https"));
        let given = |url, roots: Option<&[u8]>, own: Option<&[u8]>| {
            let certificates = Certificates {
                roots: roots.map(Vec::from),
                own: own.map(|it| (Vec::from(it), Vec::new())),
            };
            endpoints(&Place::of(url).unwrap(), CONNECT, &certificates)
        };
        let broken: &[u8] = b"-----BEGIN CERTIFICATE-----\n?\n-----END CERTIFICATE-----\n";
        for (url, roots, own) in [
            ("etcds://a", Some(&b"?"[..]), None),
            ("etcds://a", Some(broken), None),
            ("etcds://a", None, Some(&b"?"[..])),
            ("etcds://a", None, Some(broken)),
            ("etcd://a", Some(broken), None),
        ] {
            let error = given(url, roots, own).expect_err("no certificate");
            assert_eq!(error.kind(), ErrorKind::InvalidConfig);
        }
    }
}
