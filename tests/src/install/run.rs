//! Runs a program of the system, with a generous time limit.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The output of a program, or why it failed, with the end of its error output.
pub(crate) fn run<A: AsRef<OsStr>>(
    program: impl AsRef<Path>,
    args: impl IntoIterator<Item = A>,
    limit: Duration,
) -> Result<String, String> {
    run_in(Path::new("."), program, args, limit)
}

/// The same in a working folder.
pub(super) fn run_in<A: AsRef<OsStr>>(
    folder: &Path,
    program: impl AsRef<Path>,
    args: impl IntoIterator<Item = A>,
    limit: Duration,
) -> Result<String, String> {
    let program = program.as_ref();
    let mut command = Command::new(program);
    command
        .args(args)
        .current_dir(folder)
        // The parsed output must be in English, and the program must ask no questions.
        .env("LC_ALL", "C")
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null());
    let name = program.file_name().unwrap_or(program.as_os_str()).to_string_lossy();
    match output(&mut command, limit) {
        Err(error) => Err(format!("{name}: {error}")),
        Ok((None, ..)) => Err(format!("{name} did not end within {limit:?}")),
        Ok((Some(status), stdout, _)) if status.success() => Ok(stdout),
        Ok((Some(status), stdout, stderr)) => {
            let said = if stderr.trim().is_empty() { stdout } else { stderr };
            Err(format!("{name} failed ({status}): {}", tail(&said)))
        }
    }
}

/// The exit status, if it ended in time, and its output.
fn output(
    command: &mut Command,
    limit: Duration,
) -> std::io::Result<(Option<ExitStatus>, String, String)> {
    // Files, because a pipe without a reader would block the program.
    let mut stdout = tempfile::tempfile()?;
    let mut stderr = tempfile::tempfile()?;
    let mut child = command.stdout(stdout.try_clone()?).stderr(stderr.try_clone()?).spawn()?;
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if start.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            break None;
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    Ok((status, text(&mut stdout)?, text(&mut stderr)?))
}

fn text(file: &mut File) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The last lines, in one.
fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(3)..].join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    #[test]
    fn output_and_failure_are_told_apart() {
        assert_eq!(run("sh", ["-c", "echo yes; echo no >&2"], LIMIT).unwrap(), "yes\n");
        let why = run("sh", ["-c", "echo yes; echo no >&2; exit 3"], LIMIT).unwrap_err();
        assert_eq!(why, "sh failed (exit status: 3): no");
    }

    #[test]
    fn a_program_that_does_not_end_is_killed() {
        let why = run("sleep", ["60"], Duration::from_millis(10)).unwrap_err();
        assert_eq!(why, "sleep did not end within 10ms");
    }
}
