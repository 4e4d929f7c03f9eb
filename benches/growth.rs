//! The cost of a hand-over while many claims wait in the store's queue.
//!
//! This bench uses the backend itself: a few clients with many claims each. Every claim has a place of its own in the
//! queue, as if each came from another process.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lock_benches::contestants::Plain;
use lock_benches::measure::pings;
use lock_benches::plot::Lines;
use lock_benches::{
    Effort, Failure, Rounds, Series, ServerLoad, Setting, Stage, Table, median, quantiles, short,
};
use lock_core::memory::MemoryBackend;
use lock_core::{Acquire, AcquireOutcome, Backend, Claim, Hint, Key, OwnerToken, Ttl, Watch};
use lock_redis::RedisBackend;
use lock_tests::RedisServer;

/// The number of connections over which the claims are spread.
const CLIENTS: usize = 4;

/// The queue counts as stuck after this time without a grant.
const PATIENCE: Duration = Duration::from_secs(10);

fn main() -> Result<(), Failure> {
    let Some(effort) = Effort::from_args() else { return Ok(()) };
    let server = Arc::new(RedisServer::start());
    let stage = Stage::new(Setting::CurrentThread)?;
    let url = server.url();
    let plain = Arc::new(stage.run(async move { Plain::connect(&url).await })?);
    let sizes: Vec<usize> = [2, 8, 32, 128, 512].into_iter().take(effort.sizes).collect();

    let mut rounds = Rounds::new();
    rounds.add("PING", || {
        let pings = stage.run(pings(Arc::clone(&plain), effort.window / 4, None))?;
        Ok(Sample { time: quantiles(&pings)[0].as_secs_f64(), ..Sample::default() })
    });
    for &size in &sizes {
        let (server, stage) = (&server, &stage);
        rounds.add(format!("Redis, {size}"), move || {
            let (server, window) = (Arc::clone(server), effort.window);
            stage.run(async move { redis(server, size, window).await })
        });
        rounds.add(format!("memory, {size}"), move || {
            let window = effort.window;
            stage.run(async move { memory(size, window).await })
        });
    }
    let all = rounds.run(effort.rounds.min(5));
    table(&all, &sizes).publish("growth")?;
    Ok(())
}

/// The cost of a hand-over, in seconds.
#[derive(Clone, Copy, Default)]
struct Sample {
    time: f64,
    server_cpu: f64,
    server_scripts: f64,
    commands: f64,
}

async fn redis(server: Arc<RedisServer>, size: usize, window: Duration) -> Result<Sample, Failure> {
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(RedisBackend::open(server.url())?);
    }
    let mut line = Line::form(clients, size).await?;
    line.move_on(window / 4).await?;
    let (load, stats) = (ServerLoad::of(&server), server.commandstats());
    let (count, elapsed) = line.move_on(window).await?;
    let load = ServerLoad::of(&server).since(load);
    let scripts = server.commandstats().since(&stats).calls("evalsha");
    line.dissolve().await?;
    let each = |time: Duration| time.as_secs_f64() / count as f64;
    Ok(Sample {
        time: each(elapsed),
        server_cpu: each(load.cpu),
        server_scripts: each(load.scripts),
        commands: scripts as f64 / count as f64,
    })
}

async fn memory(size: usize, window: Duration) -> Result<Sample, Failure> {
    let store = MemoryBackend::new();
    let mut line = Line::form((0..CLIENTS).map(|_| store.client()).collect(), size).await?;
    line.move_on(window / 4).await?;
    let (count, elapsed) = line.move_on(window).await?;
    line.dissolve().await?;
    Ok(Sample { time: elapsed.as_secs_f64() / count as f64, ..Sample::default() })
}

/// The claim of the holder, and the claims that wait behind it, in order.
struct Line<B> {
    clients: Vec<B>,
    watches: Vec<Watch>,
    /// Each claim with the index of its client. The first claim holds the key.
    claims: VecDeque<(usize, Claim)>,
}

impl<B: Backend> Line<B> {
    /// Forms a line of a holder and `size` claims that wait.
    async fn form(clients: Vec<B>, size: usize) -> Result<Self, Failure> {
        static TIMES: AtomicU64 = AtomicU64::new(0);
        let key = Key::new(format!("growth:{}", TIMES.fetch_add(1, Ordering::Relaxed)))?;
        let mut watches = Vec::new();
        for client in &clients {
            watches.push(client.watch(&key).await?);
        }
        let mut line = Self { clients, watches, claims: VecDeque::new() };
        for number in 0..=size {
            let claim = Claim::exclusive(key.clone(), OwnerToken::generate()?);
            line.join(number % line.clients.len(), claim).await?;
        }
        Ok(line)
    }

    async fn join(&mut self, client: usize, claim: Claim) -> Result<(), Failure> {
        let request = Acquire::new(claim.clone(), Ttl::DEFAULT).queued();
        let granted = match self.clients[client].try_acquire(&request).await? {
            AcquireOutcome::Granted(_) => true,
            AcquireOutcome::Queued { .. } => false,
            other => return Err(format!("not queued, but {other:?}").into()),
        };
        if granted != self.claims.is_empty() {
            return Err("the key went to a newcomer".into());
        }
        self.claims.push_back((client, claim));
        Ok(())
    }

    /// Hands the key over for a while. Each time the holder releases it, the first claim in the queue hears of its
    /// grant, and the former holder joins the end. Returns the number of hand-overs and the time that they took.
    async fn move_on(&mut self, time: Duration) -> Result<(u64, Duration), Failure> {
        let (start, mut count) = (Instant::now(), 0);
        while start.elapsed() < time {
            let Some((client, holder)) = self.claims.pop_front() else { break };
            let _ = self.clients[client].release(&holder).await?;
            let Some((next, claim)) = self.claims.front() else { break };
            heard(&mut self.watches[*next], claim).await?;
            count += 1;
            let claim = Claim::exclusive(holder.key, OwnerToken::generate()?);
            self.join(client, claim).await?;
        }
        Ok((count, start.elapsed()))
    }

    async fn dissolve(self) -> Result<(), Failure> {
        // From the end, so that no claim gets the key meanwhile.
        for (client, claim) in self.claims.iter().rev() {
            let _ = self.clients[*client].release(claim).await?;
        }
        Ok(())
    }
}

/// Waits until this claim was granted.
async fn heard(watch: &mut Watch, claim: &Claim) -> Result<(), Failure> {
    let granted = async {
        while let Some(hint) = watch.next().await {
            if matches!(hint, Hint::Granted { owner, .. } if owner == claim.owner) {
                return true;
            }
        }
        false
    };
    match tokio::time::timeout(PATIENCE, granted).await {
        Ok(true) => Ok(()),
        Ok(false) => Err("the watch has ended".into()),
        Err(_) => Err("the first in line was not told".into()),
    }
}

const COLUMNS: [&str; 7] = [
    "waiting",
    "hand-over and joining again, µs",
    "× PING",
    "server CPU, µs",
    "of it scripts, µs",
    "commands",
    "in memory, µs",
];

fn micros(series: &Series<Sample>, figure: fn(&Sample) -> f64) -> f64 {
    median(&series.figures(figure)) * 1e6
}

fn table(all: &[Series<Sample>], sizes: &[usize]) -> Table {
    let ping = median(&all[0].figures(|sample| sample.time));
    let mut table = Table::new("What a hand-over costs, by the number of waiters", &COLUMNS);
    let mut lines = Lines::new("Microseconds for each hand-over", "waiting");
    for (series, &size) in all[1..].chunks(2).zip(sizes) {
        let [redis, memory] = series else { continue };
        for series in [redis, memory] {
            if let Some(failure) = &series.failure {
                table.remark(format!("{}: failed: {failure}", series.name));
            }
        }
        let time = micros(redis, |it| it.time);
        let cpu = micros(redis, |it| it.server_cpu);
        let scripts = micros(redis, |it| it.server_scripts);
        let local = micros(memory, |it| it.time);
        for (name, value) in [
            ("time", time),
            ("server CPU", cpu),
            ("server, in scripts", scripts),
            ("time, store in memory", local),
        ] {
            lines.point(name, size as f64, value);
        }
        table.row([
            size.to_string(),
            short(time),
            short(time / ping / 1e6),
            short(cpu),
            short(scripts),
            short(median(&redis.figures(|it| it.commands))),
            short(local),
        ]);
    }
    table.remark(format!(
        "{CLIENTS} clients on one thread, with as many connections. One pass: the holder releases, the \
         first in line hears of its grant, and the former holder joins the end; one after another, \
         so two round trips and a push. A PING of the bare client took {:.1} µs.",
        ping * 1e6
    ));
    table.plot(lines);
    table
}
