//! The task of a proxy that accepts connections and executes orders.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::connection::Connection;
use super::switches::{Counters, Switches};
use super::{Change, Order};
use crate::port;

pub(super) struct Listener {
    addr: SocketAddr,
    target: SocketAddr,
    counters: Arc<Counters>,
    switches: watch::Sender<Switches>,
    connections: JoinSet<()>,
    /// `None` while connections are refused.
    socket: Option<TcpListener>,
}

impl Listener {
    pub(super) fn bind(
        addr: SocketAddr,
        target: SocketAddr,
        counters: Arc<Counters>,
    ) -> io::Result<Self> {
        Ok(Self {
            addr,
            target,
            counters,
            switches: watch::Sender::default(),
            connections: JoinSet::new(),
            socket: Some(listen(addr)?),
        })
    }

    /// Serves until no more orders can come.
    pub(super) async fn run(mut self, mut inbox: mpsc::UnboundedReceiver<Order>) {
        loop {
            tokio::select! {
                // Orders first, so that none waits behind a flood of connections.
                biased;
                order = inbox.recv() => match order {
                    Some(Order { change, done }) => _ = done.send(self.apply(change).await),
                    None => return,
                },
                Some(_) = self.connections.join_next() => {}
                stream = accept(self.socket.as_ref()) => self.connect(stream),
            }
        }
    }

    async fn apply(&mut self, change: Change) -> io::Result<()> {
        match change {
            Change::Switches(edit) => self.switches.send_modify(edit),
            Change::Cut => self.connections.shutdown().await,
            Change::Vanish => {
                self.switches.send_modify(|switches| switches.vanishings += 1);
                while self.counters.has_present() {
                    tokio::task::yield_now().await;
                }
            }
            Change::Refuse(true) => self.close(),
            Change::Refuse(false) if self.socket.is_none() => {
                self.socket = Some(listen(self.addr)?)
            }
            Change::Refuse(false) => {}
        }
        Ok(())
    }

    fn close(&mut self) {
        if let Some(socket) = self.socket.take() {
            port::close(socket);
        }
    }

    fn connect(&mut self, client: TcpStream) {
        let connection = Connection::new(client, Arc::clone(&self.counters));
        self.connections.spawn(connection.run(self.target, self.switches.subscribe()));
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.close();
    }
}

fn listen(addr: SocketAddr) -> io::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    // The port's earlier connections may still linger.
    socket.set_reuseaddr(true)?;
    socket.bind(addr)?;
    socket.listen(1024)
}

/// The next connection; never, while connections are refused.
async fn accept(socket: Option<&TcpListener>) -> TcpStream {
    match socket {
        None => std::future::pending().await,
        Some(socket) => loop {
            match socket.accept().await {
                Ok((stream, _)) => return stream,
                // The connection was gone before it was accepted, or files have run out for now.
                Err(_) => tokio::task::yield_now().await,
            }
        },
    }
}
