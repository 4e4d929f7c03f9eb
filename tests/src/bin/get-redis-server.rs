//! Prints the path of the `redis-server` that the tests use, and installs one under the target
//! folder if there is none.

#![forbid(unsafe_code)]

fn main() {
    println!("{}", lock_tests::redis_server().display());
}
