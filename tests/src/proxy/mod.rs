//! A TCP proxy before a server, with switches for network faults.

mod connection;
mod delivery;
mod frames;
mod listener;
mod mediator;
mod switches;
mod twin;

pub use mediator::{Fate, Mediator};

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, mpsc as blocking};
use std::time::Duration;

use tokio::sync::mpsc;

use crate::proxy::listener::Listener;
use crate::proxy::switches::{Counters, Flow, Switches};
use crate::service::Service;
use crate::{Port, RedisServer};

/// A direction through a [`Proxy`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "a connection has two")]
pub enum Direction {
    /// Requests.
    ToServer,
    /// Replies.
    ToClient,
}

/// A TCP proxy on a loopback port of its own, served by a thread of its own.
///
/// It passes everything on until a switch says otherwise. Each switch has taken effect when its method returns: after
/// [`silence`](Self::silence) not one more byte goes in that direction.
///
/// Bytes are never lost as long as their connection lives. Bytes that a direction holds back are delivered when it
/// passes again, as after a stalled network; [`cut`](Self::cut) before that loses them.
///
/// # Examples
///
/// A reply that is lost, though the server has executed the request:
///
/// ```
/// use std::time::Duration;
/// use lock_tests::{Direction, Proxy, RedisServer, eventually, resp};
///
/// let server = RedisServer::start();
/// let proxy = Proxy::before(&server);
/// let mut client = resp::Client::connect(proxy.addr(), Duration::from_secs(5))?;
///
/// proxy.silence(Direction::ToClient);
/// client.send(&["SET", "k", "v"])?;
/// eventually("the key is set", Duration::from_secs(5), || !server.cli(&["GET", "k"]).is_nil());
/// proxy.cut();
/// proxy.pass();
/// assert!(client.receive().is_err());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Proxy {
    // Before the port: the drop closes all connections, and waits until they are closed.
    _service: Service,
    port: Port,
    orders: mpsc::UnboundedSender<Order>,
    counters: Arc<Counters>,
}

/// An order for the proxy's thread, and a way to confirm it.
struct Order {
    change: Change,
    done: blocking::Sender<io::Result<()>>,
}

enum Change {
    Switches(Box<dyn FnOnce(&mut Switches) + Send>),
    Cut,
    Vanish,
    Refuse(bool),
}

impl Proxy {
    /// A proxy in front of a server.
    ///
    /// # Panics
    ///
    /// If it cannot listen.
    pub fn before(server: &RedisServer) -> Self {
        Self::start(server.addr())
    }

    /// A proxy before an address. No server needs to listen there yet.
    ///
    /// # Panics
    ///
    /// If it cannot listen.
    pub fn start(target: SocketAddr) -> Self {
        let port = Port::reserve();
        let addr = port.addr();
        let counters = Arc::<Counters>::default();
        let (orders, inbox) = mpsc::unbounded_channel();
        let begin = || Ok(Listener::bind(addr, target, Arc::clone(&counters))?.run(inbox));
        let service = Service::start(format!("proxy on {addr}"), begin)
            .unwrap_or_else(|error| panic!("no proxy on {addr}: {error}"));
        Self { _service: service, port, orders, counters }
    }

    /// The address for clients.
    pub fn addr(&self) -> SocketAddr {
        self.port.addr()
    }

    /// The URL for clients, if the server asks for no password. Otherwise see
    /// [`RedisServer::url_through`].
    pub fn url(&self) -> String {
        format!("redis://{}", self.addr())
    }

    /// Undoes all switches: accepts connections, and passes on without delay everything that is held back.
    pub fn pass(&self) {
        self.order(Change::Switches(Box::new(Switches::pass)));
        self.accept();
    }

    /// Accepts new connections again.
    pub fn accept(&self) {
        self.order(Change::Refuse(false));
    }

    /// Resets (RST) all connections. New ones are accepted.
    pub fn cut(&self) {
        self.order(Change::Cut);
    }

    /// Resets (RST) each open connection in place of its next reply, or pushed message: the server has executed the
    /// request, and the client hears nothing of it. New connections are not affected.
    pub fn cut_replies(&self) {
        self.order(Change::Switches(Box::new(|switches| switches.cuts += 1)));
    }

    /// Refuses new connections and resets all others, as if the server were gone, until [`pass`](Self::pass).
    pub fn cut_off(&self) {
        self.refuse();
        self.cut();
    }

    /// Refuses new connections until [`accept`](Self::accept) or [`pass`](Self::pass). Existing ones go on: for a
    /// server that is gone, see [`cut_off`](Self::cut_off).
    pub fn refuse(&self) {
        self.order(Change::Refuse(true));
    }

    /// The machines of the clients of all open connections vanish: the server gets no more bytes, and no answer to any
    /// packet. [`cut`](Self::cut) resets these connections, and nothing revives them. New connections pass.
    ///
    /// A silence in both directions hides only the other party: the kernel still answers for it, so the server's own
    /// keepalives succeed.
    #[cfg(target_os = "linux")]
    pub fn vanish(&self) {
        self.order(Change::Vanish);
    }

    /// Holds back everything in one direction until [`speak`](Self::speak) or [`pass`](Self::pass), including the end
    /// of the connection. In both directions: a half-open connection, as its ends see it.
    pub fn silence(&self, direction: Direction) {
        self.change(direction, |flow| flow.silent = true);
    }

    /// Delays everything in one direction by this time, in order, until [`pass`](Self::pass) or another delay.
    pub fn delay(&self, direction: Direction, delay: Duration) {
        self.change(direction, move |flow| flow.delay = delay);
    }

    /// Ends a silence. The bytes that were held back are delivered.
    pub fn speak(&self, direction: Direction) {
        self.change(direction, |flow| flow.silent = false);
    }

    /// Delays by up to this much more, each arrival by a random part of it, in order. The parts follow from how many
    /// connections there were before: the first one has the same parts in every proxy.
    pub fn jitter(&self, direction: Direction, most: Duration) {
        self.change(direction, move |flow| flow.jitter = most);
    }

    /// Delays single arrivals by this much more: about one of 64. What follows an arrival on its connection waits for
    /// it. Other connections go on. Zero: none.
    pub fn straggle(&self, direction: Direction, delay: Duration) {
        self.change(direction, move |flow| flow.straggle = delay);
    }

    /// Delivers one byte at a time in one direction, with this pause after each; `None`: as they come.
    pub fn dribble(&self, direction: Direction, pause: Option<Duration>) {
        self.change(direction, move |flow| flow.dribble = pause);
    }

    /// Whether each request arrives twice, as if the client had sent it again after its reply was lost.
    ///
    /// The copy comes first, on a connection of its own that was introduced like this one. Once the copy was executed
    /// its reply is dropped, and the request itself follows. So the client gets one reply to each request, and its
    /// later requests come after both. If the client does not wait for replies, copies keep their order, but may be
    /// ahead of earlier requests: as if all requests under way had been sent again.
    ///
    /// A request that subscribes to messages arrives once. So do a request that had begun to arrive, and one whose copy
    /// fails.
    pub fn repeat(&self, repeats: bool) {
        self.order(Change::Switches(Box::new(move |switches| switches.repeats = repeats)));
    }

    /// The number of connections so far.
    pub fn connections(&self) -> usize {
        self.counters.accepted()
    }

    /// The number of open connections.
    pub fn open(&self) -> usize {
        self.counters.open()
    }

    /// The number of bytes delivered in one direction. A receiver may see them a moment before they are counted.
    pub fn bytes(&self, direction: Direction) -> u64 {
        self.counters.bytes(direction)
    }

    fn change(&self, direction: Direction, edit: impl FnOnce(&mut Flow) + Send + 'static) {
        self.order(Change::Switches(Box::new(move |switches| edit(switches.flow_mut(direction)))));
    }

    fn order(&self, change: Change) {
        let (done, is_done) = blocking::channel();
        _ = self.orders.send(Order { change, done });
        match is_done.recv() {
            Ok(Ok(())) => {}
            Ok(Err(error)) => panic!("the proxy cannot listen on {}: {error}", self.addr()),
            Err(_) => panic!("the proxy on {} has died", self.addr()),
        }
    }
}
