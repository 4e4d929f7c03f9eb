//! Loopback ports without conflicts.

use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::Range;
use std::os::fd::AsFd;
use std::path::PathBuf;

use rustix::fs::{FlockOperation, flock};
use rustix::net::{Shutdown, shutdown};

/// Below the range from which Linux takes the ports of outgoing connections. A port in that range
/// may go to such a connection while its server is being restarted.
const RANGE: Range<u16> = 10_000..32_000;

/// A loopback port reserved among all test processes of this user until it is dropped.
///
/// A reservation outlasts the server that listens there, so a killed server finds its port again.
/// Other programs know nothing of it: a server must still expect that the port is in use.
#[derive(Debug)]
pub struct Port {
    number: u16,
    /// The system releases the lock when the process ends, however it ends.
    lock: File,
}

impl Port {
    /// Reserves a port without a listener.
    ///
    /// # Panics
    ///
    /// If there is none, or the folder of reservations cannot be written.
    pub fn reserve() -> Self {
        let folder = folder();
        fs::create_dir_all(&folder)
            .unwrap_or_else(|error| panic!("cannot create {}: {error}", folder.display()));
        let offset = RandomState::new().build_hasher().finish() as usize % RANGE.len();
        cycle(RANGE, offset)
            .find_map(|number| Self::claim(number, folder.join(number.to_string())))
            .unwrap_or_else(|| panic!("no free port in {RANGE:?}; see {}", folder.display()))
    }

    fn claim(number: u16, path: PathBuf) -> Option<Self> {
        let lock = File::create(path).ok()?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).ok()?;
        close(TcpListener::bind((Ipv4Addr::LOCALHOST, number)).ok()?);
        Some(Self { number, lock })
    }

    /// The number of the port.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// The address on the loopback interface.
    pub fn addr(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.number).into()
    }
}

impl Drop for Port {
    /// Releases at once, although a process that was just forked may hold a copy of the file.
    fn drop(&mut self) {
        _ = flock(&self.lock, FlockOperation::Unlock);
    }
}

/// Ends a listener at once.
///
/// Closing its descriptor is not enough: a process that another thread has just forked holds a copy
/// until it becomes another program, and the port accepts connections meanwhile.
pub(crate) fn close(listener: impl AsFd) {
    // An error means that the system does not support this for listeners, or that it is closed
    // already.
    _ = shutdown(listener, Shutdown::Both);
}

fn folder() -> PathBuf {
    let user = rustix::process::geteuid().as_raw();
    std::env::temp_dir().join(format!("lock-tests-ports-{user}"))
}

/// The whole range, once, beginning at `offset`.
fn cycle(range: Range<u16>, offset: usize) -> impl Iterator<Item = u16> {
    range.clone().skip(offset).chain(range.take(offset))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn reserved_ports_differ_and_are_free() {
        let ports: Vec<Port> = (0..50).map(|_| Port::reserve()).collect();
        let numbers: HashSet<u16> = ports.iter().map(Port::number).collect();
        assert_eq!(numbers.len(), ports.len());
        TcpListener::bind(ports[0].addr()).unwrap();
    }

    #[test]
    fn a_reservation_excludes_others_until_it_is_dropped() {
        let port = Port::reserve();
        let path = || folder().join(port.number().to_string());
        assert!(Port::claim(port.number(), path()).is_none());
        let (number, path) = (port.number(), path());
        drop(port);
        assert_eq!(Port::claim(number, path).unwrap().number(), number);
    }

    #[test]
    fn the_cycle_visits_every_port_once() {
        let all: HashSet<u16> = cycle(3..9, 4).collect();
        assert_eq!(all, (3..9).collect());
        assert_eq!(cycle(3..9, 4).count(), 6);
    }
}
