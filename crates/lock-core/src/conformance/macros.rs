//! The macro that makes tests of laws.

/// Makes one `#[tokio::test]` of each law of [`Backend`](crate::Backend), for the harness that an
/// expression makes.
///
/// The expression is evaluated in each test anew and may await. What follows it goes to
/// `#[tokio::test]`.
///
/// # Examples
///
/// ```
/// mod real_time {
///     use lock_core::memory::MemoryBackend;
///     lock_core::conformance_tests!(MemoryBackend::new());
/// }
///
/// mod paused_time {
///     use lock_core::memory::MemoryBackend;
///     lock_core::conformance_tests!(MemoryBackend::new(), start_paused = true);
/// }
///
/// mod many_threads {
///     use lock_core::memory::MemoryBackend;
///     lock_core::conformance_tests!(
///         MemoryBackend::new(),
///         flavor = "multi_thread",
///         worker_threads = 4
///     );
/// }
/// # fn main() {}
/// ```
#[macro_export]
#[cfg_attr(docsrs, doc(cfg(feature = "conformance")))]
macro_rules! conformance_tests {
    ($harness:expr $(, $($option:ident = $value:tt),* $(,)?)?) => {
        $crate::__lock_core_laws! {
            [$crate::__lock_core_tests] ($harness) ($($($option = $value),*)?)
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __lock_core_tests {
    (($harness:expr) $options:tt $($group:ident { $($law:ident: $sentence:literal,)* })*) => {$($(
        #[doc = $sentence]
        #[::tokio::test $options]
        async fn $law() {
            $crate::conformance::enforce(stringify!($law), &$harness).await;
        }
    )*)*};
}
