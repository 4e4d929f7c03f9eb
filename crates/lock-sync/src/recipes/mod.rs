//! Recipes: primitives that consist of locks and of values beside locks.

pub(crate) mod barrier;
mod cell;
pub(crate) mod election;
pub(crate) mod once_cell;
pub(crate) mod slots;
pub(crate) mod stored;
pub(crate) mod together;
