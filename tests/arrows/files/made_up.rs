//! The results of the check for small made-up crates.

use super::{Graph, Sources, cycles, graph, naming};

/// The text of these files.
fn sources(files: &[(&str, &str)]) -> Sources {
    files.iter().map(|&(name, text)| (name.to_owned(), text.to_owned())).collect()
}

/// A crate of these files.
fn of(files: &[(&str, &str)]) -> Graph {
    graph(&sources(files))
}

fn arrows(files: &[(&str, &str)]) -> Vec<String> {
    let graph = of(files);
    let all = graph.iter().flat_map(|(from, to)| to.keys().map(move |to| format!("{from} > {to}")));
    all.collect()
}

fn circles(files: &[(&str, &str)]) -> Vec<String> {
    cycles(&of(files)).iter().map(ToString::to_string).collect()
}

const ROOT: (&str, &str) = ("lib.rs", "mod a; mod b; pub struct Top;");

#[test]
fn two_files_that_use_one_another_are_a_cycle() {
    let files = [
        ROOT,
        ("a.rs", "use crate::b::B; pub struct A(B);"),
        ("b.rs", "pub struct B(crate::a::A);"),
    ];
    let graph = of(&files);
    let found = cycles(&graph);
    assert_eq!(found.len(), 1);
    assert_eq!(
        found[0].describe(&graph),
        "a.rs, b.rs\n  a.rs names crate::b::B, which is in b.rs\n  b.rs names crate::a::A, which is in a.rs"
    );
}

#[test]
fn a_cycle_is_found_however_long_it_is_and_what_hangs_on_it_is_not_in_it() {
    let files = [
        ("lib.rs", "mod a; mod b; mod c; mod d; mod e;"),
        ("a.rs", "pub fn a() { crate::b::b() }"),
        ("b.rs", "pub fn b() { crate::c::c(); crate::e::e() }"),
        ("c.rs", "pub fn c() { crate::a::a() }"),
        ("d.rs", "pub fn d() { crate::a::a() }"),
        ("e.rs", "pub fn e() {}"),
    ];
    assert_eq!(circles(&files), ["a.rs, b.rs, c.rs"]);
}

#[test]
fn files_that_use_one_another_one_way_are_no_cycle() {
    let files = [ROOT, ("a.rs", "pub struct A(crate::b::B);"), ("b.rs", "pub struct B;")];
    assert_eq!(arrows(&files), ["a.rs > b.rs"]);
    assert!(circles(&files).is_empty());
}

#[test]
fn a_parent_may_declare_and_re_export_what_uses_it() {
    let child = ("a/child.rs", "use super::Parent; pub struct X(Parent); pub struct Y;");
    let root = ("lib.rs", "mod a; pub use a::{Parent, X};");
    let parent = "mod child; pub use self::child::{X, Y}; pub struct Parent;";
    assert_eq!(arrows(&[root, ("a/mod.rs", parent), child]), ["a/child.rs > a/mod.rs"]);
    // Both names of a module's file mean one module.
    assert_eq!(arrows(&[root, ("a.rs", parent), child]), ["a/child.rs > a.rs"]);

    let names_it = format!("{parent} pub fn f() -> Y {{ todo!() }}");
    assert_eq!(circles(&[root, ("a/mod.rs", &names_it), child]), ["a/child.rs, a/mod.rs"]);
    let imports_it = "mod child; use self::child::X; pub struct Parent;";
    assert_eq!(circles(&[("lib.rs", "mod a;"), ("a.rs", imports_it), child]), ["a.rs, a/child.rs"]);
}

#[test]
fn a_parent_that_calls_the_methods_of_a_trait_that_it_re_exports_depends_on_it() {
    let child = ("a/child.rs", "pub trait Tell { fn tell(&self); } use super::Parent;");
    let exports = "mod child; pub(crate) use self::child::Tell; pub struct Parent;";
    assert!(circles(&[("lib.rs", "mod a;"), ("a/mod.rs", exports), child]).is_empty());
    let calls = format!("{exports} fn f(x: u8) {{ x.tell() }}");
    assert_eq!(circles(&[("lib.rs", "mod a;"), ("a/mod.rs", &calls), child]).len(), 1);
}

#[test]
fn every_way_to_write_a_path_is_followed() {
    let target = "pub struct B; pub enum E { One } pub fn f() {} pub const LIMIT: u8 = 1; \
                  pub trait T { fn t(); } pub mod inner { pub struct I; } \
                  macro_rules! m { () => {} } pub(crate) use m;";
    for text in [
        "use crate::b::B as Other;",
        "use crate::{b::{self, inner}};  fn g(_: inner::I) {}",
        "use super::b; fn g() { b::f() }",
        "use crate::b::*; fn g(_: B) {}",
        "use crate::b::E::*; fn g() { let _ = One; }",
        "fn g() { crate::b::f() }",
        "fn g() { use crate::b::f; f() }",
        "fn g(x: u8) -> bool { matches!(x, crate::b::LIMIT) }",
        "use crate::b as other; fn g(x: u8) { match x { other::LIMIT => {} _ => {} } }",
        "use crate::b as other; fn g() { assert!(Some(other::E::One).is_some()); }",
        "fn g<X: super::b::T>() {}",
        "fn g() { <u8 as super::b::T>::t() }",
        "fn g() -> Vec<Option<&'static dyn crate::b::T>> { vec![] }",
        "mod inside { fn g(_: super::super::b::B) {} }",
        "mod inside { use super::super::b::*; fn g(_: &[B]) {} }",
        "macro_rules! n { ($x:expr) => { $crate::b::f($x) } }",
        "crate::b::m! {}",
        "m! {}",
        "#[derive(Clone)] #[with(crate::b::f)] struct S;",
        "struct S { #[doc = \"x\"] x: [u8; crate::b::LIMIT as usize] }",
        "impl crate::b::T for u8 { fn t() {} }",
        "use r#crate_like::x; use crate::r#b::B;",
        "#[cfg(not(test))] use crate::b::B;",
    ] {
        let files = [ROOT, ("a.rs", text), ("b.rs", target)];
        assert_eq!(arrows(&files), ["a.rs > b.rs"], "{text}");
    }
}

#[test]
fn what_is_no_use_of_another_file_is_not_counted() {
    for text in [
        "use crate::b;",
        "/// [`crate::b::B`] fn g() {} \n fn g() {}",
        "#[cfg(test)] mod tests { use crate::b::B; }",
        "struct S; impl S { #[cfg(test)] fn g(_: crate::b::B) {} }",
        "use b::B; use ::b::B as C; fn g(_: ::b::B) {}",
        "pub use crate::b::B;",
        "pub(in crate::a) struct B; fn g(_: B) {}",
        "fn g(b: u8) -> String { format!(\"crate::b::B {}\", b.f(self::inner::f())) } mod inner { pub fn f() {} }",
    ] {
        let files = [ROOT, ("a.rs", text), ("b.rs", "pub struct B; pub fn f() {}")];
        assert!(arrows(&files).is_empty(), "{text}: {:?}", arrows(&files));
    }
}

#[test]
fn a_path_through_re_exports_leads_to_the_file_that_defines_the_item() {
    let files = [
        ("lib.rs", "mod a; mod b; mod c; pub use b::{Deep, Other as Renamed};"),
        ("a.rs", "use crate::Deep; fn g(_: crate::Renamed) {}"),
        ("b/mod.rs", "mod low; pub use low::*; pub struct Mine;"),
        ("b/low.rs", "pub struct Deep; pub use crate::c::Other;"),
        ("c.rs", "pub struct Other;"),
    ];
    assert_eq!(arrows(&files), ["a.rs > b/low.rs", "a.rs > c.rs"]);
}

#[test]
fn what_an_impl_defines_is_where_the_impl_is() {
    let root = ("lib.rs", "mod a; mod b; mod c;");
    let low = ("b.rs", "pub struct B;");
    let made =
        ("c.rs", "impl crate::b::B { pub fn make() -> Self { Self::other() } fn other() {} }");
    let calls = ("a.rs", "fn g() { crate::b::B::make() }");
    assert_eq!(arrows(&[root, calls, low, made]), ["a.rs > b.rs", "a.rs > c.rs", "c.rs > b.rs"]);
    // A call of a method is no path.
    let calls = ("a.rs", "fn g(b: u8) { b.make() }");
    assert_eq!(arrows(&[root, calls, low, made]), ["c.rs > b.rs"]);
    // `Self` is the type of the block.
    let back = ("b.rs", "pub struct B; impl B { fn g() { Self::make() } }");
    assert_eq!(circles(&[root, ("a.rs", ""), back, made]), ["b.rs, c.rs"]);
}

#[test]
fn items_that_a_macro_makes_are_where_it_is_called() {
    let files = [
        ("lib.rs", "#[macro_use] mod a; mod b; mod c;"),
        ("a.rs", "macro_rules! make { ($name:ident) => { pub struct $name; } }"),
        ("b.rs", "make!(Made);"),
        ("c.rs", "fn g(_: crate::b::Made) {}"),
    ];
    assert_eq!(arrows(&files), ["b.rs > a.rs", "c.rs > b.rs"]);
}

#[test]
#[should_panic(expected = "a.rs names crate::b::Gone, and there is none")]
fn a_path_that_leads_nowhere_is_not_passed_over() {
    of(&[ROOT, ("a.rs", "fn g(_: crate::b::Gone) {}"), ("b.rs", "")]);
}

#[test]
#[should_panic(expected = "there is no file for c")]
fn a_module_without_a_file_is_not_passed_over() {
    of(&[("lib.rs", "mod c;")]);
}

#[test]
fn a_file_names_a_module_in_a_use_in_code_and_in_a_macro() {
    let files = [
        ("lib.rs", "mod low; mod mid; mod top;"),
        ("low.rs", "pub struct Low;"),
        ("mid.rs", "pub use crate::low::Low;"),
        ("top/mod.rs", "mod a; mod b; mod c; mod d; use crate::mid::Low; fn low(low: Low) {}"),
        ("top/a.rs", "use crate::{low, mid};"),
        ("top/b.rs", "fn b(_: crate::low::Low) {}"),
        ("top/c.rs", "some! { crate::low::Low }"),
        ("top/d.rs", "#[cfg(test)] mod tests { use crate::low::Low; }"),
    ];
    let found = naming(&sources(&files), "top/", "low");
    assert_eq!(
        found,
        [
            "top/a.rs names crate::low",
            "top/b.rs names crate::low::Low",
            "top/c.rs names crate::low::Low"
        ]
    );
}
