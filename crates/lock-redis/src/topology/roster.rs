//! The servers of a cluster, and which of them serves which slot.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use lock_core::{Backoff, Clock, Error, ErrorKind, Instant};
use tokio::sync::watch;
use tokio::time;

use super::map::SlotMap;
use super::node::{Common, Node, Site};
use crate::link::{Live, Origin, Settings, enquire};
use crate::slot::SLOTS;
use crate::wire::{Address, Command, Endpoint, Failure, Redirect, Reply};

const CLOCK: Clock = Clock::boot();
/// The time between two questions for the map. It grows as long as the answers bring no news: while a server is down,
/// many clients ask the others, and a client may have to open a connection for that.
const BETWEEN: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(1));
/// How many servers are asked for the map at once. The first answer counts.
const AT_ONCE: usize = 3;

/// The servers of a cluster. A server is known by its address, and connected to when it is first used.
pub(super) struct Roster {
    settings: Settings,
    common: Common,
    seeds: Vec<Arc<Endpoint>>,
    state: Mutex<State>,
    /// Held by the request that asks for the map.
    turn: tokio::sync::Mutex<()>,
    /// Counts the changes of the map.
    changes: watch::Sender<u64>,
    /// The number of the task that reads the map now and then, and when it last did.
    lookout: Mutex<(u64, Option<Instant>)>,
}

struct State {
    map: SlotMap,
    nodes: HashMap<Address, Arc<Node>>,
    /// When the servers were last asked for the map.
    asked: Option<Instant>,
    between: Backoff,
    /// Why none of them answered.
    trouble: Option<Error>,
    /// Something has happened since that the map does not show.
    is_stale: bool,
    /// A server of the map has said since that it cannot serve. Perhaps it has lost its cluster, and shows an old map.
    is_doubted: bool,
    /// A server that knows more than others.
    informed: Option<Address>,
}

impl State {
    fn is_owner(&self, site: &Site, slot: u16) -> bool {
        let node = self.map.owner(slot).and_then(|owner| self.nodes.get(owner));
        node.is_some_and(|node| site.is_at(node))
    }

    /// Whether this is the present map, which is doubted.
    fn doubts(&self, map: &SlotMap) -> bool {
        self.is_doubted && self.map.agrees(map)
    }
}

impl Roster {
    pub(super) fn new(settings: Settings, common: Common, seeds: Vec<Endpoint>) -> Self {
        let map = SlotMap::empty();
        let state = State {
            map,
            nodes: HashMap::new(),
            asked: None,
            between: BETWEEN,
            trouble: None,
            is_stale: true,
            is_doubted: false,
            informed: None,
        };
        let state = Mutex::new(state);
        let seeds = seeds.into_iter().map(Arc::new).collect();
        let (turn, changes) = (tokio::sync::Mutex::new(()), watch::Sender::new(0));
        Self { settings, common, seeds, state, turn, changes, lookout: Mutex::default() }
    }

    /// The server of a slot, as far as is known.
    pub(super) async fn site(&self, slot: u16) -> Result<Site, Failure> {
        if let Some(node) = self.at_hand(slot) {
            return Ok(Site::new(node));
        }
        if self.is_due(slot) {
            // An old map is better than none.
            let _ = Box::pin(self.refresh()).await;
        }
        let owner = {
            let state = self.lock();
            match (state.map.owner(slot), &state.trouble) {
                (Some(owner), _) => owner.clone(),
                (None, Some(error)) => return Err(Failure::Unsent(error.clone())),
                (None, None) => return Err(Failure::Later(unserved(slot))),
            }
        };
        Ok(Site::new(self.node(&owner)?))
    }

    /// The server of a slot, if the map shows it and was not contradicted.
    fn at_hand(&self, slot: u16) -> Option<Arc<Node>> {
        let state = self.lock();
        let owner = state.map.owner(slot).filter(|_| !state.is_stale)?;
        state.nodes.get(owner).cloned()
    }

    /// The server to which a request is redirected.
    pub(super) fn follow(&self, failure: &Failure) -> Option<Site> {
        match failure {
            Failure::Moved(Redirect { address: Some(address), .. }, _) => {
                self.node(address).ok().map(Site::new)
            }
            Failure::Asks(Redirect { address: Some(address), .. }, _) => {
                self.node(address).ok().map(Site::asking)
            }
            _ => None,
        }
    }

    /// Notes what a failure says about the map.
    pub(super) fn learn(&self, failure: &Failure) {
        let mut state = self.lock();
        match failure {
            Failure::Moved(redirect, _) => {
                let is_news = state.map.learn(redirect);
                state.is_stale |= is_news || redirect.address.is_none();
                if is_news {
                    state.informed.clone_from(&redirect.address);
                    drop(state);
                    self.changes.send_modify(|changes| *changes += 1);
                }
            }
            Failure::Later(_) => (state.is_stale, state.is_doubted) = (true, true),
            Failure::Unsent(_) | Failure::Demoted(_) => state.is_stale = true,
            Failure::Error(error) => {
                let kind = error.kind();
                state.is_stale |= matches!(kind, ErrorKind::Unreachable | ErrorKind::Timeout);
            }
            _ => {}
        }
    }

    /// The primary of a slot.
    pub(super) fn owner(&self, slot: u16) -> Option<Address> {
        self.lock().map.owner(slot).cloned()
    }

    /// Whether this site is the primary of a slot.
    pub(super) fn is_owner(&self, site: &Site, slot: u16) -> bool {
        self.lock().is_owner(site, slot)
    }

    /// The first slot of which this site is the primary.
    pub(super) fn first_slot(&self, site: &Site) -> Option<u16> {
        let state = self.lock();
        (0..SLOTS).find(|slot| state.is_owner(site, *slot))
    }

    /// Whether the client could not connect, within this time, to a server that serves a slot by the map. Another one may
    /// have taken over.
    pub(super) fn lacks_a_server(&self, within: Duration) -> bool {
        let state = self.lock();
        let is_away = |node: &Arc<Node>| Site::new(Arc::clone(node)).link().is_away(within);
        let away = state.nodes.iter().filter(|(_, node)| is_away(node));
        let mut away = away.map(|(address, _)| address).peekable();
        away.peek().is_some() && {
            let primaries = state.map.primaries();
            away.any(|address| primaries.contains(&address))
        }
    }

    /// Follows the changes of the map.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// The number of a task that is to read the map now and then; `None` if another one did within this time. The
    /// runtime of a task may have gone, or no thread may drive it.
    pub(super) fn begin_looking(&self, within: Duration) -> Option<u64> {
        let mut lookout = self.lookout.lock().unwrap_or_else(PoisonError::into_inner);
        let now = CLOCK.now();
        if lookout.1.is_some_and(|last| now.saturating_duration_since(last) < within) {
            return None;
        }
        *lookout = (lookout.0 + 1, Some(now));
        Some(lookout.0)
    }

    /// Whether the task of this number is still needed.
    pub(super) fn goes_on_looking(&self, number: u64) -> bool {
        let mut lookout = self.lookout.lock().unwrap_or_else(PoisonError::into_inner);
        let goes_on = lookout.0 == number && self.changes.receiver_count() > 0;
        if lookout.0 == number {
            lookout.1 = goes_on.then(|| CLOCK.now());
        }
        goes_on
    }

    /// All primaries, and how many slots they serve.
    pub(super) fn all(&self) -> Result<(Vec<Site>, usize), Error> {
        let (primaries, covered) = {
            let state = self.lock();
            let primaries = state.map.primaries().into_iter().cloned().collect::<Vec<_>>();
            (primaries, state.map.covered())
        };
        let sites = primaries.iter().map(|address| self.node(address).map(Site::new));
        Ok((sites.collect::<Result<_, _>>()?, covered))
    }

    /// Reads the map from a server that answers.
    ///
    /// # Errors
    ///
    /// The error of one of the servers, if none answers.
    pub(super) async fn refresh(&self) -> Result<(), Error> {
        let begun = CLOCK.now();
        // The holder of the turn may be on a runtime that no thread drives.
        let limit = self.settings.connect_timeout;
        let _turn = time::timeout(limit, self.turn.lock()).await.ok();
        {
            let state = self.lock();
            if state.asked.is_some_and(|asked| asked > begun) {
                return state.trouble.clone().map_or(Ok(()), Err);
            }
        }
        let outcome = self.ask_all().await.map(|map| self.install(map));
        let mut state = self.lock();
        match outcome {
            Ok(is_news) if is_news => state.between.reset(),
            _ => drop(state.between.fail()),
        }
        (state.asked, state.trouble) = (Some(CLOCK.now()), outcome.clone().err());
        outcome.map(drop)
    }

    /// Asks a few servers at once, until one answers. If the map is doubted, two servers have to confirm it, or all that
    /// answer. If none answers, returns the first error that lasts.
    async fn ask_all(&self) -> Result<SlotMap, Error> {
        let (connected, others): (Vec<_>, Vec<_>) =
            self.candidates().into_iter().partition(|it| self.live(it).is_some());
        let (mut confirmed, mut trouble) = (None, None::<Error>);
        // No connection is opened while a server with one answers.
        for some in connected.chunks(AT_ONCE).chain(others.chunks(AT_ONCE)) {
            let mut asked: FuturesUnordered<_> =
                some.iter().map(|endpoint| self.ask(endpoint)).collect();
            while let Some(answer) = asked.next().await {
                match answer {
                    Ok(map) if confirmed.is_none() && self.lock().doubts(&map) => {
                        confirmed = Some(map);
                    }
                    Ok(map) => return Ok(map),
                    Err(error) if trouble.as_ref().is_none_or(Error::is_retryable) => {
                        trouble = Some(error);
                    }
                    Err(_) => {}
                }
            }
        }
        let nothing = || Error::new(ErrorKind::Unreachable, "the cluster has no servers");
        confirmed.ok_or_else(|| trouble.unwrap_or_else(nothing))
    }

    /// The servers that may know the map: first the one that knows most, then the others in any order.
    fn candidates(&self) -> Vec<Arc<Endpoint>> {
        let random = getrandom::u32().unwrap_or(0) as usize;
        let template = &self.seeds[0];
        let (mut addresses, informed) = {
            let mut state = self.lock();
            (state.map.servers().cloned().collect::<Vec<_>>(), state.informed.take())
        };
        if !addresses.is_empty() {
            let middle = random % addresses.len();
            addresses.rotate_left(middle);
        }
        let seeds = self.seeds.iter().map(|seed| seed.address.clone());
        let mut candidates: Vec<Arc<Endpoint>> = Vec::new();
        for address in informed.into_iter().chain(addresses).chain(seeds) {
            if candidates.iter().all(|known| known.address != address) {
                candidates.push(Arc::new(template.at(address)));
            }
        }
        candidates
    }

    /// The open connection to a server.
    fn live(&self, endpoint: &Endpoint) -> Option<Arc<Live>> {
        let node = self.lock().nodes.get(&endpoint.address).cloned();
        node.and_then(|node| Site::new(node).link().live())
    }

    /// Asks a server for the map: on its connection, if there is one.
    async fn ask(&self, endpoint: &Arc<Endpoint>) -> Result<SlotMap, Error> {
        let question = Command::words(&["CLUSTER", "SLOTS"]);
        let reply: Reply = match self.live(endpoint) {
            Some(live) => live.call(&question).await.map_err(Failure::into_error)?,
            None => enquire(&self.settings, endpoint, &question).await?,
        };
        SlotMap::read(&reply, &endpoint.address).ok_or_else(|| {
            let message =
                format!("{} serves no slot, and knows no server that does", endpoint.address);
            Error::new(ErrorKind::NotReady, message)
        })
    }

    /// Returns whether the map is news.
    fn install(&self, map: SlotMap) -> bool {
        let is_news = {
            let mut state = self.lock();
            let is_news = !state.map.agrees(&map);
            if is_news {
                tracing::debug!(?map, "the slots of the cluster");
            }
            let primaries: Vec<_> = map.primaries().into_iter().cloned().collect();
            // The connections of a server that serves no slot any more end with the last request on them.
            state.nodes.retain(|address, _| primaries.contains(address));
            (state.map, state.is_stale, state.is_doubted) = (map, false, false);
            is_news
        };
        if is_news {
            self.changes.send_modify(|changes| *changes += 1);
        }
        is_news
    }

    fn node(&self, address: &Address) -> Result<Arc<Node>, Error> {
        let mut state = self.lock();
        if let Some(node) = state.nodes.get(address) {
            return Ok(Arc::clone(node));
        }
        let endpoint = Arc::new(self.seeds[0].at(address.clone()));
        let settings = self.settings.at(Origin::Server(endpoint));
        let node = Arc::new(Node::new(settings, &self.common, true)?);
        state.nodes.insert(address.clone(), Arc::clone(&node));
        Ok(node)
    }

    fn is_due(&self, slot: u16) -> bool {
        let state = self.lock();
        let age = state.asked.map(|asked| CLOCK.now().saturating_duration_since(asked));
        age.is_none_or(|age| age >= state.between.pause())
            && (state.is_stale || state.map.owner(slot).is_none())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Roster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Roster({:?})", self.lock().map)
    }
}

fn unserved(slot: u16) -> Error {
    Error::new(ErrorKind::NotReady, format!("no server of the cluster serves the slot {slot}"))
}
