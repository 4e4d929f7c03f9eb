//! One step, as it is carried out.

use std::time::{Duration, Instant};

use super::millis;
use crate::DataCopy;
use crate::chaos::stage::{Link, Node, Returns, Stage};
use crate::chaos::{Fault, How, Mischief, Step, Victim};

/// One step, while it is carried out.
pub(super) struct Act<'a> {
    stage: &'a Stage,
    number: usize,
    step: &'a Step,
    begun: Instant,
    /// What servers will come back with, one by one.
    copies: Vec<Option<DataCopy>>,
    /// What has been done, for each server that can be told something only while it hears.
    done: Vec<bool>,
    /// Which workers were given an order, of which generation.
    ordered: Vec<(usize, u32)>,
    effective: bool,
}

impl<'a> Act<'a> {
    /// For how long something is tried that takes but an instant.
    pub(super) const PATIENCE: Duration = millis(3_000);
    /// How long a worker may take to do what it was told, for which it may have to be let go on first.
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
            effective: false,
        }
    }

    /// Whether anything was done.
    pub(super) fn is_effective(&self) -> bool {
        self.effective
    }

    pub(super) fn begin(&mut self) {
        match self.step.fault.victim() {
            Victim::Server => self.begin_servers(),
            Victim::Link => {
                self.links(|link| link.begin(self.number, self.step.fault, self.step.how));
                self.effective = true;
                self.again();
            }
            Victim::Worker => self.begin_workers(),
            Victim::Memory => self.begin_memory(),
        }
    }

    /// After how long it goes on; `None` if there is nothing to do until it ends.
    pub(super) fn pause(&self) -> Option<Duration> {
        let undone = self.done.contains(&false);
        match self.step.fault {
            Fault::FlushScripts => Some(millis(20)),
            Fault::KillClients => Some(millis(150)),
            Fault::Evict => Some(millis(200)),
            Fault::ClockRate => Some(millis(50)),
            Fault::Reset => Some(millis(60)),
            Fault::CutReplies => Some(millis(120)),
            Fault::StoreFails if self.step.how == How::Store(Mischief::Lose) => Some(millis(150)),
            Fault::KillStale if undone => Some(self.age()),
            Fault::Flush | Fault::PauseClients | Fault::ClockJump if undone => Some(millis(20)),
            _ => None,
        }
    }

    pub(super) fn again(&mut self) {
        let step = self.step;
        match step.fault {
            Fault::KillStale => {
                self.each(|_, node| {
                    node.kill();
                    true
                });
            }
            // Once, as soon as it hears.
            Fault::Flush => self.each(|_, node| node.at_once(&["FLUSHALL"])),
            Fault::PauseClients => {
                let left = (self.begun + step.lasts).saturating_duration_since(Instant::now());
                let everybody = step.how == How::Everybody(true);
                self.each(|_, node| node.pause(everybody, left));
            }
            Fault::ClockJump => self.each(|this, node| node.jump(this.jump())),
            // Over and over.
            Fault::FlushScripts => self.nodes(|_, node| node.at_once(&["SCRIPT", "FLUSH"])),
            Fault::KillClients => self.nodes(|_, node| node.kill_clients()),
            Fault::Evict => self.nodes(|_, node| node.evict()),
            // Where a clock has no rate it jumps, by what it would have gained.
            Fault::ClockRate => self.nodes(|this, node| {
                let gained = this.rate() * 50 / 1_000_000;
                node.clock().is_real() || node.jump(gained)
            }),
            Fault::Reset | Fault::CutReplies => self.links(|link| link.again(step.fault)),
            Fault::StoreFails => self.mischief(true),
            _ => {}
        }
    }

    pub(super) fn end(&mut self) {
        let step = self.step;
        match step.fault.victim() {
            Victim::Server => self.end_servers(),
            Victim::Link => self.links(|link| link.end(self.number)),
            Victim::Worker => {
                // It is made good when they say that it is.
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
                    // Whoever had no time to grow old is killed all the same.
                    if !killed {
                        node.kill();
                    }
                    node.rise(copy.map_or(Returns::Kept, Returns::Copy));
                }
                self.effective = true;
            }
            (Fault::StopServer, _) => self.all(Node::cont),
            (Fault::OutOfMemory, _) => self.all(|node| node.fill(false)),
            (Fault::PauseClients, How::Everybody(false)) => self.all(Node::unpause),
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

    /// Whether the worker is there to obey.
    fn order(&mut self, worker: usize, order: &str) -> bool {
        let generation = self.stage.post(worker).0.generation();
        let is_there = self.stage.order(worker, order);
        if is_there {
            self.ordered.push((worker, generation));
        }
        is_there
    }

    /// In which word a worker says that it has done what it was told.
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

    /// Does something to each server to which it was not done yet.
    fn each(&mut self, act: impl Fn(&Self, &Node) -> bool) {
        for at in 0..self.done.len() {
            let node = &self.stage.nodes()[self.step.servers[at]];
            self.done[at] = self.done[at] || act(self, node);
        }
        self.effective = self.done.contains(&true);
    }

    /// Does something to each server, which it may not hear.
    fn nodes(&mut self, act: impl Fn(&Self, &Node) -> bool) {
        for node in self.servers() {
            self.effective |= act(self, node);
        }
    }

    /// Does something to all servers at once, which cannot fail.
    fn all(&mut self, act: impl Fn(&Node) + Sync) {
        std::thread::scope(|scope| {
            for node in self.servers() {
                let act = &act;
                scope.spawn(move || act(node));
            }
        });
        self.effective = true;
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

    /// How old a copy is when its server is killed.
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
