//! Clusters of etcd.

use std::sync::Arc;

use lock_core::Error;
use lock_core::observer::Observer;
use lock_etcd::EtcdBackend;

/// A client of the cluster that the URL names.
pub(crate) fn open(url: &str, observer: Option<Arc<dyn Observer>>) -> Result<EtcdBackend, Error> {
    let builder = EtcdBackend::builder(url);
    match observer {
        Some(observer) => builder.observer(observer),
        None => builder,
    }
    .build()
}
