//! The reports of a worker to the harness.

use std::fmt::Display;
use std::io::Write;
use std::panic;
use std::process;

use lock_core::Clock;

/// Reports an event, with the time on the clock that all processes of the machine share.
pub(crate) fn say(event: impl Display) {
    let at = Clock::boot().now().as_nanos();
    let mut stdout = std::io::stdout().lock();
    if writeln!(stdout, "{at} {event}").and_then(|()| stdout.flush()).is_err() {
        // The harness listens no more.
        process::exit(1);
    }
}

/// The timer of a request says this when its runtime is going away.
const RUNTIME_ENDS: &str = "A Tokio 1.x context was found, but it is being shutdown";

/// Makes every panic visible to the harness, and the last act of the process. A panic that is begun by
/// [`panic::resume_unwind`] does not count. Nor does that of a timer whose runtime is going away: the driver has taken
/// the request over, catches the panic, and repeats the request.
pub(crate) fn scream_when_it_panics() {
    panic::set_hook(Box::new(|panic| {
        let thread = std::thread::current();
        let name = thread.name().unwrap_or("without a name");
        if name == "lock-driver" && panic.to_string().contains(RUNTIME_ENDS) {
            return;
        }
        let text = format!("panicked in {name}: {panic}").replace('\n', " ");
        say(text);
        process::abort();
    }));
}
