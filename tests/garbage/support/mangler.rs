//! A proxy that harms the replies of the server.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use lock_tests::{Random, eventually_async};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use super::{Frames, Harm, SOON, times};

/// What the proxy does from now on.
#[derive(Clone, Debug)]
struct Plan {
    /// The ways of harm.
    harms: Vec<Harm>,
    /// How many replies and pushes of a thousand are harmed.
    often: usize,
}

impl Plan {
    fn none() -> Self {
        Self { harms: Vec::new(), often: 0 }
    }
}

/// A proxy that harms the replies of the server, on a thread of its own. Every connection has a sequence
/// of its own, which decides how each of its replies is harmed.
#[derive(Debug)]
pub(crate) struct Mangler {
    addr: SocketAddr,
    shared: Arc<Shared>,
    /// Ends the thread when it is dropped.
    _alive: mpsc::Sender<()>,
}

#[derive(Debug)]
struct Shared {
    plan: Mutex<Plan>,
    done: Mutex<BTreeMap<Harm, usize>>,
}

impl Mangler {
    /// A proxy before this server. Nothing is harmed at first.
    pub(crate) fn start(target: SocketAddr, random: Random) -> Self {
        let shared = Arc::new(Shared { plan: Mutex::new(Plan::none()), done: Mutex::default() });
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let addr = listener.local_addr().unwrap();
        let (alive, mut over) = mpsc::channel::<()>(1);
        let inner = Arc::clone(&shared);
        std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let listener = TcpListener::from_std(listener).unwrap();
                tokio::select! {
                    () = serve(listener, target, random, inner) => {}
                    _ = over.recv() => {}
                }
            });
        });
        Self { addr, shared, _alive: alive }
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://{}", self.addr)
    }

    fn follow(&self, plan: Plan) {
        *self.shared.plan.lock().unwrap_or_else(PoisonError::into_inner) = plan;
    }

    /// Harms in these ways, one after the other, and then in all of them at once.
    pub(crate) async fn do_all(&self, harms: &[Harm]) {
        for &harm in harms {
            self.follow(Plan { harms: vec![harm], often: 15 });
            self.until(|done| done.get(&harm).copied().unwrap_or(0) >= times()).await;
        }
        let before: usize = self.done().values().sum();
        self.follow(Plan { harms: harms.to_vec(), often: 30 });
        self.until(|done| done.values().sum::<usize>() >= before + 4 * times()).await;
        self.follow(Plan::none());
    }

    /// Waits for more harm, and extends the time whenever more was done. Fails if no more harm is done.
    async fn until(&self, is_enough: impl Fn(&BTreeMap<Harm, usize>) -> bool) {
        while !is_enough(&self.done()) {
            let before: usize = self.done().values().sum();
            let goes_on = async || self.done().values().sum::<usize>() > before;
            eventually_async("more harm is done", SOON, goes_on).await;
        }
    }

    /// The harm so far, and how often each was done.
    pub(crate) fn done(&self) -> BTreeMap<Harm, usize> {
        self.shared.done.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn serve(listener: TcpListener, target: SocketAddr, mut random: Random, shared: Arc<Shared>) {
    loop {
        let Ok((client, _)) = listener.accept().await else { continue };
        tokio::spawn(pass_on(client, target, random.fork(), Arc::clone(&shared)));
    }
}

/// Both directions, until either has ended.
async fn pass_on(client: TcpStream, target: SocketAddr, random: Random, shared: Arc<Shared>) {
    let Ok(server) = TcpStream::connect(target).await else { return };
    // Either may be closed already.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (mut from_client, to_client) = client.into_split();
    let (from_server, mut to_server) = server.into_split();
    tokio::select! {
        _ = tokio::io::copy(&mut from_client, &mut to_server) => {}
        _ = answer(from_server, to_client, random, shared) => {}
    }
}

async fn answer(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut random: Random,
    shared: Arc<Shared>,
) -> std::io::Result<()> {
    let (mut frames, mut buffer) = (Frames::default(), vec![0; 64 * 1024]);
    loop {
        let count = from.read(&mut buffer).await?;
        if count == 0 {
            return Ok(());
        }
        frames.add(&buffer[..count]);
        let mut said = Vec::new();
        while let Some(frame) = frames.next() {
            match draw(&mut random, &shared) {
                None => said.extend_from_slice(&frame),
                Some(harm) => {
                    let (bytes, goes_on) = harm.harm(&frame, &mut random);
                    said.extend_from_slice(&bytes);
                    if !goes_on {
                        to.write_all(&said).await?;
                        return to.shutdown().await;
                    }
                }
            }
        }
        to.write_all(&said).await?;
    }
}

fn draw(random: &mut Random, shared: &Shared) -> Option<Harm> {
    let plan = shared.plan.lock().unwrap_or_else(PoisonError::into_inner);
    if plan.harms.is_empty() || random.below(1_000) >= plan.often {
        return None;
    }
    let harm = *random.pick(&plan.harms);
    drop(plan);
    *shared.done.lock().unwrap_or_else(PoisonError::into_inner).entry(harm).or_default() += 1;
    Some(harm)
}
