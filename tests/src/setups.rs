//! One law in several setups.

use std::thread;

/// Runs a law in all of these setups at once, because most laws wait for leases to end. Each setup has a thread of its
/// own.
///
/// ```
/// let sums = [("small", 1), ("large", 1_000)];
/// let law = |sum: i32| move || assert!(sum + 1 > sum);
/// lock_tests::in_all_setups("it_grows", sums.map(|(name, sum)| (name, law(sum))));
/// ```
///
/// # Panics
///
/// If the law panics in some setup. The message names these setups.
#[track_caller]
pub fn in_all_setups<F>(law: &str, setups: impl IntoIterator<Item = (&'static str, F)>)
where
    F: FnOnce() + Send,
{
    thread::scope(|scope| {
        let begin = |(name, enforce)| {
            let thread = thread::Builder::new().name(format!("{law}, {name}"));
            (name, thread.spawn_scoped(scope, enforce).expect("a thread"))
        };
        let all: Vec<_> = setups.into_iter().map(begin).collect();
        let broken = all.into_iter().filter_map(|(name, law)| law.join().is_err().then_some(name));
        let broken: Vec<_> = broken.collect();
        assert!(broken.is_empty(), "{law} is broken with {broken:?}");
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = r#"a_law is broken with ["bad"]"#)]
    fn a_law_that_is_broken_in_one_setup_is_broken() {
        in_all_setups(
            "a_law",
            [("good", true), ("bad", false)].map(|(name, holds)| (name, move || assert!(holds))),
        );
    }
}
