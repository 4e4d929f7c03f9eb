//! All text of a process: events, panics, and the text of its values.

use std::error::Error;
use std::fmt::{self, Debug, Write};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

static SAID: Mutex<String> = Mutex::new(String::new());

/// Starts to record the text of the process, on all threads.
pub(crate) fn record() {
    static BEGIN: Once = Once::new();
    BEGIN.call_once(|| {
        tracing::subscriber::set_global_default(Recorder).expect("another recorder is installed");
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            say(format_args!("panic: {panic}"));
            hook(panic);
        }));
    });
}

/// Records the text of a value.
pub(crate) fn show(value: &dyn Debug) {
    say(format_args!("{value:?} {value:#?}"));
}

/// Records the text of an error, and of all its sources.
pub(crate) fn show_error(error: &(dyn Error + 'static)) {
    let mut link = Some(error);
    while let Some(error) = link {
        say(format_args!("{error} {error:#}"));
        show(&error);
        link = error.source();
    }
}

/// Records the outcome of a call. Returns it.
pub(crate) fn shown<T: Debug, E: Error + 'static>(outcome: Result<T, E>) -> Result<T, E> {
    match &outcome {
        Ok(value) => show(value),
        Err(error) => show_error(error),
    }
    outcome
}

/// All text until now.
pub(crate) fn said() -> MutexGuard<'static, String> {
    SAID.lock().unwrap_or_else(PoisonError::into_inner)
}

fn say(what: fmt::Arguments<'_>) {
    // Formatted first: the formatting may record text, too.
    let text = what.to_string();
    let mut said = said();
    said.push_str(&text);
    said.push('\n');
}

/// Records every event and span of every level, with all its fields.
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
