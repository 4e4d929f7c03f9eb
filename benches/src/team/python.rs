//! A peer in another language.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The rows of redis-py, as it comes and with a short delay between two tries.
pub const REDIS_PY: [&str; 2] = ["redis-py", "redis-py, impatient"];

/// The variable with the path of the interpreter. Without it, `python3` on the path is used.
const VARIABLE: &str = "LOCK_BENCHES_PYTHON";

/// An interpreter that has the package `redis`.
///
/// # Errors
///
/// The reason why the rows of redis-py are missing.
pub fn python() -> Result<PathBuf, String> {
    let program = std::env::var_os(VARIABLE).unwrap_or_else(|| "python3".into());
    let outcome = Command::new(&program).args(["-c", "import redis"]).output();
    match outcome {
        Ok(output) if output.status.success() => Ok(program.into()),
        _ => Err(format!(
            "redis-py: left out, there is no {program:?} with the package `redis`; {VARIABLE} may \
             name one."
        )),
    }
}

/// The program of a member that uses redis-py.
pub(super) fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("peers").join("redis_py.py")
}
