//! Connections to the database.

mod attempts;
mod dial;
mod kept;
mod line;
mod tls;

use attempts::Attempts;
pub(crate) use dial::{DIRECT, Dial, Messages};
pub(crate) use kept::{Kept, MayEnd};
pub(crate) use line::{Line, Statement, Told};
pub(crate) use tls::Tls;
