//! Nothing outlives a test process, however it ends.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::time::Duration;

use lock_tests::{
    EtcdServer, PgBouncer, PostgresServer, RedisServer, Worker, eventually, lock_worker, process,
};

const LIMIT: Duration = Duration::from_secs(20);

/// Set for the process that will be killed.
const ROLE: &str = "LOCK_TESTS_TO_BE_KILLED";

/// The test program runs itself again, as a process that starts others and is killed. The others
/// stand still by then, so none can take part in its own end.
#[test]
fn servers_and_workers_die_with_the_test_process() {
    if std::env::var_os(ROLE).is_some() {
        return be_killed();
    }
    let mut owner = Command::new(std::env::current_exe().unwrap())
        .args(["orphans::servers_and_workers_die_with_the_test_process", "--exact", "--nocapture"])
        .env(ROLE, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let stdout = BufReader::new(owner.stdout.take().unwrap());
    let said = stdout.lines().map(Result::unwrap).find(|line| line.contains("started ")).unwrap();
    // libtest writes the name of the test on the same line.
    let (pids, folders) = said.rsplit_once("started ").unwrap().1.split_once(" in ").unwrap();
    let pids: Vec<u32> = pids.split(' ').map(|pid| pid.parse().unwrap()).collect();
    assert!(pids.len() > 8, "the processes of PostgreSQL are missing: {said}");
    assert!(pids.iter().all(|pid| process::is_stopped(*pid)), "{said}");
    owner.kill().unwrap();
    owner.wait().unwrap();
    for pid in pids {
        eventually(&format!("{pid} of {said} is gone"), LIMIT, || !process::is_alive(pid));
    }
    for folder in folders.split(' ') {
        std::fs::remove_dir_all(folder).unwrap();
    }
}

fn be_killed() {
    let redis = RedisServer::start();
    let worker = Worker::spawn(lock_worker!(), &redis.url());
    let postgres = PostgresServer::start();
    let pooler = PgBouncer::before(&postgres, "postgres", 1);
    let etcd = EtcdServer::start();
    worker.stop();
    redis.stop();
    process::stop(pooler.pid());
    postgres.stop();
    etcd.stop();
    let firsts = [redis.pid(), worker.pid(), pooler.pid(), etcd.pid(), postgres.pid()];
    let pids = firsts.into_iter().chain(process::children(postgres.pid()));
    let alive = pids.filter(|pid| process::is_alive(*pid));
    let pids: Vec<String> = alive.map(|pid| pid.to_string()).collect();
    let (data, state) = (postgres.data(), etcd.data());
    let folders =
        [redis.folder(), pooler.folder(), data.parent().unwrap(), state.parent().unwrap()];
    let folders = folders.map(|folder| folder.display().to_string());
    println!("started {} in {}", pids.join(" "), folders.join(" "));
    // The pipe ends if the killing process is killed first.
    _ = std::io::stdin().read_to_end(&mut Vec::new());
}
