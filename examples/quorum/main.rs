//! A lock on five nodes, one of which dies while two clients take turns.
//!
//! The nodes are `redis-server` processes that the example starts and ends itself. Without that program they
//! are stores inside this process. Each client asks all of them, and has the lock when three have granted it.
//! So no client notices when one node is killed. When that node comes back, it has forgotten everything,
//! including the locks that it granted. It does not vote until none of those can be held any more.
//!
//! ```text
//! cargo run --example quorum
//! ```

#![forbid(unsafe_code)]

mod nodes;
mod turns;

use std::error::Error;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use lock_core::Ttl;
use lock_redlock::{NodeStatus, Redlock, Voting};
use tokio::time::sleep;

use crate::nodes::Nodes;
use crate::turns::{Players, Turns};

type AnyError = Box<dyn Error + Send + Sync>;

/// The node that dies, counted from 0.
const VICTIM: usize = 2;

/// The times of the play.
#[derive(Clone, Copy)]
struct Pace {
    /// How long to watch the clients.
    watch: Duration,
    /// The longest lease. A node that has forgotten leases is in quarantine for so long.
    max_ttl: Duration,
}

#[tokio::main]
async fn main() -> ExitCode {
    let pace = Pace { watch: Duration::from_secs(1), max_ttl: Duration::from_secs(2) };
    match show(Nodes::start(), pace).await {
        Ok(turns) if turns.are_in_order() => {
            println!("\n{} turns, and every fencing token is above the one before.", turns.count());
            ExitCode::SUCCESS
        }
        Ok(_) => {
            eprintln!("The fencing tokens are not in order. This should not have happened.");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Kills a node and starts it again, while two clients take turns. Returns the turns.
async fn show(nodes: Nodes, pace: Pace) -> Result<Turns, AnyError> {
    println!("Five nodes: {}.", nodes.description());
    let mut clients = Vec::new();
    for _ in 0..2 {
        let mut builder = Redlock::builder().max_ttl(Ttl::new(pace.max_ttl)?);
        for (name, node) in nodes.connect()? {
            builder = builder.node(name, node);
        }
        clients.push(builder.build().await?);
    }
    let quorum = clients[0].clone();
    // The nodes are new, so none of them can have forgotten a lease.
    quorum.init().await?;
    print_nodes(&quorum.status().await);

    let players = Players::start(clients, pace.max_ttl / 2)?;
    let mut watch = Watch { players: &players, pace };
    watch.for_a_while("All nodes vote").await;

    nodes.kill(VICTIM);
    watch.for_a_while(&format!("Node {} is dead", VICTIM + 1)).await;
    print_nodes(&quorum.status().await);

    nodes.restart_empty(VICTIM);
    let back = Instant::now();
    watch.for_a_while(&format!("Node {} is back, and has forgotten everything", VICTIM + 1)).await;
    print_nodes(&quorum.status().await);

    while quorum.status().await[VICTIM].voting != Voting::Yes {
        sleep(Duration::from_millis(10)).await;
    }
    println!("\nIt votes again {:.1} s after it came back.", back.elapsed().as_secs_f64());
    watch.for_a_while("All nodes vote").await;
    players.stop().await
}

/// A spectator, who prints the turns.
struct Watch<'a> {
    players: &'a Players,
    pace: Pace,
}

impl Watch<'_> {
    async fn for_a_while(&mut self, what: &str) {
        let before = self.players.turns().count();
        sleep(self.pace.watch).await;
        println!("\n{what}: {}.", self.players.turns().since(before));
    }
}

fn print_nodes(nodes: &[NodeStatus]) {
    for node in nodes {
        let voting = match node.voting {
            Voting::Yes => "votes".to_owned(),
            Voting::KeptOut { at_least } => {
                format!("is quarantined for another {:.1} s", at_least.as_secs_f64())
            }
            _ => "does not vote".to_owned(),
        };
        print!("  node {} {voting}", node.name);
        if let (Some(trip), Voting::Yes) = (node.round_trip, node.voting) {
            print!("; it answers after {} µs", trip.as_micros());
        }
        match &node.last_error {
            Some(error) => println!(": {error}"),
            None => println!(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn goes_on(nodes: Nodes) {
        let pace = Pace { watch: Duration::from_millis(300), max_ttl: Duration::from_millis(800) };
        let turns = show(nodes, pace).await.unwrap_or_else(|error| panic!("{error}"));
        assert!(turns.count() > 10 && turns.are_in_order());
    }

    #[tokio::test]
    async fn the_show_goes_on_over_real_servers() {
        goes_on(Nodes::of_redis(lock_tests::redis_server())).await;
    }

    #[tokio::test]
    async fn the_show_goes_on_without_a_server() {
        goes_on(Nodes::of_memory()).await;
    }
}
