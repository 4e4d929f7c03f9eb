//! Lines for people, on standard error.

use std::fmt::Display;
use std::io::{self, Write};

/// Prints a line. A standard error that is full or has no reader must neither end `dlock` nor change its exit code.
pub(crate) fn tell(what: impl Display) {
    _ = writeln!(io::stderr(), "dlock: {what}");
}
