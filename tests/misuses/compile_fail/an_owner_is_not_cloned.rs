//! An owner is in two places only on purpose.

use lock_sync::Owner;

fn main() {
    let owner = Owner::new().unwrap();
    let _ = (owner.clone(), owner.to_string());
}
