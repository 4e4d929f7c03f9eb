//! The primitives over the in-memory backend, always through two clients of one store.

mod cancel;
mod contract;
mod drops;
mod lease;
mod mutex;
mod outage;
mod shutdown;
mod support;
