//! What is built of locks and of values beside them.

pub(crate) mod barrier;
mod cell;
pub(crate) mod election;
pub(crate) mod once_cell;
pub(crate) mod slots;
pub(crate) mod together;
