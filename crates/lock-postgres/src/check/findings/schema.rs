//! Findings about the schema of the locks, and about the rights of the role.

use lock_core::check::{Findings, Severity};

use super::super::facts::{Facts, Schema};
use crate::schema::VERSION;

pub(super) fn find(facts: &Facts, found: &mut Findings<'_>) {
    match &facts.schema {
        Schema::Missing => found.add(
            Severity::Critical,
            "schema-missing",
            "the database has no schema for locks",
            "every request fails",
            "call `init` once, as a role that may create schemas, or run the script of `PostgresBackend::schema`",
        ),
        Schema::Closed(functions) => found.add(
            Severity::Critical,
            "rights-missing",
            format!("the role may not use {}", functions.join(", ")),
            "the requests that need these fail",
            "run `CALL lock_v1.allow('role')` as the owner of the schema",
        ),
        Schema::Open { version, .. } if *version < VERSION => found.add(
            Severity::Critical,
            "schema-old",
            format!("the schema has version {version}, and this client needs {VERSION}"),
            "requests that need the newer functions fail",
            "call `init` once, as the owner of the schema",
        ),
        Schema::Open { version, is_own, .. } => usable(*version, *is_own, found),
    }
}

pub(super) fn owner(facts: &Facts, found: &mut Findings<'_>) {
    if !matches!(facts.schema, Schema::Open { is_of_superuser: true, .. }) {
        return;
    }
    found.add(
        Severity::Warning,
        "owner-superuser",
        "a superuser owns the schema of the locks",
        "the functions run with the rights of their owner: a fault in one of them would give a client the whole server",
        "while no client is there, drop the schema, create an empty one for a role of its own, and call `init` as that role",
    );
}

/// Every function that this client needs is there.
fn usable(version: i32, is_own: bool, found: &mut Findings<'_>) {
    if version > VERSION {
        found.add(
            Severity::Info,
            "schema-new",
            format!("the schema has version {version}, and this client knows {VERSION}"),
            "other clients are newer than this one, and both work",
            "nothing; update this client some time",
        );
    }
    if is_own {
        found.add(
            Severity::Info,
            "rights-many",
            "the role may change the schema of the locks",
            "a fault of the app can write to the tables of the locks, past all rules",
            "let another role own the schema, and give this one the verbs by `CALL lock_v1.allow('role')`",
        );
    }
}
