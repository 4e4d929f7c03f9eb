//! Every case of the primitives over every store.
//!
//! The cases are in `tests/src/primitives`. A quorum lacks some abilities, and says so here by name.

#![forbid(unsafe_code)]

mod memory {
    lock_tests::primitives!(lock_tests::primitives::Memory:
        conversions yes, permits yes, joint yes, queue yes);
}

mod one_server {
    lock_tests::primitives!(lock_tests::primitives::OneServer:
        conversions yes, permits yes, joint yes, queue yes);
}

mod quorum_of_three {
    lock_tests::primitives!(lock_tests::primitives::QuorumOfThree:
        conversions no, permits no, joint no, queue no);
}
