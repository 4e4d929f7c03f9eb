//! The program of a member.

use std::io::{self, BufRead, Write};
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::{Part, burner};
use crate::other_build::{self, GUEST};
use crate::{Failure, contestants};

/// The argument that makes a benchmark a member.
pub(super) const MEMBER: &str = "--member";

/// The argument that makes a benchmark a [burner](super::Burner).
pub(super) const BURN: &str = "--burn";

/// Whether this program was started by a benchmark: as a member of a team, as a [burner](super::Burner),
/// or as the [other build](crate::other_build).
pub fn is_member() -> bool {
    std::env::args().nth(1).is_some_and(|arg| [MEMBER, BURN, GUEST].contains(&&*arg))
}

/// Runs a member, in a benchmark that was [started as one](is_member).
///
/// # Errors
///
/// If it cannot read its plan or has no runtime. Later failures go to the captain.
pub fn serve() -> Result<(), Failure> {
    match std::env::args().nth(1).as_deref() {
        Some(BURN) => {
            end_with_input(|_| true);
            burner::burn();
        }
        Some(GUEST) => return other_build::serve(),
        _ => {}
    }
    let mut plan = String::new();
    io::stdin().lock().read_line(&mut plan)?;
    let part = Part::parse(&plan)?;
    let mut runtime = match part.threads {
        true => tokio::runtime::Builder::new_multi_thread(),
        false => tokio::runtime::Builder::new_current_thread(),
    };
    let runtime = runtime.enable_all().build()?;
    let outcome = runtime.block_on(async {
        let orders = Orders::listen();
        let entrant = contestants::under(part.rule, &part.contestant, &part.url).await?;
        entrant.member(part, orders).await
    });
    if let Err(failure) = outcome {
        say(&format!("failed {}", failure.to_string().replace('\n', " ")))?;
    }
    // Tasks that still wait for the lock would keep the runtime up. They end with the process.
    runtime.shutdown_timeout(Duration::from_millis(100));
    Ok(())
}

/// The captain's orders, line by line.
#[derive(Debug)]
pub(crate) struct Orders(UnboundedReceiver<String>);

impl Orders {
    /// Listens on standard input. Its end means that the captain is gone, and ends this process.
    fn listen() -> Self {
        let (sender, orders) = unbounded_channel();
        end_with_input(move |line| sender.send(line).is_ok());
        Self(orders)
    }

    /// The next order; `None` if there are no more.
    pub(super) async fn next(&mut self) -> Option<String> {
        self.0.recv().await
    }
}

/// Sends a line to the captain.
pub(super) fn say(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

/// Reads standard input as long as there is a receiver. The end of the input ends the process.
fn end_with_input(hear: impl Fn(String) -> bool + Send + 'static) {
    std::thread::spawn(move || {
        if io::stdin().lock().lines().map_while(Result::ok).all(hear) {
            std::process::exit(0);
        }
    });
}
