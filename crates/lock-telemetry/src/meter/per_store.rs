//! The metrics that depend on no lock: the store, its nodes, the driver.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, Label};

use super::handles::{Group, Handles};
use super::labels::{Alarm, Answer, Value};
use super::names;

/// The handles.
#[derive(Debug)]
pub(super) struct Store {
    pub(super) group: Group,
    /// The histograms by verb. A store has about ten verbs.
    requests: RwLock<HashMap<&'static str, Arc<Handles<Histogram>>>>,
    pub(super) reconnects: Handles<Counter>,
    pub(super) redirects: Handles<Counter>,
    failing: Handles<Gauge>,
    alarms: Handles<Counter>,
}

impl Store {
    pub(super) fn new(group: Group) -> Self {
        let store = Self {
            group,
            requests: RwLock::default(),
            reconnects: Handles::new(&names::RECONNECTS, 1),
            redirects: Handles::new(&names::REDIRECTS, 1),
            failing: Handles::new(&names::RENEWALS_FAILING, 1),
            alarms: Handles::new(&names::DRIVER_ALARMS, Alarm::COUNT),
        };
        store.begin();
        store
    }

    /// Registers the counters: a counter that begins with its first event shows no rate for that event.
    fn begin(&self) {
        self.reconnects.only(&self.group);
        self.redirects.only(&self.group);
        self.show_failing(0);
        for alarm in [Alarm::Stalled, Alarm::ClockJumped, Alarm::RenewalLate] {
            self.alarms.by(&self.group, &alarm);
        }
    }

    /// A request with this verb was answered.
    pub(super) fn answered(&self, verb: &'static str, answer: &Answer, took: Duration) {
        let found = self.requests.read().unwrap_or_else(PoisonError::into_inner);
        let known = found.get(verb).cloned();
        drop(found);
        let handles = known.unwrap_or_else(|| {
            let mut requests = self.requests.write().unwrap_or_else(PoisonError::into_inner);
            let make = || Handles::new(&names::STORE_REQUEST_DURATION, Answer::COUNT);
            Arc::clone(requests.entry(verb).or_insert_with(|| Arc::new(make())))
        });
        handles.below(&self.group, verb, answer).record(took);
    }

    /// Shows how many leases were not renewed at the last try.
    pub(super) fn show_failing(&self, leases: usize) {
        self.failing.only(&self.group).set(u32::try_from(leases).unwrap_or(u32::MAX));
    }

    pub(super) fn alarm(&self, alarm: Alarm) {
        self.alarms.by(&self.group, &alarm).increment(1);
    }

    /// A node is kept out, for this reason. The event is rare, so it looks the handles up.
    pub(super) fn kept_out(&self, node: &str, reason: &'static str) {
        let labels = vec![label_of(node), Label::from_static_parts("reason", reason)];
        self.group.register::<Counter>(&names::NODES_KEPT_OUT, labels).increment(1);
        self.show_out(node, true);
    }

    pub(super) fn show_out(&self, node: &str, is_out: bool) {
        let gauge: Gauge = self.group.register(&names::NODES_OUT, vec![label_of(node)]);
        gauge.set(f64::from(u8::from(is_out)));
    }
}

fn label_of(node: &str) -> Label {
    Label::new("node", node.to_owned())
}
