//! Any order of requests, while a server goes from term to term and takes leases for over that are not.

use std::time::Duration;

use lock_core::{
    Acquire, AcquireOutcome, Backend, Claim, Clock, Convert, ConvertBackend, Instant, Mode,
    OwnerToken, Renew, Renewal, Ttl, Watch,
};
use lock_redis::RedisBackend;
use lock_tests::{Random, RedisServer};

use crate::support::claim;

const HISTORIES: u64 = 8;
const STEPS: usize = 600;
const OF: u32 = 3;
const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// A lease that its holder believes in.
struct Held {
    claim: Claim,
    until: Instant,
}

struct Scene {
    server: RedisServer,
    /// The first one watches no lock, and uses other scripts.
    clients: [RedisBackend; 2],
    _watches: Vec<Watch>,
    random: Random,
    held: Vec<Held>,
    waiting: Vec<Acquire>,
    grants: usize,
    /// How often a lease was granted beside another that goes not with it.
    violations: usize,
}

impl Scene {
    async fn new(seed: u64, quarantine: bool) -> Self {
        let server = RedisServer::start();
        let builder = RedisBackend::builder(server.url()).term_quarantine(quarantine);
        let clients = [(); 2].map(|()| builder.clone().build().unwrap());
        let mut watches = Vec::new();
        for name in NAMES {
            watches.push(clients[1].watch(&claim(name).key).await.unwrap());
        }
        Self {
            server,
            clients,
            _watches: watches,
            random: Random::from_seed(seed),
            held: Vec::new(),
            waiting: Vec::new(),
            grants: 0,
            violations: 0,
        }
    }

    fn client(&mut self) -> RedisBackend {
        let at = self.random.below(2);
        self.clients[at].clone()
    }

    fn ttl(&mut self) -> Ttl {
        let [least, limit] = [40, 160].map(Duration::from_millis);
        Ttl::new(self.random.between(least, limit)).unwrap()
    }

    /// A mode of the kind of lock that has this name.
    fn mode(&mut self, name: &str) -> Mode {
        let group = OwnerToken::from_bytes([self.random.below(2) as u8; 16]);
        let take = self.random.below(2) as u32 + 1;
        match (name, self.random.below(3)) {
            ("d", _) => Mode::Permits { take, of: OF },
            (_, 0) => Mode::Exclusive,
            ("c", _) => Mode::Joint { group },
            (_, 1) => Mode::Shared,
            _ => Mode::Upgradable,
        }
    }

    /// Notes a lease, and looks whether others forbid it.
    fn note(&mut self, claim: Claim, until: Instant) {
        let now = Clock::boot().now();
        self.held.retain(|held| held.until > now && held.claim.owner != claim.owner);
        if until <= now {
            return;
        }
        self.grants += 1;
        let others = self.held.iter().filter(|held| held.claim.key == claim.key);
        let fits = claim.mode.fits_beside(others.map(|held| held.claim.mode), OF);
        self.violations += usize::from(!fits);
        self.held.push(Held { claim, until });
    }

    fn forget(&mut self, claim: &Claim) {
        self.held.retain(|held| held.claim.owner != claim.owner);
    }

    /// One of the holders.
    fn holder(&mut self) -> Option<Claim> {
        let count = self.held.len();
        (count > 0).then(|| self.held[self.random.below(count)].claim.clone())
    }

    async fn step(&mut self) {
        match (self.random.below(40), self.holder()) {
            (0, _) => self.begin_another_term(),
            (1..=8, Some(held)) => self.renew(held).await,
            (9..=14, Some(held)) => {
                self.client().release(&held).await.unwrap();
                self.forget(&held);
            }
            (15..=17, Some(held)) => self.convert(held).await,
            (18, _) => {
                let pair = [0, 1].map(|at| Acquire::new(claim(NAMES[at]), self.ttl()));
                for (request, attempt) in
                    pair.iter().zip(self.clients[0].try_acquire_all(&pair).await.unwrap().unwrap())
                {
                    if let AcquireOutcome::Granted(grant) = attempt {
                        self.note(request.claim.clone(), grant.valid_until);
                    }
                }
            }
            (19..=24, _) if !self.waiting.is_empty() => {
                let at = self.random.below(self.waiting.len());
                let request = self.waiting.swap_remove(at);
                self.ask(self.clients[1].clone(), request).await;
            }
            _ => {
                let name = *self.random.pick(&NAMES);
                let mut request = Acquire::new(claim(name).in_mode(self.mode(name)), self.ttl());
                request.queue = self.random.percent(30);
                let at = usize::from(request.queue) | self.random.below(2);
                self.ask(self.clients[at].clone(), request).await;
            }
        }
        if self.random.percent(40) {
            let pause = self.random.between(Duration::ZERO, Duration::from_millis(20));
            tokio::time::sleep(pause).await;
        }
    }

    async fn ask(&mut self, client: RedisBackend, request: Acquire) {
        match client.try_acquire(&request).await.unwrap() {
            AcquireOutcome::Granted(grant) => self.note(request.claim, grant.valid_until),
            AcquireOutcome::Queued { .. } => self.waiting.push(request),
            _ => {}
        }
    }

    async fn renew(&mut self, held: Claim) {
        let request = Renew::new(held.clone(), self.ttl());
        match self.client().renew(&request).await {
            // A lease is no shorter than its holder believes.
            Renewal::Renewed { valid_until, .. } => {
                let known = self.held.iter_mut().find(|it| it.claim.owner == held.owner);
                known.into_iter().for_each(|it| it.until = valid_until);
            }
            Renewal::Lost => self.forget(&held),
            other => panic!("{other:?}"),
        }
    }

    async fn convert(&mut self, held: Claim) {
        let to = match held.mode {
            Mode::Shared | Mode::Upgradable if self.random.percent(50) => Mode::Exclusive,
            Mode::Upgradable => Mode::Shared,
            Mode::Exclusive if held.key != claim("c").key && held.key != claim("d").key => {
                Mode::Shared
            }
            _ => return,
        };
        let request = Convert::new(held.clone(), to, self.ttl());
        match self.client().convert(&request).await {
            Ok(AcquireOutcome::Granted(grant)) => self.note(held.in_mode(to), grant.valid_until),
            Ok(_) => {}
            Err(_) => self.forget(&held),
        }
    }

    /// The server of the new term takes some leases for over, as if its clock were ahead.
    fn begin_another_term(&mut self) {
        for command in [["REPLICAOF", "127.0.0.1", "1"], ["REPLICAOF", "NO", "ONE"]] {
            assert_eq!(self.server.cli(&command).text(), "OK");
        }
        for name in NAMES {
            let [lock, holders, grants] =
                ["", ":holders", ":grants"].map(|end| format!("lock:{{{name}}}{end}"));
            match self.random.below(3) {
                0 => drop(self.server.cli(&["DEL", &lock, &holders, &grants])),
                1 => {
                    for holder in self.server.cli(&["ZRANGE", &holders, "0", "0"]).array() {
                        self.server.cli(&["ZADD", &holders, "1", &holder.text()]);
                    }
                }
                _ => {}
            }
        }
    }
}

/// How many leases were granted, and how many of them beside others that they do not go with.
async fn run(quarantine: bool) -> [usize; 2] {
    let histories = (0..HISTORIES).map(|seed| async move {
        let mut scene = Scene::new(seed, quarantine).await;
        for _ in 0..STEPS {
            scene.step().await;
        }
        [scene.grants, scene.violations]
    });
    let counts = futures::future::join_all(histories).await;
    [0, 1].map(|at| counts.iter().map(|count| count[at]).sum())
}

#[tokio::test]
async fn no_two_leases_meet_that_do_not_go_together() {
    let [grants, violations] = run(true).await;
    assert!(grants > 100, "{grants}");
    assert_eq!(violations, 0, "of {grants}");
}

#[tokio::test]
async fn without_the_quarantine_they_meet() {
    let [grants, violations] = run(false).await;
    assert!(violations > 0, "the test proves nothing: {grants} grants");
}
