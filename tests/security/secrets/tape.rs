//! Everything that a process says: events, panics, and what it shows when asked.

use std::error::Error;
use std::fmt::{self, Debug, Write};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

static SAID: Mutex<String> = Mutex::new(String::new());

/// Begins to record what the process says, on whatever thread.
pub(crate) fn record() {
    static BEGIN: Once = Once::new();
    BEGIN.call_once(|| {
        tracing::subscriber::set_global_default(Recorder).expect("somebody else records events");
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            say(format_args!("panic: {panic}"));
            hook(panic);
        }));
    });
}

/// Asks a value to show itself.
pub(crate) fn show(value: &dyn Debug) {
    say(format_args!("{value:?} {value:#?}"));
}

/// The same for an error, and for all that caused it.
pub(crate) fn show_error(error: &(dyn Error + 'static)) {
    let mut link = Some(error);
    while let Some(error) = link {
        say(format_args!("{error} {error:#}"));
        show(&error);
        link = error.source();
    }
}

/// What came of something. Returns it.
pub(crate) fn shown<T: Debug, E: Error + 'static>(outcome: Result<T, E>) -> Result<T, E> {
    match &outcome {
        Ok(value) => show(value),
        Err(error) => show_error(error),
    }
    outcome
}

/// Everything that was said until now.
pub(crate) fn said() -> MutexGuard<'static, String> {
    SAID.lock().unwrap_or_else(PoisonError::into_inner)
}

fn say(what: fmt::Arguments<'_>) {
    // Formatted first: what is shown may say something, too.
    let text = what.to_string();
    let mut said = said();
    said.push_str(&text);
    said.push('\n');
}

/// Takes down every event and span of every level, with all of its fields.
struct Recorder;

impl Subscriber for Recorder {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut line = Line::of(span.metadata());
        span.record(&mut line);
        line.end();
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        let mut line = Line(String::new());
        values.record(&mut line);
        line.end();
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::of(event.metadata());
        event.record(&mut line);
        line.end();
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Line(String);

impl Line {
    fn of(metadata: &Metadata<'_>) -> Self {
        Self(format!("{} {} {}:", metadata.level(), metadata.target(), metadata.name()))
    }

    fn end(self) {
        say(format_args!("{}", self.0));
    }
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        _ = write!(self.0, " {field}={value:?}");
    }

    fn record_error(&mut self, field: &Field, error: &(dyn Error + 'static)) {
        _ = write!(self.0, " {field}=");
        let mut link = Some(error);
        while let Some(error) = link {
            _ = write!(self.0, "{error} {error:?} ");
            link = error.source();
        }
    }
}
