//! A network that can fail.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

/// A proxy before a server. It works on threads of its own, whatever the test's runtime does.
#[derive(Debug)]
pub(crate) struct Proxy {
    port: u16,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    mode: Mode,
    sockets: Vec<TcpStream>,
    accepted: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mode {
    #[default]
    Open,
    /// Connections are closed as soon as they come.
    Cut,
    /// Connections stay, and nothing passes.
    Silent,
    /// Requests pass, and replies do not.
    Mute,
}

impl Proxy {
    /// Starts a proxy before the server on this port.
    pub(crate) fn before(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared::default());
        thread::spawn({
            let shared = Arc::downgrade(&shared);
            move || {
                for client in listener.incoming() {
                    let Some(shared) = shared.upgrade() else { return };
                    // A connection that fails is what a client of this proxy has to expect.
                    let _ = client.and_then(|client| shared.admit(client, server));
                }
            }
        });
        Self { port, shared }
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Closes all connections, and every new one at once.
    pub(crate) fn cut(&self) {
        self.shared.enter(Mode::Cut);
    }

    /// Holds everything back, and keeps the connections.
    pub(crate) fn silence(&self) {
        self.shared.enter(Mode::Silent);
    }

    /// Holds back what the server says, and keeps the connections.
    pub(crate) fn hold_replies(&self) {
        self.shared.enter(Mode::Mute);
    }

    /// Closes the connections that are there, but not those that come.
    pub(crate) fn sever(&self) {
        self.cut();
        self.heal();
    }

    /// Works again. What was held back passes.
    pub(crate) fn heal(&self) {
        self.shared.enter(Mode::Open);
    }

    /// How many connections there have been.
    pub(crate) fn accepted(&self) -> usize {
        self.shared.state.lock().unwrap().accepted
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.cut();
        // Wakes the thread that accepts, so that it ends.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

impl Shared {
    fn enter(&self, mode: Mode) {
        let mut state = self.state.lock().unwrap();
        state.mode = mode;
        if mode == Mode::Cut {
            for socket in state.sockets.drain(..) {
                // It may be closed already.
                let _ = socket.shutdown(Shutdown::Both);
            }
        }
        self.changed.notify_all();
    }

    fn admit(self: &Arc<Self>, client: TcpStream, server: u16) -> io::Result<()> {
        let mut state = self.state.lock().unwrap();
        if state.mode == Mode::Cut {
            return Ok(());
        }
        state.accepted += 1;
        let server = TcpStream::connect(("127.0.0.1", server))?;
        for (from, to, held) in [
            (&client, &server, &[Mode::Silent][..]),
            (&server, &client, &[Mode::Silent, Mode::Mute]),
        ] {
            from.set_nodelay(true)?;
            let (from, to) = (from.try_clone()?, to.try_clone()?);
            let shared = Arc::clone(self);
            thread::spawn(move || shared.pass(&from, &to, held));
        }
        state.sockets.extend([client, server]);
        Ok(())
    }

    /// Moves bytes, except in the modes that hold them back.
    fn pass(&self, mut from: &TcpStream, mut to: &TcpStream, held: &[Mode]) {
        let mut buffer = [0; 16 * 1024];
        while let Ok(read @ 1..) = from.read(&mut buffer) {
            let state = self.state.lock().unwrap();
            let quiet = |state: &mut State| held.contains(&state.mode);
            drop(self.changed.wait_while(state, quiet).unwrap());
            if to.write_all(&buffer[..read]).is_err() {
                break;
            }
        }
        for socket in [from, to] {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}
