//! The macro that makes tests of laws.

/// Makes one `#[tokio::test]` of each law of [`Backend`](crate::Backend), and of each law of the named
/// capabilities. An expression makes the harness.
///
/// Each test evaluates the expression anew, and the expression may await. `capabilities: [...]` may follow it, with
/// any of `shared`, `convert`, `joint`, `permits`, `cell`, `inspect` and `quorum`. The clients of the harness then
/// have to implement [`SharedBackend`](crate::SharedBackend), [`ConvertBackend`](crate::ConvertBackend),
/// [`JointBackend`](crate::JointBackend), [`PermitBackend`](crate::PermitBackend),
/// [`CellBackend`](crate::CellBackend), [`InspectBackend`](crate::InspectBackend) and
/// [`QuorumNode`](crate::QuorumNode), respectively. `permits` also makes a module `one_permit`, which tests the
/// laws of a mutex with a semaphore of one permit. All further arguments go to
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
/// mod with_capabilities_on_many_threads {
///     use lock_core::memory::MemoryBackend;
///     lock_core::conformance_tests!(
///         MemoryBackend::new(),
///         capabilities: [shared, convert, permits, inspect],
///         flavor = "multi_thread",
///         worker_threads = 4
///     );
/// }
/// # fn main() {}
/// ```
#[macro_export]
#[cfg_attr(docsrs, doc(cfg(feature = "conformance")))]
macro_rules! conformance_tests {
    (
        $harness:expr,
        capabilities: [$($capability:ident),* $(,)?]
        $(, $($option:ident = $value:tt),* $(,)?)?
    ) => {
        $crate::conformance_tests! { $harness $(, $($option = $value),*)? }
        $crate::__lock_core_capabilities! {
            [$($capability)*] ($harness) ($($($option = $value),*)?)
        }
    };
    ($harness:expr $(, $($option:ident = $value:tt),* $(,)?)?) => {
        $crate::__lock_core_laws! {
            [$crate::__lock_core_tests] backend ($harness) ($($($option = $value),*)?)
        }
    };
}

/// Makes the tests of each capability in the list.
#[doc(hidden)]
#[macro_export]
macro_rules! __lock_core_capabilities {
    ([] $harness:tt $options:tt) => {};
    ([shared $($more:ident)*] $harness:tt $options:tt) => {
        $crate::__lock_core_shared_laws! {
            [$crate::__lock_core_tests] shared $harness $options
        }
        $crate::__lock_core_capabilities! { [$($more)*] $harness $options }
    };
    ([convert $($more:ident)*] $harness:tt $options:tt) => {
        $crate::__lock_core_convert_laws! {
            [$crate::__lock_core_tests] convert $harness $options
        }
        $crate::__lock_core_capabilities! { [$($more)*] $harness $options }
    };
    ([joint $($more:ident)*] $harness:tt $options:tt) => {
        $crate::__lock_core_joint_laws! {
            [$crate::__lock_core_tests] joint $harness $options
        }
        $crate::__lock_core_capabilities! { [$($more)*] $harness $options }
    };
    ([permits $($more:ident)*] $harness:tt $options:tt) => {
        $crate::__lock_core_permit_laws! {
            [$crate::__lock_core_tests] permits $harness $options
        }
        $crate::__lock_core_one_permit! { $harness $options }
        $crate::__lock_core_capabilities! { [$($more)*] $harness $options }
    };
    ([cell $($more:ident)*] $harness:tt $options:tt) => {
        $crate::__lock_core_cell_laws! {
            [$crate::__lock_core_tests] cell $harness $options
        }
        $crate::__lock_core_capabilities! { [$($more)*] $harness $options }
    };
    ([inspect $($more:ident)*] $harness:tt $options:tt) => {
        $crate::__lock_core_inspect_laws! {
            [$crate::__lock_core_tests] inspect $harness $options
        }
        $crate::__lock_core_capabilities! { [$($more)*] $harness $options }
    };
    ([quorum $($more:ident)*] $harness:tt $options:tt) => {
        $crate::__lock_core_quorum_laws! {
            [$crate::__lock_core_tests] quorum $harness $options
        }
        $crate::__lock_core_capabilities! { [$($more)*] $harness $options }
    };
}

/// Makes the tests of a mutex once more, in a module because their names are taken. The harness is made
/// outside the module, where its expression was written.
#[doc(hidden)]
#[macro_export]
macro_rules! __lock_core_one_permit {
    (($harness:expr) $options:tt) => {
        #[cfg(test)]
        async fn __lock_core_harness()
        -> impl $crate::conformance::Harness<Client: $crate::PermitBackend> {
            $harness
        }

        #[cfg(test)]
        mod one_permit {
            $crate::__lock_core_mutex_laws! {
                [$crate::__lock_core_tests]
                one_permit (super::__lock_core_harness().await) $options
            }
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __lock_core_tests {
    (
        $suite:ident ($harness:expr) $options:tt
        $($group:ident { $($law:ident: $sentence:literal,)* })*
    ) => {$($(
        #[doc = $sentence]
        #[::tokio::test $options]
        async fn $law() {
            $crate::conformance::Suite::$suite().enforce(stringify!($law), &$harness).await;
        }
    )*)*};
}
