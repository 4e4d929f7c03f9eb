//! A TCP proxy in front of a server, with switches for what networks do.

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
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::mpsc;

use crate::proxy::listener::Listener;
use crate::proxy::switches::{Counters, Flow, Switches};
use crate::{Port, RedisServer};

/// A way through a [`Proxy`].
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
/// It passes everything on until it is told otherwise. Each switch has taken effect when its method
/// returns: after [`silence`](Self::silence) not one more byte goes that way.
///
/// Bytes are never lost as long as their connection lives. What a direction holds back is delivered
/// when it passes again, as after a stalled network; [`cut`](Self::cut) before that loses it.
///
/// # Examples
///
/// A reply that is lost, though the server has done what it was asked to do:
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
    port: Port,
    orders: mpsc::UnboundedSender<Order>,
    counters: Arc<Counters>,
    thread: Option<JoinHandle<()>>,
}

/// Something to be done on the proxy's thread, and a way to say that it is done.
struct Order {
    change: Change,
    done: blocking::Sender<io::Result<()>>,
}

enum Change {
    Switches(Box<dyn FnOnce(&mut Switches) + Send>),
    Cut,
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

    /// A proxy in front of an address. Nobody needs to listen there yet.
    ///
    /// # Panics
    ///
    /// If it cannot listen.
    pub fn start(target: SocketAddr) -> Self {
        let port = Port::reserve();
        let addr = port.addr();
        let counters = Arc::<Counters>::default();
        let (orders, inbox) = mpsc::unbounded_channel();
        let (ready, is_ready) = blocking::channel();
        let shared = Arc::clone(&counters);
        let thread = std::thread::Builder::new()
            .name(format!("proxy on {addr}"))
            .spawn(move || serve(addr, target, shared, inbox, &ready))
            .unwrap_or_else(|error| panic!("no thread for the proxy: {error}"));
        match is_ready.recv() {
            Ok(Ok(())) => Self { port, orders, counters, thread: Some(thread) },
            Ok(Err(error)) => panic!("the proxy cannot listen on {addr}: {error}"),
            Err(_) => panic!("the proxy on {addr} did not start"),
        }
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

    /// Undoes everything: accepts connections, and passes on without delay what is held back.
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

    /// Lets each connection that is open end (RST) in place of its next reply, or pushed message: the server
    /// has done what it was asked to do, and the client hears nothing of it. New connections are as any.
    pub fn cut_replies(&self) {
        self.order(Change::Switches(Box::new(|switches| switches.cuts += 1)));
    }

    /// Refuses new connections until [`accept`](Self::accept) or [`pass`](Self::pass). Those that exist go on: for a server that
    /// is gone, [`cut`](Self::cut) them too.
    pub fn refuse(&self) {
        self.order(Change::Refuse(true));
    }

    /// Holds back everything in one direction until [`speak`](Self::speak) or [`pass`](Self::pass), also the
    /// end of the connection. In both directions: a half-open connection, as after a cable was pulled.
    pub fn silence(&self, direction: Direction) {
        self.change(direction, |flow| flow.silent = true);
    }

    /// Delivers everything in one direction that much later, in order, until
    /// [`pass`](Self::pass) or another delay.
    pub fn delay(&self, direction: Direction, delay: Duration) {
        self.change(direction, move |flow| flow.delay = delay);
    }

    /// Ends a silence. What was held back is delivered.
    pub fn speak(&self, direction: Direction) {
        self.change(direction, |flow| flow.silent = false);
    }

    /// Delays by up to so much more, each time what comes in by another part of that, in order. Which parts
    /// follows from how many connections there were before: the first has the same in every proxy.
    pub fn jitter(&self, direction: Direction, most: Duration) {
        self.change(direction, move |flow| flow.jitter = most);
    }

    /// Delivers one byte at a time in one direction, with such a pause after each; `None`: as they come.
    pub fn dribble(&self, direction: Direction, pause: Option<Duration>) {
        self.change(direction, move |flow| flow.dribble = pause);
    }

    /// Whether each request arrives twice, as if the client had sent it again after its reply was lost.
    ///
    /// The copy comes first, on a connection of its own that has introduced itself as this one did. Once it
    /// was carried out its reply is dropped, and the request itself follows. So the client has one reply to
    /// each, and whatever it asks for after that comes after both. Of requests that it does not wait for,
    /// copies keep their order, but may be ahead of requests before them: as if all that was under way had been
    /// sent again.
    ///
    /// A request that subscribes to messages arrives once, as do one that had begun to arrive and one whose
    /// copy fails.
    pub fn repeat(&self, repeats: bool) {
        self.order(Change::Switches(Box::new(move |switches| switches.repeats = repeats)));
    }

    /// How many connections were ever accepted.
    pub fn connections(&self) -> usize {
        self.counters.accepted()
    }

    /// How many connections are open.
    pub fn open(&self) -> usize {
        self.counters.open()
    }

    /// How many bytes have been delivered in one direction. Whoever has received them may see it a
    /// moment before they are counted.
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

impl Drop for Proxy {
    /// Closes all connections, and waits until that is done.
    fn drop(&mut self) {
        // A channel without a sender ends the thread.
        self.orders = mpsc::unbounded_channel().0;
        if let Some(thread) = self.thread.take() {
            _ = thread.join();
        }
    }
}

/// The proxy's thread.
fn serve(
    addr: SocketAddr,
    target: SocketAddr,
    counters: Arc<Counters>,
    inbox: mpsc::UnboundedReceiver<Order>,
    ready: &blocking::Sender<io::Result<()>>,
) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            _ = ready.send(Err(error));
            return;
        }
    };
    runtime.block_on(async {
        match Listener::bind(addr, target, counters) {
            Ok(listener) => {
                _ = ready.send(Ok(()));
                listener.run(inbox).await;
            }
            Err(error) => _ = ready.send(Err(error)),
        }
    });
}
