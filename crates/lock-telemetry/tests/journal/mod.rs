//! A subscriber that writes down every span and event.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::{LookupSpan, Registry};

/// What the subscriber has seen. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Journal(Arc<Mutex<Pages>>);

#[derive(Default)]
struct Pages {
    spans: Vec<Span>,
    events: Vec<Told>,
    closed: Vec<&'static str>,
}

#[derive(Clone)]
pub(crate) struct Span {
    pub(crate) id: u64,
    pub(crate) name: &'static str,
    pub(crate) parent: Option<u64>,
    pub(crate) follows: Vec<u64>,
    fields: Fields,
}

#[derive(Clone)]
pub(crate) struct Told {
    pub(crate) level: Level,
    pub(crate) parent: Option<u64>,
    fields: Fields,
}

#[derive(Clone, Default)]
struct Fields(BTreeMap<&'static str, String>);

impl Span {
    pub(crate) fn field(&self, name: &str) -> &str {
        self.fields.0.get(name).map_or("", String::as_str)
    }
}

impl Told {
    pub(crate) fn field(&self, name: &str) -> &str {
        self.fields.0.get(name).map_or("", String::as_str)
    }
}

impl Journal {
    pub(crate) fn subscriber(&self) -> impl Subscriber + Send + Sync + use<> {
        Registry::default().with(self.clone())
    }

    /// The only span with this name.
    #[track_caller]
    pub(crate) fn span(&self, name: &str) -> Span {
        let pages = self.pages();
        let mut found = pages.spans.iter().filter(|span| span.name == name);
        let span = found.next().unwrap_or_else(|| panic!("no span {name}")).clone();
        assert!(found.next().is_none(), "several spans {name}");
        span
    }

    pub(crate) fn events(&self) -> Vec<Told> {
        self.pages().events.clone()
    }

    /// The names of the spans, in the order in which they were closed.
    pub(crate) fn closed(&self) -> Vec<&'static str> {
        self.pages().closed.clone()
    }

    pub(crate) fn all_are_closed(&self) -> bool {
        let pages = self.pages();
        pages.spans.len() == pages.closed.len()
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.0.lock().unwrap()
    }

    fn change(&self, id: &Id, change: impl FnOnce(&mut Span)) {
        // Numbers are used again after a span is closed.
        let mut pages = self.pages();
        let found = pages.spans.iter_mut().rev().find(|span| span.id == id.into_u64());
        change(found.unwrap());
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Journal {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let span = context.span(id).unwrap();
        let parent = span.parent().map(|parent| parent.id().into_u64());
        let (id, name) = (id.into_u64(), span.name());
        self.pages().spans.push(Span { id, name, parent, follows: Vec::new(), fields });
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _: Context<'_, S>) {
        self.change(id, |span| values.record(&mut span.fields));
    }

    fn on_follows_from(&self, id: &Id, follows: &Id, _: Context<'_, S>) {
        self.change(id, |span| span.follows.push(follows.into_u64()));
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let parent = context.event_span(event).map(|span| span.id().into_u64());
        let level = *event.metadata().level();
        self.pages().events.push(Told { level, parent, fields });
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let name = context.span(&id).unwrap().name();
        self.pages().closed.push(name);
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }
}
