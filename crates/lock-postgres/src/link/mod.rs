//! Connections to the database.

mod dial;
mod line;
mod tls;

pub(crate) use dial::{Dial, Messages};
pub(crate) use line::{Line, Statement};
pub(crate) use tls::Tls;
