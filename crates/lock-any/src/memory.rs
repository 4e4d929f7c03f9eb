//! The stores in the memory of this process.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use lock_core::memory::MemoryBackend;
use lock_core::{Error, ErrorKind};

/// The stores by their names. A store lives as long as the process, as a server lives longer than
/// its clients.
static STORES: LazyLock<Mutex<HashMap<String, MemoryBackend>>> = LazyLock::new(Mutex::default);

/// A client of the store that the URL names.
pub(crate) fn open(url: &str) -> Result<MemoryBackend, Error> {
    let name = name(url).ok_or_else(|| {
        Error::new(
            ErrorKind::InvalidConfig,
            "the URL of a store in memory is memory: or memory://name",
        )
    })?;
    let mut stores = STORES.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(stores.entry(name.to_owned()).or_default().client())
}

fn name(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once(':')?;
    let name = if rest.is_empty() { "" } else { rest.strip_prefix("//")? };
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    name.bytes().all(is_name).then_some(name)
}
