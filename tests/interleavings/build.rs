//! Has lock-sync built with the locks and atomics of a scheduler: see `sync.rs` there.

fn main() {
    println!("cargo::rustc-cfg=shuttle");
    println!("cargo::rerun-if-changed=build.rs");
}
