//! The fence inside a transaction of the app. The [example](check#examples) of `check` sells an apple under a lock.

use std::collections::BTreeSet;

use lock_core::{Error, FencingToken, Key};
use tokio_postgres::Transaction;
use tokio_postgres::types::{ToSql, Type};

use crate::{failure, naming};

/// Fails unless a lease with this token still holds the lock, exclusively, and no newer token was seen. With several
/// locks, each of them is checked. The `Lease` of a guard of lock-sync has [`fencing_tokens`] for this call.
///
/// [`fencing_tokens`]: https://docs.rs/lock-sync/latest/lock_sync/struct.Lease.html#method.fencing_tokens
///
/// The transaction must be one of the database in which the locks are. Until the transaction ends, the database grants
/// the lock to no other owner, even if the lease expires. So what the transaction writes is committed before the next
/// holder begins, or not at all. Renewals go on. Keep such transactions short: waiters wait for them.
///
/// A rollback to a savepoint that is older than the check undoes the check, and then the lock can be granted to another
/// owner.
///
/// Call it before the writes, at `REPEATABLE READ` and `SERIALIZABLE` as the first statement: a transaction does not
/// see a lease that is younger than its first statement. Treat every error as the end of the transaction: PostgreSQL
/// refuses further statements in it, so nothing is committed.
///
/// Any other driver calls the function in SQL: `SELECT lock_v1.check('stock/apples', 871234567890123)`.
///
/// # Errors
///
/// [`ErrorKind::NotHeld`](lock_core::ErrorKind::NotHeld) if the lease is over or a newer token was seen;
/// [`ErrorKind::NotReady`](lock_core::ErrorKind::NotReady) if the transaction does not see the lease, and a repetition
/// of the transaction may; else any error of the database or of the connection to it.
///
/// # Cancel safety
///
/// Dropping the future leaves open whether the check was made. Do not commit then.
///
/// # Examples
///
/// ```no_run
/// use lock_core::{FencingToken, Key};
///
/// # async fn sell(client: &mut tokio_postgres::Client, token: FencingToken) -> Result<(), Box<dyn std::error::Error>> {
/// let sale = client.transaction().await?;
/// lock_postgres::fence::check(&sale, [(&Key::new("stock/apples")?, token)]).await?;
/// sale.execute("UPDATE stock SET apples = apples - 1", &[]).await?;
/// sale.commit().await?;
/// # Ok(())
/// # }
/// ```
pub async fn check(
    transaction: &Transaction<'_>,
    fences: impl IntoIterator<Item = (&Key, FencingToken)>,
) -> Result<(), Error> {
    run(transaction, "SELECT lock_v1.check_key($1, $2)", fences).await
}

/// As [`check`], for a lease in any other mode: of a reader, of permits or of a group. Their tokens have no order.
///
/// A reader also passes while the lease of its process is still exclusive: after a downgrade, the database hears of it a
/// moment later. Such a reader fails if a newer token of that lease was seen.
///
/// # Errors
///
/// As [`check`].
///
/// # Cancel safety
///
/// As [`check`].
pub async fn check_shared(
    transaction: &Transaction<'_>,
    fences: impl IntoIterator<Item = (&Key, FencingToken)>,
) -> Result<(), Error> {
    run(transaction, "SELECT lock_v1.check_shared_key($1, $2)", fences).await
}

async fn run(
    transaction: &Transaction<'_>,
    sql: &str,
    fences: impl IntoIterator<Item = (&Key, FencingToken)>,
) -> Result<(), Error> {
    // In the order of the keys, so that two transactions do not wait for each other.
    let fences: BTreeSet<_> =
        fences.into_iter().map(|(key, token)| (naming::key(key), token)).collect();
    for (key, token) in fences {
        let token =
            i64::try_from(token).map_err(|_| failure::protocol("a token beyond 63 bits"))?;
        let params: [(&(dyn ToSql + Sync), Type); 2] = [(&key, Type::BYTEA), (&token, Type::INT8)];
        transaction.query_typed(sql, &params).await.map_err(failure::of)?;
    }
    Ok(())
}
