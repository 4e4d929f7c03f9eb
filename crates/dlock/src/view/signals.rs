//! Signals that end the program.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals by which users and systems end a program.
pub(crate) struct Ends([(i32, Signal); 4]);

impl Ends {
    pub(crate) fn new() -> io::Result<Self> {
        let listen = |kind: SignalKind| Ok::<_, io::Error>((kind.as_raw_value(), signal(kind)?));
        Ok(Self([
            listen(SignalKind::hangup())?,
            listen(SignalKind::interrupt())?,
            listen(SignalKind::quit())?,
            listen(SignalKind::terminate())?,
        ]))
    }

    /// The number of the next signal.
    pub(crate) async fn next(&mut self) -> i32 {
        let [one, two, three, four] = &mut self.0;
        tokio::select! {
            Some(()) = one.1.recv() => one.0,
            Some(()) = two.1.recv() => two.0,
            Some(()) = three.1.recv() => three.0,
            Some(()) = four.1.recv() => four.0,
            else => std::future::pending().await,
        }
    }
}
