//! Several holders as one.

use std::sync::Arc;

use crate::Backend;

/// A store in which several leases can hold a key together, as one holder. So the owner of a reentrant lock enters
/// the lock in another process.
///
/// The trait has no methods. [`Mode::is_joint`](crate::Mode::is_joint) has an example of the mode. A backend that
/// implements the trait promises to serve [`Mode::Joint`](crate::Mode::Joint):
///
/// - The backend MUST name the capability in its [capabilities](Backend::capabilities) (`a_store_with_groups_says_so`).
/// - A claim of the group that holds the key MUST be granted at once, before all waiters
///   (`a_group_holds_a_key_together`), with the tokens of the group (`a_group_has_one_set_of_tokens`).
/// - While a member of the group holds the key, claims of other groups and in every other mode MUST be refused
///   (`groups_exclude_each_other`). They are served when the last member has let go
///   (`a_group_holds_until_its_last_member_leaves`).
/// - Each member's lease MUST end on its own (`each_member_has_its_own_lease`).
/// - A group that comes again after all its members have left MUST get new tokens
///   (`a_group_that_returns_gets_new_tokens`).
/// - All claims of one group that wait in the queue MUST be granted together
///   (`a_group_in_line_is_granted_together`).
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot let several processes hold a lock as one",
    label = "an owner enters the locks of this backend in its own process only",
    note = "implement `lock_core::JointBackend` for it if it can, and name it in `Backend::capabilities`",
    note = "a quorum cannot: there, another process asks the process that holds the lock to do the work instead of \
            entering the lock itself"
)]
pub trait JointBackend: Backend {}

impl<B: JointBackend + ?Sized> JointBackend for Arc<B> {}
impl<B: JointBackend + ?Sized> JointBackend for Box<B> {}
