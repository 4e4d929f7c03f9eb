//! Nothing outlives a test process, however it ends.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::time::Duration;

use lock_tests::{RedisServer, Worker, eventually, lock_worker, process};

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
    let said: Vec<&str> = said.rsplit_once("started ").unwrap().1.split(' ').collect();
    let [server, worker] = [0, 1].map(|index| said[index].parse().unwrap());
    assert!(process::is_alive(server) && process::is_alive(worker));
    owner.kill().unwrap();
    owner.wait().unwrap();
    eventually("the server is gone", LIMIT, || !process::is_alive(server));
    eventually("the worker is gone", LIMIT, || !process::is_alive(worker));
    std::fs::remove_dir_all(said[2]).unwrap();
}

fn be_killed() {
    let server = RedisServer::start();
    let worker = Worker::spawn(lock_worker!(), &server.url());
    worker.stop();
    server.stop();
    println!("started {} {} {}", server.pid(), worker.pid(), server.folder().display());
    // The pipe ends if the killing process is killed first.
    _ = std::io::stdin().read_to_end(&mut Vec::new());
}
