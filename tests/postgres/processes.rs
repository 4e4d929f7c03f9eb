//! Several processes and one lock.

use lock_tests::{Worker, WorkerBuilder, lock_worker, processes};

use crate::support::Database;

fn options() -> WorkerBuilder {
    Worker::builder(lock_worker!())
}

#[test]
fn two_processes_lose_no_update() {
    let database = Database::new();
    let workers = [(); 2].map(|()| options().fair(true).spawn(&database.url()));
    processes::lose_no_update(workers.into());
}

#[test]
fn the_lock_of_a_killed_process_passes_on_after_its_lease() {
    let database = Database::new();
    processes::a_killed_holder(&options(), &database.url());
}
