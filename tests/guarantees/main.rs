//! The table of guarantees says what the backends say of themselves.
//!
//! The README and the page about backends have the table between two comments. Its last columns follow from the limits
//! and the capabilities of the backends. If a test fails because they have changed, this writes the table again:
//!
//! ```text
//! LOCK_GUARANTEES=write cargo test -p lock-tests --test guarantees
//! ```

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod stores;
mod table;

use std::path::Path;
use std::{env, fs};

/// The files with the table, from the root of the workspace.
const FILES: [&str; 2] = ["README.md", "docs/BACKENDS.md"];

/// If it is `write`, the test writes the table instead of comparing it.
const VARIABLE: &str = "LOCK_GUARANTEES";

#[tokio::test(flavor = "multi_thread")]
async fn the_table_of_guarantees_is_up_to_date() {
    let servers = stores::Servers::start().await;
    let table = table::of(&servers.stores().await);
    for file in FILES {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
        let text = fs::read_to_string(&path).unwrap();
        let (before, old, after) = table::find(&text).unwrap_or_else(|why| panic!("{file}: {why}"));
        if env::var(VARIABLE).is_ok_and(|value| value == "write") {
            fs::write(&path, format!("{before}{table}{after}")).unwrap();
        } else {
            assert_eq!(old, table, "{file}: write the table again, with {VARIABLE}=write");
        }
    }
}
