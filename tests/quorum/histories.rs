//! Processes that take one lock over and over while servers and networks fail. At most one holds it at every moment
//! while its lease is valid, tokens increase, and all processes go on when the failure is over.

use std::thread::sleep;
use std::time::{Duration, Instant};

use lock_tests::{Direction, Random, RedisServer};

use crate::support::{Client, Crew, LEASE, MAX_TTL, Nodes, SLACK, SOON};

const PROCESSES: usize = 3;

/// After how long all processes have had a turn when nothing fails: the time of a lease that was left behind, and the
/// turns of the others.
const RECOVERY: Duration = Duration::from_millis(1_500 + 3_000);

/// The servers, the processes, and a watcher that vouches for servers.
struct Stage {
    nodes: Nodes,
    crew: Crew,
    watcher: Client,
    /// For what the watcher asks.
    runtime: tokio::runtime::Runtime,
}

impl Stage {
    fn set(nodes: usize) -> Self {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let nodes = runtime.block_on(Nodes::new(nodes));
        let watcher = runtime.block_on(Client::new(&nodes));
        let crew = Crew::start(&nodes, PROCESSES);
        Self { nodes, crew, watcher, runtime }
    }

    fn server(&self, number: usize) -> &RedisServer {
        &self.nodes.servers()[number]
    }

    /// Waits until all servers vote.
    fn heals(&self) {
        self.runtime.block_on(self.watcher.until_voting(self.nodes.servers().len()));
    }

    /// No process has a turn for some time.
    #[track_caller]
    fn stands_still(&self) {
        // Turns that have begun may come to their end.
        sleep(LEASE);
        let before = self.crew.count();
        sleep(LEASE / 2);
        assert_eq!(self.crew.count(), before, "without a majority");
    }
}

#[test]
fn while_a_minority_dies_and_then_another() {
    let stage = Stage::set(5);
    for dead in [[0, 1], [2, 4]] {
        dead.iter().for_each(|&server| stage.server(server).kill());
        stage.crew.goes_on(RECOVERY);
        dead.iter().for_each(|&server| stage.server(server).restart());
        stage.crew.goes_on(RECOVERY);
        stage.heals();
    }
    stage.crew.goes_on(RECOVERY);
    stage.crew.rest();
}

#[test]
fn while_a_majority_dies() {
    let stage = Stage::set(3);
    let dead = [0, 2].map(|server| stage.server(server));
    dead.iter().for_each(|server| server.kill());
    stage.stands_still();
    let begin = Instant::now();
    dead.iter().for_each(|server| server.restart());
    // They are quarantined for as long as the longest lease.
    stage.crew.goes_on(MAX_TTL + RECOVERY);
    assert!(begin.elapsed() > MAX_TTL / 2, "{:?}", begin.elapsed());
    stage.crew.rest();
}

#[test]
fn while_servers_stand_still() {
    let stage = Stage::set(5);
    for (servers, time) in [(vec![1], LEASE / 3), (vec![0, 3], LEASE * 2)] {
        servers.iter().for_each(|&server| stage.server(server).stop());
        sleep(time);
        stage.crew.goes_on(RECOVERY);
        servers.iter().for_each(|&server| stage.server(server).cont());
        stage.crew.goes_on(RECOVERY);
    }
    for time in [LEASE / 3, LEASE * 3 / 2] {
        stage.nodes.servers().iter().for_each(RedisServer::stop);
        sleep(time);
        stage.nodes.servers().iter().for_each(RedisServer::cont);
        stage.crew.goes_on(RECOVERY);
    }
    stage.crew.rest();
}

#[test]
fn while_servers_are_flushed_one_after_another() {
    let stage = Stage::set(3);
    for server in [0, 1, 2] {
        stage.server(server).flushall();
        stage.crew.goes_on(RECOVERY);
        stage.heals();
    }
    stage.crew.goes_on(RECOVERY);
    stage.crew.rest();
}

#[test]
fn while_all_servers_are_flushed_at_once() {
    let stage = Stage::set(3);
    let begin = Instant::now();
    stage.nodes.servers().iter().for_each(RedisServer::flushall);
    stage.crew.goes_on(MAX_TTL + RECOVERY);
    assert!(begin.elapsed() > MAX_TTL / 2, "{:?}", begin.elapsed());
    stage.crew.rest();
}

#[test]
fn while_a_process_is_cut_off() {
    let stage = Stage::set(5);
    let [first, second, third] = stage.crew.members() else { panic!("there are three") };
    // From one, from a minority, and from a majority, of which the others hear nothing.
    first.cut_off_from([0]);
    second.cut_off_from([3, 4]);
    third.cut_off_from([1, 2, 4]);
    stage.crew.go_on(&[0, 1], RECOVERY);
    sleep(LEASE);
    stage.crew.go_on(&[0, 1], RECOVERY);
    stage.crew.members().iter().for_each(|member| member.heal());
    stage.crew.goes_on(RECOVERY);
    stage.crew.rest();
}

#[test]
fn while_each_process_sees_another_majority() {
    let stage = Stage::set(5);
    // Each pair of majorities has one server in common, or two.
    for (number, member) in stage.crew.members().iter().enumerate() {
        member.cut_off_from([number, (number + 1) % 5]);
    }
    stage.crew.goes_on(RECOVERY);
    sleep(LEASE);
    stage.crew.goes_on(RECOVERY);
    stage.crew.members().iter().for_each(|member| member.heal());
    stage.crew.goes_on(RECOVERY);
    stage.crew.rest();
}

#[test]
fn while_requests_arrive_and_answers_do_not() {
    let stage = Stage::set(3);
    let [first, second, _] = stage.crew.members() else { panic!("there are three") };
    // The first process takes votes of which it never hears, over and over.
    first.silence([0, 1], Direction::ToClient);
    second.silence([2], Direction::ToServer);
    stage.crew.go_on(&[1, 2], RECOVERY + SLACK);
    stage.crew.members().iter().for_each(|member| member.heal());
    stage.crew.goes_on(RECOVERY);
    stage.crew.rest();
}

#[test]
fn while_a_process_stands_still() {
    let stage = Stage::set(3);
    for member in stage.crew.members() {
        member.worker.stop();
        sleep(LEASE * 3 / 2);
        stage.crew.goes_on(RECOVERY);
        member.worker.cont();
    }
    stage.crew.goes_on(RECOVERY);
    stage.crew.rest();
}

/// What may happen next to any server, or between it and any process.
#[test]
fn while_anything_fails_at_any_moment() {
    const SERVERS: usize = 5;
    let mut random = Random::from_env("QUORUM_SEED");
    let stage = Stage::set(SERVERS);
    let end = Instant::now() + Duration::from_secs(5);
    while Instant::now() < end {
        let server = stage.server(random.below(SERVERS));
        let member = &stage.crew.members()[random.below(PROCESSES)];
        let some = 1 + random.below(3);
        let some = random.some(some, SERVERS);
        let time = Duration::from_millis(random.below(LEASE.as_millis() as usize) as u64);
        match random.below(12) {
            0 | 1 => {
                server.stop();
                sleep(time);
                server.cont();
            }
            2 => server.flushall(),
            3 => {
                server.kill();
                sleep(time / 2);
                server.restart();
            }
            4 | 5 => member.cut_off_from(some),
            6 => member.silence(some, Direction::ToClient),
            7 => member.delay(some, time / 4),
            8 => {
                member.worker.stop();
                sleep(time);
                member.worker.cont();
            }
            _ => stage.crew.members().iter().for_each(|member| member.heal()),
        }
        sleep(time / 4);
    }
    stage.crew.members().iter().for_each(|member| member.heal());
    let begin = Instant::now();
    stage.heals();
    stage.crew.goes_on(RECOVERY);
    assert!(begin.elapsed() < SOON + RECOVERY);
    stage.crew.rest();
}
