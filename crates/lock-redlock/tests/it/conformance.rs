//! A quorum is a backend, and keeps the laws of one.

mod of_one {
    use crate::support::Cluster;
    lock_core::conformance_tests!(
        Cluster::of(1).await,
        capabilities: [shared, cell, inspect]
    );
}

mod of_three {
    use crate::support::Cluster;
    lock_core::conformance_tests!(
        Cluster::of(3).await,
        capabilities: [shared, cell, inspect]
    );
}

mod of_five_on_many_threads {
    use crate::support::Cluster;
    lock_core::conformance_tests!(
        Cluster::of(5).await,
        capabilities: [shared, cell, inspect],
        flavor = "multi_thread",
        worker_threads = 4
    );
}
