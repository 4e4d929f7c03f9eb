//! Connections to the database.

mod attempts;
mod dial;
mod line;
mod tls;

pub(crate) use attempts::Attempts;
pub(crate) use dial::{DIRECT, Dial, Messages};
pub(crate) use line::{Line, Statement, Told};
pub(crate) use tls::Tls;
