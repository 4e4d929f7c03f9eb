//! The execution of one step.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::takeover::Takeover;
use super::{elsewhere, millis};
use crate::DataCopy;
use crate::chaos::stage::{Link, Node, Other, Returns, Stage};
use crate::chaos::{Fault, How, Mischief, Step, Victim};

/// One step during its execution.
pub(super) struct Act<'a> {
    stage: &'a Stage,
    number: usize,
    step: &'a Step,
    begun: Instant,
    /// The data with which servers will come back, one by one.
    copies: Vec<Option<DataCopy>>,
    /// The deeds so far, for each server that can be told something only while it listens.
    done: Vec<bool>,
    /// The workers that got an order, and their generations.
    ordered: Vec<(usize, u32)>,
    takeover: Takeover<'a>,
    /// The former leader of a cluster of another kind than Redis.
    deposed: Option<&'a Other>,
    effective: bool,
}

impl<'a> Act<'a> {
    /// For how long an immediate deed is retried.
    pub(super) const PATIENCE: Duration = millis(3_000);
    /// How long a worker may take to execute an order, for which it may first have to continue.
    const OBEYS: Duration = millis(60_000);

    pub(super) fn new(stage: &'a Stage, number: usize) -> Self {
        let step = &stage.plan().steps[number];
        let done = vec![false; step.servers.len()];
        Self {
            stage,
            number,
            step,
            begun: Instant::now(),
            copies: Vec::new(),
            done,
            ordered: Vec::new(),
            takeover: Takeover::default(),
            deposed: None,
            effective: false,
        }
    }

    /// Whether anything was done.
    pub(super) fn is_effective(&self) -> bool {
        self.effective
    }

    pub(super) fn begin(&mut self) {
        match self.step.fault.victim() {
            Victim::Server if self.is_elsewhere() => self.others(elsewhere::begin),
            Victim::Server => self.begin_servers(),
            Victim::Link => {
                self.links(|link| link.begin(self.number, self.step.fault, self.step.how));
                self.effective = true;
                self.again();
            }
            Victim::Worker => self.begin_workers(),
            Victim::Memory => self.begin_memory(),
            Victim::Part if self.is_elsewhere() => {
                self.deposed = elsewhere::depose(self.stage.others(), self.step.fault);
                self.effective = self.deposed.is_some();
            }
            Victim::Part => self.effective = self.takeover.begin(self.stage, self.number),
        }
    }

    /// The time until the next deed; `None` if there is nothing to do until the end.
    pub(super) fn pause(&self) -> Option<Duration> {
        let undone = self.done.contains(&false);
        match self.step.fault {
            Fault::FlushScripts => Some(millis(20)),
            Fault::KillClients => Some(millis(150)),
            Fault::Evict => Some(millis(200)),
            Fault::ClockRate => Some(millis(50)),
            Fault::Reset => Some(millis(60)),
            Fault::CutReplies => Some(millis(120)),
            Fault::MoveSlot => Some(millis(40)),
            Fault::StoreFails if self.step.how == How::Store(Mischief::Lose) => Some(millis(150)),
            Fault::KillStale if undone => Some(self.age()),
            Fault::Flush | Fault::PauseClients | Fault::ClockJump if undone => Some(millis(20)),
            _ => None,
        }
    }

    pub(super) fn again(&mut self) {
        let step = self.step;
        if step.fault.victim() == Victim::Server && self.is_elsewhere() {
            if !self.effective || step.fault == Fault::KillClients {
                self.others(elsewhere::again);
            }
            return;
        }
        match step.fault {
            Fault::KillStale => {
                self.each(|_, node| {
                    node.kill();
                    true
                });
            }
            // Once, as soon as the server listens.
            Fault::Flush => self.each(|_, node| node.at_once(&["FLUSHALL"])),
            Fault::PauseClients => {
                let left = (self.begun + step.lasts).saturating_duration_since(Instant::now());
                let all = step.how == How::AllClients(true);
                self.each(|_, node| node.pause(all, left));
            }
            Fault::ClockJump => self.each(|this, node| node.jump(this.jump())),
            // Over and over.
            Fault::FlushScripts if self.stage.plan().deployment.fails_over() => {
                self.effective |= self.stage.site().flush_scripts(&step.servers);
            }
            Fault::FlushScripts => self.nodes(|_, node| node.at_once(&["SCRIPT", "FLUSH"])),
            Fault::KillClients => self.nodes(|_, node| node.kill_clients()),
            Fault::Evict => self.nodes(|_, node| node.evict()),
            // A clock without a rate jumps by what it would have gained.
            Fault::ClockRate => self.nodes(|this, node| {
                let gained = this.rate() * 50 / 1_000_000;
                node.clock().is_real() || node.jump(gained)
            }),
            Fault::Reset | Fault::CutReplies => self.links(|link| link.again(step.fault)),
            Fault::StoreFails => self.mischief(true),
            Fault::MoveSlot => self.effective |= self.takeover.again(self.stage, step),
            _ => {}
        }
    }

    pub(super) fn end(&mut self) {
        let step = self.step;
        match step.fault.victim() {
            Victim::Server if self.is_elsewhere() => self.others(elsewhere::end),
            Victim::Server => self.end_servers(),
            Victim::Link => self.links(|link| link.end(self.number)),
            Victim::Worker => {
                // It is healed when the workers confirm it.
                for &(worker, generation) in &self.ordered {
                    let post = self.stage.post(worker).0;
                    post.carried_out(self.answer(), generation, Self::OBEYS);
                }
                for &worker in &step.workers {
                    let (post, _) = self.stage.post(worker);
                    match step.fault {
                        Fault::KillWorker => post.replace(),
                        Fault::StopWorker => post.cont(),
                        _ => {}
                    }
                }
            }
            Victim::Memory if step.fault == Fault::StoreFails => self.mischief(false),
            Victim::Memory => {}
            Victim::Part if self.is_elsewhere() => {
                if let Some(old) = self.deposed.take() {
                    elsewhere::reinstate(old, self.stage.others(), step.fault);
                }
            }
            Victim::Part => self.takeover.end(self.stage, self.number),
        }
    }

    fn begin_servers(&mut self) {
        match (self.step.fault, self.step.how) {
            (Fault::KillKept | Fault::KillEmpty, _) => self.all(Node::kill),
            (Fault::KillStale, _) => {
                self.copies = self.servers().map(Node::copy).collect();
                // Killed when the copy is old enough.
            }
            (Fault::StopServer, _) => self.all(Node::stop),
            (Fault::OutOfMemory, _) => self.all(|node| node.fill(true)),
            (Fault::RevokeRights, How::Without(rights)) => self.all(|node| node.revoke(rights)),
            (Fault::ClockRate, _) => {
                let rate = self.rate();
                self.all(|node| node.clock().set_rate(rate));
            }
            _ => self.again(),
        }
    }

    fn end_servers(&mut self) {
        match (self.step.fault, self.step.how) {
            (Fault::KillKept, _) => self.all(|node| node.rise(Returns::Kept)),
            (Fault::KillEmpty, _) => self.all(|node| node.rise(Returns::Empty)),
            (Fault::KillStale, _) => {
                let copies = std::mem::take(&mut self.copies);
                let killed = std::mem::take(&mut self.done);
                for ((node, copy), killed) in self.servers().zip(copies).zip(killed) {
                    // A server that had no time for an old copy is killed all the same.
                    if !killed {
                        node.kill();
                    }
                    node.rise(copy.map_or(Returns::Kept, Returns::Copy));
                }
                self.effective = true;
            }
            (Fault::StopServer, _) => self.all(Node::cont),
            (Fault::OutOfMemory, _) => self.all(|node| node.fill(false)),
            (Fault::PauseClients, How::AllClients(false)) => self.all(Node::unpause),
            (Fault::RevokeRights, How::Without(rights)) => self.all(|node| node.grant(rights)),
            (Fault::ClockRate, _) => self.all(|node| node.clock().set_rate(0)),
            (Fault::ClockJump, _) => {
                let back = -self.jump();
                for (node, done) in self.servers().zip(&self.done) {
                    if *done {
                        node.jump(back);
                    }
                }
            }
            _ => {}
        }
    }

    fn begin_workers(&mut self) {
        let step = self.step;
        for &worker in &step.workers {
            let (post, number) = self.stage.post(worker);
            self.effective |= match (step.fault, step.how) {
                (Fault::KillWorker, _) => {
                    post.kill();
                    true
                }
                (Fault::StopWorker, _) => {
                    post.stop();
                    true
                }
                (Fault::BlockExecutor, _) => {
                    post.stands(number, step.lasts);
                    self.order(worker, &format!("block {}", step.lasts.as_millis()))
                }
                (Fault::AbortTasks, How::Some(count)) => {
                    self.order(worker, &format!("abort {count}"))
                }
                _ => self.order(worker, "collapse"),
            };
        }
    }

    /// Whether the worker can obey.
    fn order(&mut self, worker: usize, order: &str) -> bool {
        let generation = self.stage.post(worker).0.generation();
        let is_there = self.stage.order(worker, order);
        if is_there {
            self.ordered.push((worker, generation));
        }
        is_there
    }

    /// The word with which a worker confirms an order.
    fn answer(&self) -> &'static str {
        match self.step.fault {
            Fault::BlockExecutor => "blocked",
            Fault::AbortTasks => "aborted",
            _ => "collapsed",
        }
    }

    fn begin_memory(&mut self) {
        match self.step.fault {
            Fault::StoreForgets => {
                self.effective = self.stage.posts().iter().all(|post| {
                    let (generation, is_there) = (post.generation(), post.order("store forget"));
                    post.carried_out("stored", generation, Self::OBEYS);
                    is_there
                });
            }
            _ => {
                self.mischief(true);
                self.effective = true;
            }
        }
    }

    fn mischief(&self, begins: bool) {
        let How::Store(mischief) = self.step.how else { return };
        for post in self.stage.posts() {
            post.mischief(self.number, begins.then_some(mischief));
        }
    }

    /// Applies a deed to each server that it was not applied to yet.
    fn each(&mut self, act: impl Fn(&Self, &Node) -> bool) {
        for at in 0..self.done.len() {
            let node = &self.stage.nodes()[self.step.servers[at]];
            self.done[at] = self.done[at] || act(self, node);
        }
        self.effective = self.done.contains(&true);
    }

    /// Applies a deed to each server, which may not listen.
    fn nodes(&mut self, act: impl Fn(&Self, &Node) -> bool) {
        for node in self.servers() {
            self.effective |= act(self, node);
        }
    }

    /// Applies a deed to all servers at once, which cannot fail.
    fn all(&mut self, act: impl Fn(&Node) + Sync) {
        std::thread::scope(|scope| {
            for node in self.servers() {
                let act = &act;
                scope.spawn(move || act(node));
            }
        });
        self.effective = true;
    }

    /// Whether the servers are of another kind than Redis.
    fn is_elsewhere(&self) -> bool {
        !self.stage.others().is_empty()
    }

    /// Applies a deed to all servers at once, which are of another kind than Redis. It says whether anything was done.
    fn others(&mut self, act: fn(&Other, Fault) -> bool) {
        let (step, done) = (self.step, AtomicBool::new(false));
        std::thread::scope(|scope| {
            for &server in &step.servers {
                let (other, done) = (&self.stage.others()[server], &done);
                scope.spawn(move || done.fetch_or(act(other, step.fault), Ordering::Relaxed));
            }
        });
        self.effective |= done.into_inner();
    }

    fn servers(&self) -> impl Iterator<Item = &'a Node> + use<'a> {
        let stage = self.stage;
        self.step.servers.iter().map(move |&server| &stage.nodes()[server])
    }

    fn links(&self, act: impl Fn(&Link)) {
        for &worker in &self.step.workers {
            let links = self.stage.post(worker).0.links();
            self.step.servers.iter().for_each(|&server| act(&links[server]));
        }
    }

    /// The age of a copy when its server is killed.
    fn age(&self) -> Duration {
        let How::By(age) = self.step.how else { return Duration::ZERO };
        age.min(self.step.lasts / 2)
    }

    fn jump(&self) -> i64 {
        let How::Jump(millis) = self.step.how else { return 0 };
        millis
    }

    fn rate(&self) -> i64 {
        let How::Rate(rate) = self.step.how else { return 0 };
        rate
    }
}
