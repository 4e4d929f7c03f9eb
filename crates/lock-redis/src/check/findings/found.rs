//! The list of findings, while it grows.

use std::borrow::Cow;

use super::super::report::{Finding, Severity};

/// The findings at one server.
pub(super) struct Found<'a> {
    server: &'a str,
    list: Vec<Finding>,
}

impl<'a> Found<'a> {
    /// No findings yet.
    pub(super) fn at(server: &'a str) -> Self {
        Self { server, list: Vec::new() }
    }

    /// Adds a finding: what is so, why it matters, and what to do.
    pub(super) fn add(
        &mut self,
        severity: Severity,
        code: &'static str,
        finding: impl Into<Cow<'static, str>>,
        reason: impl Into<Cow<'static, str>>,
        remedy: impl Into<Cow<'static, str>>,
    ) {
        self.list.push(Finding {
            severity,
            code,
            server: self.server.to_owned(),
            finding: finding.into(),
            reason: reason.into(),
            remedy: remedy.into(),
        });
    }

    pub(super) fn into_list(self) -> Vec<Finding> {
        self.list
    }
}
