//! The plan of one story, drawn from a seed.

use std::time::Duration;

use lock_core::Ttl;

use crate::rng::Rng;

/// The longest time for which a message is under way, once nothing stands still.
pub(crate) const SLOWEST: Duration = Duration::from_millis(1500);

/// How many lines a client has to a node.
pub(crate) const LINES: usize = 2;

/// More than the answers that a node may owe.
const MANY: usize = 300;

/// How long faults are there, from the beginning.
const TROUBLE: u64 = 4000;

/// Which faults there may be.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    /// Messages are lost, late, or arrive twice.
    pub(crate) messages: bool,
    /// Some clients do not reach some nodes, or are not answered.
    pub(crate) cuts: bool,
    /// Nodes stand still, and then do all waiting requests at once.
    pub(crate) stalls: bool,
    /// Nodes restart with what they had.
    pub(crate) restarts: bool,
    /// Nodes forget everything, alone or together, again and again.
    pub(crate) forgetting: bool,
    /// Clients crash, or forget to release.
    pub(crate) crashes: bool,
    /// Clocks of clients are minutes apart, not fractions of a second.
    pub(crate) wild_clocks: bool,
    /// Nodes vote whatever they have forgotten.
    pub(crate) unguarded: bool,
    /// Renewals ask for tokens. Nodes number these by the time itself, and so do clients then.
    pub(crate) tokens: bool,
    /// Some leases are upgradable.
    pub(crate) upgradable: bool,
    /// Releases arrive once more, after later requests.
    pub(crate) echoes: bool,
    /// Clocks of nodes run faster or slower than those of clients, within the drift. They end leases and quarantines.
    pub(crate) rates: bool,
    /// No client stays: each asks once, or holds one lease, and goes.
    pub(crate) passing: bool,
    /// A node is replaced. Some clients have the former nodes, and the others the new ones.
    pub(crate) replacing: bool,
    /// Holders store and erase values beside their locks, and clients load the values.
    pub(crate) values: bool,
    /// There are hundreds of keys, and each client holds leases on many of them at once.
    pub(crate) many: bool,
    /// Leases outlive the story by far, and each client that may have one releases it.
    pub(crate) lasting: bool,
}

/// A client or a node that does what it must not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Flaw {
    #[default]
    None,
    /// Nodes confirm every token, and do not raise their counters.
    ConfirmsAnything,
    /// Nodes vote although they are quarantined.
    VotesKeptOut,
    /// Nodes are vouched for as soon as they are seen to be quarantined.
    VouchesAtOnce,
    /// Clients are content with half of the nodes.
    HalfIsEnough,
    /// Clients believe in a lease for its whole time from when the answer came.
    IgnoresValidity,
    /// Nodes let their leases end in half of the time.
    FastClocks,
    /// Nodes answer releases, and do nothing.
    ReleasesNothing,
    /// Clients use one owner token for all ballots of a claim.
    ReusesBallots,
    /// Nodes count every key's tokens anew after each holder.
    CountsAnew,
    /// The clocks of nodes are set forward while the nodes are quarantined.
    SetsClocks,
    /// The clocks of nodes end each quarantine after three quarters of the longest lease.
    EndsEarly,
    /// Nodes do not record of which quorum they are members.
    IgnoresMembers,
    /// Nodes say that they have stored a value, and do not store it.
    KeepsNoValues,
    /// Clients take every value that they find for settled.
    TrustsAnyValue,
    /// Nodes say that they have stored a value, and store it later, for a claim whose lease may be over.
    WritesLate,
}

/// Everything that is fixed before a story begins.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) faults: Faults,
    pub(crate) flaw: Flaw,
    pub(crate) nodes: usize,
    /// How much faster than those of clients the clock of each node runs, in a thousand.
    pub(crate) rates: Vec<i64>,
    /// The nodes that each client uses.
    pub(crate) members: Vec<Vec<usize>>,
    pub(crate) keys: usize,
    /// How many tasks of each client ask for leases.
    pub(crate) tasks: usize,
    pub(crate) max_ttl: Ttl,
    /// How long clients want their leases to live.
    pub(crate) ttls: &'static [u64],
    pub(crate) node_timeout: Option<Duration>,
    /// How far each client's wall clock is ahead.
    pub(crate) skews: Vec<Duration>,
    /// How many milliseconds a message without a fault takes at most.
    pub(crate) pace: u64,
    /// In a hundred: messages that are lost, late, twice there.
    pub(crate) lost: u64,
    pub(crate) late: u64,
    pub(crate) twice: u64,
    pub(crate) cuts: Vec<Cut>,
    pub(crate) stalls: Vec<Stall>,
    pub(crate) restarts: Vec<Restart>,
}

/// From when until when, counted from the beginning.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) from: Duration,
    pub(crate) to: Duration,
}

/// Some ways are cut.
#[derive(Debug)]
pub(crate) struct Cut {
    pub(crate) span: Span,
    /// Client and node, and whether it is the way there or back.
    pub(crate) ways: Vec<(usize, usize, Way)>,
    /// Whether clients notice, and get an error at once.
    pub(crate) noticed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    There,
    Back,
}

#[derive(Debug)]
pub(crate) struct Stall {
    pub(crate) span: Span,
    pub(crate) node: usize,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Restart {
    pub(crate) at: Duration,
    pub(crate) node: usize,
    pub(crate) kind: Loss,
}

/// What a node keeps when it restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// Everything.
    Nothing,
    /// Nothing.
    Everything,
    /// Nothing, and it is not even a restart.
    Flush,
}

/// The nodes that a client asks.
fn members(faults: Faults, flaw: Flaw, client: usize, nodes: usize) -> Vec<usize> {
    match flaw {
        Flaw::HalfIsEnough => vec![client % nodes, (client + 1) % nodes],
        _ if faults.replacing && client.is_multiple_of(2) => (0..nodes - 1).collect(),
        _ if faults.replacing => (1..nodes).collect(),
        _ => (0..nodes).collect(),
    }
}

impl Plan {
    pub(crate) fn new(faults: Faults, flaw: Flaw, rng: &mut Rng) -> Self {
        let nodes = match flaw {
            Flaw::HalfIsEnough => 4,
            _ => rng.pick(&[3, 3, 3, 5]),
        };
        // The last node takes the place of the first.
        let nodes = nodes + usize::from(faults.replacing);
        let clients = rng.pick(&[2, 3, 3, 4]);
        let skew = match (faults.wild_clocks, rng.below(3)) {
            (true, _) => 1_800_000,
            (false, 0) => 0,
            // Less than a quarantine lasts by what a ballot may be under way.
            (false, _) => 400,
        };
        let mut plan = Self {
            faults,
            flaw,
            members: (0..clients).map(|client| members(faults, flaw, client, nodes)).collect(),
            keys: if faults.many { MANY } else { rng.pick(&[1, 1, 2]) },
            tasks: if faults.many { MANY } else { 1 },
            max_ttl: Ttl::new(Duration::from_secs(if faults.lasting { 60 } else { 1 })).unwrap(),
            ttls: if faults.lasting { &[60_000] } else { &[200, 400, 1000] },
            node_timeout: rng.pick(&[None, None, Some(30), Some(600)]).map(Duration::from_millis),
            skews: (0..clients).map(|_| rng.millis(0, skew)).collect(),
            ..Self::calm(nodes, clients)
        };
        if faults.forgetting && !faults.wild_clocks {
            // The longer a ballot may be under way, the less clocks may be apart.
            plan.node_timeout = plan.node_timeout.filter(|timeout| timeout.as_millis() < 100);
        }
        plan.draw_faults(clients, nodes, rng);
        plan
    }

    /// What happens to messages, links and nodes.
    fn draw_faults(&mut self, clients: usize, nodes: usize, rng: &mut Rng) {
        let faults = self.faults;
        if faults.messages {
            self.lost = rng.pick(&[0, 2, 10]);
            self.late = rng.pick(&[0, 5, 15, 40]);
            self.twice = rng.pick(&[0, 5, 20]);
        }
        if faults.lasting {
            // A vote that arrives again after it was refused lasts as long as its lease, too.
            self.twice = 0;
        }
        if faults.cuts {
            self.cuts = (0..rng.below(4)).map(|_| Cut::new(clients, nodes, rng)).collect();
        }
        if faults.stalls {
            let stalls = 0..rng.below(4);
            self.stalls =
                stalls.map(|_| Stall { span: span(rng), node: rng.index(nodes) }).collect();
        }
        if faults.rates {
            self.rates = (0..nodes).map(|_| rng.pick(&[-9, 0, 9])).collect();
        }
        if faults.restarts || faults.forgetting {
            self.restarts = self.draw_restarts(rng);
        }
    }

    /// No faults, and leases that do not end by themselves.
    pub(crate) fn calm(nodes: usize, clients: usize) -> Self {
        Self {
            faults: Faults::default(),
            flaw: Flaw::None,
            nodes,
            rates: vec![0; nodes],
            members: (0..clients).map(|_| (0..nodes).collect()).collect(),
            keys: 1,
            tasks: 1,
            max_ttl: Ttl::MAX,
            ttls: &[],
            node_timeout: None,
            skews: vec![Duration::ZERO; clients],
            pace: 2,
            lost: 0,
            late: 0,
            twice: 0,
            cuts: Vec::new(),
            stalls: Vec::new(),
            restarts: Vec::new(),
        }
    }

    pub(crate) fn clients(&self) -> usize {
        self.members.len()
    }

    /// The nodes of clients that come after the story.
    pub(crate) fn latest(&self) -> Vec<usize> {
        (usize::from(self.faults.replacing)..self.nodes).collect()
    }

    /// The nodes of the clients that come first.
    pub(crate) fn earliest(&self) -> Vec<usize> {
        (0..self.nodes - usize::from(self.faults.replacing)).collect()
    }

    /// Whether the way is cut at this time, and whether that is noticed.
    pub(crate) fn cut(&self, client: usize, node: usize, way: Way, at: Duration) -> Option<bool> {
        let is_cut = |cut: &&Cut| cut.span.has(at) && cut.ways.contains(&(client, node, way));
        self.cuts.iter().find(is_cut).map(|cut| cut.noticed)
    }

    /// When a node that is reached at this time comes round to it.
    pub(crate) fn awake(&self, node: usize, mut at: Duration) -> Duration {
        let stalls = || self.stalls.iter().filter(|stall| stall.node == node);
        while let Some(stall) = stalls().find(|stall| stall.span.has(at)) {
            at = stall.span.to;
        }
        at
    }

    /// How long a node that may have forgotten leases is quarantined.
    pub(crate) fn quarantine(&self) -> Duration {
        self.max_ttl.duration() + self.max_ttl.drift()
    }

    fn draw_restarts(&self, rng: &mut Rng) -> Vec<Restart> {
        let kinds: &[_] = if self.faults.forgetting {
            &[Loss::Everything, Loss::Everything, Loss::Flush, Loss::Nothing]
        } else {
            &[Loss::Nothing]
        };
        let mut restarts = Vec::new();
        for _ in 0..=rng.below(4) {
            let (at, kind) = (rng.millis(1, TROUBLE), rng.pick(kinds));
            // Sometimes all at the same moment.
            let all = rng.chance(15);
            let nodes = if all { 0..self.nodes } else { rng.index(self.nodes)..self.nodes };
            let nodes = nodes.take(if all { self.nodes } else { 1 });
            restarts.extend(nodes.map(|node| Restart { at, node, kind }));
        }
        restarts.sort_by_key(|restart| restart.at);
        restarts
    }
}

impl Cut {
    /// These nodes are away for all clients and for good.
    pub(crate) fn dead(clients: usize, nodes: &[usize], noticed: bool) -> Self {
        let of = |&node: &usize| (0..clients).map(move |client| (client, node, Way::There));
        let span = Span { from: Duration::ZERO, to: Duration::MAX };
        Self { span, ways: nodes.iter().flat_map(of).collect(), noticed }
    }

    fn new(clients: usize, nodes: usize, rng: &mut Rng) -> Self {
        let everywhere = move || (0..clients).flat_map(move |c| (0..nodes).map(move |n| (c, n)));
        let (client, node) = (rng.index(clients), rng.index(nodes));
        let links: Vec<(usize, usize)> = match rng.below(6) {
            0 => vec![(client, node)],
            // A node from all clients.
            1 => everywhere().filter(|&(_, n)| n == node).collect(),
            // A client from all but one, or from a minority.
            2 => everywhere().filter(|&(c, n)| c == client && n != node).collect(),
            3 => everywhere().filter(|&(c, n)| c == client && n < nodes / 2).collect(),
            // Every client from another node.
            4 => everywhere().filter(|&(c, n)| (c + node) % nodes == n).collect(),
            // Clients on two sides, of which one has the majority of nodes.
            _ => everywhere().filter(|&(c, n)| (c % 2 == 0) != (n <= nodes / 2)).collect(),
        };
        let ways: &[Way] = match rng.below(3) {
            0 => &[Way::There, Way::Back],
            1 => &[Way::There],
            _ => &[Way::Back],
        };
        let ways = links.iter().flat_map(|&(c, n)| ways.iter().map(move |&way| (c, n, way)));
        Self { span: span(rng), ways: ways.collect(), noticed: rng.chance(50) }
    }
}

impl Span {
    fn has(&self, at: Duration) -> bool {
        self.from <= at && at < self.to
    }
}

fn span(rng: &mut Rng) -> Span {
    let from = rng.millis(0, TROUBLE);
    Span { from, to: from + rng.millis(20, 1500) }
}
