//! Every case of the primitives over every store.
//!
//! The cases are in `tests/src/primitives`. A quorum lacks some capabilities, and names them here. While no server
//! fails over, a cluster and a service that sentinels watch lack none: every case holds there. `tests/topologies` and
//! `tests/chaos` are about failovers.

#![forbid(unsafe_code)]

mod memory {
    lock_tests::primitives!(lock_tests::primitives::Memory:
        conversions yes, permits yes, joint yes, queue yes);
}

mod one_server {
    lock_tests::primitives!(lock_tests::primitives::OneServer:
        conversions yes, permits yes, joint yes, queue yes);
}

mod cluster {
    lock_tests::primitives!(lock_tests::primitives::Cluster:
        conversions yes, permits yes, joint yes, queue yes);
}

mod sentinels {
    lock_tests::primitives!(lock_tests::primitives::Service:
        conversions yes, permits yes, joint yes, queue yes);
}

mod postgres {
    lock_tests::primitives!(lock_tests::primitives::Postgres:
        conversions yes, permits yes, joint yes, queue yes);
}

mod etcd {
    lock_tests::primitives!(lock_tests::primitives::Etcd:
        conversions yes, permits yes, joint yes, queue yes);
}

mod quorum_of_three {
    lock_tests::primitives!(lock_tests::primitives::QuorumOfThree:
        conversions no, permits no, joint no, queue no);
}
