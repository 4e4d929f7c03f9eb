//! The check of examples, over made-up crates.

use std::path::Path;

use super::{Name, names, without};
use crate::files::Sources;

fn read(files: &[(&str, &str)]) -> Vec<Name> {
    let sources: Sources =
        files.iter().map(|(file, text)| ((*file).to_owned(), (*text).to_owned())).collect();
    names(Path::new("made_up"), &sources)
}

/// The names of a crate with this one file that have no example.
fn lacking(text: &str) -> Vec<String> {
    without(&[read(&[("lib.rs", text)])]).iter().map(|name| name.path()).collect()
}

const CODE: &str = "/// ```\n/// Shown::new().used();\n/// ```\n";

#[test]
fn every_kind_of_public_name_is_found() {
    let text = "
        pub struct A; pub enum B {} pub trait C { fn d(); const E: u8; type F; }
        impl<T: Into<u8>> A where T: Fn() -> u8 { pub const fn g() {} pub async fn h(&self) {} }
        pub const I: u8 = 1; pub fn j() { struct Within; } pub type K = u8;
        macro_rules! documented { ($(#[$doc:meta])*) => { $(#[$doc])* pub struct Elsewhere; } }
        macro_rules! make { ($name:ident) => { pub struct $name; impl $name { pub fn l() {} } } }
    ";
    let expected =
        ["A", "B", "C", "C::d", "C::E", "C::F", "A::g", "A::h", "I", "j", "K", "$name", "$name::l"];
    assert_eq!(lacking(text), expected);
}

#[test]
fn private_names_tests_and_members_of_implemented_traits_do_not_count() {
    let text = "
        struct A; impl A { fn b() {} pub(crate) fn c() {} } pub(crate) struct D { pub e: u8 }
        impl Clone for A { fn clone(&self) -> Self { A } } trait F { fn g(); }
        mod sealed { pub trait G {} } #[cfg(test)] mod tests { pub fn h() {} } #[cfg(test)] pub fn i() {}
    ";
    assert_eq!(lacking(text), [""; 0]);
}

#[test]
fn an_example_of_its_own_or_on_the_page_is_enough() {
    let members = "impl Shown { pub fn new() {} pub fn used(&self) {} pub fn user(&self) {} }";
    let text = format!("{CODE} pub struct Shown; {members} {CODE} pub fn f() {{}}");
    assert_eq!(lacking(&text), ["Shown::user"]);
    // The page of another type shows nothing.
    let text = format!(
        "{CODE} pub struct Other; {CODE} pub struct Shown; impl Other {{ pub fn used() {{}} }} impl Shown {{ pub fn user() {{}} }}"
    );
    assert_eq!(lacking(&text), ["Shown::user"]);
}

#[test]
fn an_example_on_a_page_that_the_type_links_to_is_enough() {
    let part = |docs: &str| {
        let members = "impl Part { pub fn new() {} pub fn part(&self) {} }";
        lacking(&format!("{CODE} pub struct Shown;\n/// {docs}\npub struct Part; {members}"))
    };
    assert_eq!(part("The [example](crate::Shown#examples) of another type."), ["Part::part"]);
    assert_eq!(part("Nothing."), ["Part", "Part::new", "Part::part"]);
}

#[test]
fn a_link_counts_if_it_leads_to_an_example() {
    let linked = |docs: &str| {
        let members =
            format!("impl Shown {{ pub fn used() {{}}\n/// {docs}\npub fn other() {{}} }}");
        lacking(&format!("{CODE} pub struct Shown; pub struct Bare; {members}"))
    };
    for docs in
        ["[`Shown`]", "[`Self::used`]", "as [there](crate::Shown::used()#more)", "[x]: Shown"]
    {
        assert_eq!(linked(docs), ["Bare"], "{docs}");
    }
    for docs in ["[`Bare`]", "Shown", "[`Shown::other`]", "[Shown](https://example.com)"] {
        assert_eq!(linked(docs), ["Bare", "Shown::other"], "{docs}");
    }
}

#[test]
fn a_module_has_the_docs_of_its_file() {
    let page = "//! ```\n//! let a = 1;\n//! ```\n";
    let text = "pub mod page; pub mod empty; /// [`page`]\npub struct A;";
    let found = read(&[("lib.rs", text), ("page/mod.rs", page), ("empty.rs", "")]);
    let lacking: Vec<String> = without(&[found]).iter().map(|name| name.path()).collect();
    assert_eq!(lacking, ["empty"]);
}
