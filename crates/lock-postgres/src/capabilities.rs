//! What the backend can do beside the verbs.

use std::time::Duration;

use async_trait::async_trait;
use lock_core::{
    AcquireOutcome, Cell, CellBackend, Claim, Committed, Convert, ConvertBackend, Convertible,
    Cursor, Error, ErrorKind, FencingToken, Holder, InspectBackend, Inspection, JointBackend, Key,
    Kind, Label, List, Listed, Mode, Page, PermitBackend, Permits, Released, Resize, Resized,
    SharedBackend, Stored, Waiter,
};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::answer::{cell, column, micros};
use crate::backend::{PostgresBackend, released};
use crate::failure::protocol;
use crate::link::Statement;
use crate::naming;

impl SharedBackend for PostgresBackend {
    type Conversion = Convertible;
}

impl JointBackend for PostgresBackend {}

#[async_trait]
impl ConvertBackend for PostgresBackend {
    async fn convert(&self, request: &Convert) -> Result<AcquireOutcome, Error> {
        self.ask_conversion(request).await
    }
}

#[async_trait]
impl PermitBackend for PostgresBackend {
    async fn permits(&self, key: &Key, of: u32) -> Result<Permits, Error> {
        let key = naming::key(key);
        let statement = Statement::new("SELECT * FROM lock_v1.permits($1, $2)");
        let statement = statement.bytes(key.clone()).long(of.into());
        counted(&self.shared.ask_one(&key, statement).await?)
    }

    async fn resize(&self, key: &Key, of: u32, change: Resize) -> Result<Resized, Error> {
        let (what, many) = match change {
            Resize::Add(many) => ("a", many),
            Resize::Remove(many) => ("r", many),
            Resize::Declare => ("d", 0),
            _ => {
                return Err(Error::new(ErrorKind::Unsupported, "this backend lacks such a change"));
            }
        };
        let key = naming::key(key);
        let statement = Statement::new("SELECT * FROM lock_v1.resize($1, $2, $3, $4, $5)")
            .bytes(key.clone())
            .long(of.into())
            .text(what.to_owned())
            .long(many.into())
            .text(self.shared.inbox.name());
        let row = self.shared.ask_one(&key, statement).await?;
        Ok(Resized::new(number(&row, 4)?, counted(&row)?))
    }

    async fn forget(&self, claim: &Claim) -> Result<Released, Error> {
        if !claim.mode.counts() {
            return Err(Error::new(ErrorKind::InvalidConfig, "only permits can be forgotten"));
        }
        let (key, statement) = Self::about("SELECT lock_v1.forget($1, $2, $3, $4)", claim)?;
        let statement = statement.text(self.shared.inbox.name());
        released(&self.shared.ask_one(&key, statement).await?)
    }

    async fn close(&self, key: &Key, of: u32) -> Result<(), Error> {
        let key = naming::key(key);
        let statement = Statement::new("SELECT lock_v1.close($1, $2, $3)")
            .bytes(key.clone())
            .long(of.into())
            .text(self.shared.inbox.name());
        self.shared.ask(&key, statement).await.map(drop)
    }

    async fn undeclare(&self, claim: &Claim) -> Result<bool, Error> {
        Permits::check_undeclaring(claim)?;
        let key = naming::key(&claim.key);
        let statement = Statement::new("SELECT lock_v1.undeclare($1, $2)")
            .bytes(key.clone())
            .text(naming::owner(&claim.owner));
        column(&self.shared.ask_one(&key, statement).await?, 0)
    }
}

/// A number that fits into 32 bits by the rules of the schema.
fn number(row: &Row, index: usize) -> Result<u32, Error> {
    let number: i64 = column(row, index)?;
    Ok(u32::try_from(number.max(0)).unwrap_or(u32::MAX))
}

fn counted(row: &Row) -> Result<Permits, Error> {
    let mut permits = Permits::new(number(row, 0)?);
    permits.held = number(row, 1)?;
    permits.waiting = number(row, 2)?;
    permits.closed = column(row, 3)?;
    Ok(permits)
}

impl PostgresBackend {
    fn writing(
        sql: &'static str,
        claim: &Claim,
        token: FencingToken,
        value: Option<&[u8]>,
    ) -> Result<(Vec<u8>, Statement), Error> {
        let token = i64::try_from(token).map_err(|_| protocol("a token beyond 63 bits"))?;
        let key = naming::key(&claim.key);
        let statement = Statement::new(sql)
            .bytes(key.clone())
            .text(naming::owner(&claim.owner))
            .long(token)
            .with(value.map(<[u8]>::to_vec), Type::BYTEA);
        Ok((key, statement))
    }
}

#[async_trait]
impl CellBackend for PostgresBackend {
    async fn load(&self, key: &Key) -> Result<Option<Cell>, Error> {
        let key = naming::key(key);
        let statement = Statement::new("SELECT * FROM lock_v1.load($1)").bytes(key.clone());
        cell(&self.shared.ask_one(&key, statement).await?, 0)
    }

    async fn store(
        &self,
        claim: &Claim,
        token: FencingToken,
        value: Option<&[u8]>,
    ) -> Result<Stored, Error> {
        Cell::check(claim, value)?;
        let sql = "SELECT lock_v1.store($1, $2, $3, $4, $5)";
        let (key, statement) = Self::writing(sql, claim, token, value)?;
        let statement = statement.text(self.shared.inbox.name());
        let is_written: bool = column(&self.shared.ask_one(&key, statement).await?, 0)?;
        Ok(if is_written { Stored::Written } else { Stored::NotHeld })
    }

    async fn commit(
        &self,
        claim: &Claim,
        token: FencingToken,
        value: &[u8],
    ) -> Result<Committed, Error> {
        Cell::check(claim, Some(value))?;
        let sql = "SELECT lock_v1.commit($1, $2, $3, $4, $5)";
        let (key, statement) = Self::writing(sql, claim, token, Some(value))?;
        let statement = statement.text(self.shared.inbox.name());
        let told: i32 = column(&self.shared.ask_one(&key, statement).await?, 0)?;
        Ok(u32::try_from(told).map_or(Committed::NotHeld, |told| Committed::Done { told }))
    }
}

/// The most rows that an inspection lists of each part.
const MOST_ROWS: i32 = Inspection::MAX as i32;

#[async_trait]
impl InspectBackend for PostgresBackend {
    async fn inspect(&self, key: &Key) -> Result<Inspection, Error> {
        let key = naming::key(key);
        let statement = Statement::new("SELECT * FROM lock_v1.inspect($1, $2)");
        let rows = self.shared.ask(&key, statement.bytes(key.clone()).int(MOST_ROWS)).await?.rows;
        inspection(&rows, 0)
    }

    async fn list(&self, list: &List) -> Result<Page, Error> {
        let prefix = naming::prefix(&list.prefix, list.raw);
        // The cursor is the last key of the page before. The next key comes after it and a zero byte.
        let from = list.from.as_ref().map(|cursor| [cursor.as_bytes(), &[0]].concat());
        let page = i32::try_from(list.most.get()).unwrap_or(i32::MAX);
        let statement = Statement::new("SELECT * FROM lock_v1.list($1, $2, $3, $4)")
            .bytes(from.unwrap_or_else(|| prefix.clone()))
            .with(naming::after(&prefix), Type::BYTEA)
            .int(page)
            .int(MOST_ROWS);
        let rows = self.shared.ask(&prefix, statement).await?.rows;
        let keys = rows.iter().map(|row| column(row, 0)).collect::<Result<Vec<&[u8]>, _>>()?;
        let mut locks = Vec::new();
        let (mut begin, mut seen) = (0, 0);
        while let Some(key) = keys.get(begin) {
            let end = begin + keys[begin..].iter().take_while(|other| *other == key).count();
            let inspection = inspection(&rows[begin..end], 1)?;
            if let Some(key) =
                naming::key_of(key).filter(|_| inspection.holding + inspection.waiting > 0)
            {
                locks.push(Listed::new(key, inspection));
            }
            (begin, seen) = (end, seen + 1);
        }
        let next = keys.last().filter(|_| seen >= page).map(|key| Cursor::new(*key));
        Ok(Page::new(locks, next))
    }

    async fn force_release(&self, key: &Key) -> Result<u64, Error> {
        let key = naming::key(key);
        let statement = Statement::new("SELECT lock_v1.force_release($1, $2)");
        let statement = statement.bytes(key.clone()).text(self.shared.inbox.name());
        let ended: i64 = column(&self.shared.ask_one(&key, statement).await?, 0)?;
        Ok(u64::try_from(ended).unwrap_or(0))
    }
}

/// What the rows of `look` say, which begin at this column.
fn inspection(rows: &[Row], from: usize) -> Result<Inspection, Error> {
    let (mut holders, mut waiters) = ((Vec::new(), 0), (Vec::new(), 0));
    for row in rows {
        let Some(part) = column::<Option<&str>>(row, from)? else { continue };
        let kind = kind(column(row, from + 1)?).ok_or_else(|| protocol("the mode of a lease"))?;
        let rest: i64 = column(row, from + 3)?;
        let label: Option<&str> = column(row, from + 4)?;
        let label = label.and_then(|label| Label::new(label).ok());
        let all: i64 = column(row, from + 5)?;
        let all = u64::try_from(all).unwrap_or(0);
        if part == "h" {
            let token: Option<i64> = column(row, from + 2)?;
            let token = token.and_then(|token| FencingToken::try_from(token).ok());
            let rest: Duration = micros(rest);
            holders.0.push(Holder::new(kind, token, Some(rest)).labelled(label));
            holders.1 = all;
        } else {
            let waited: Option<i64> = column(row, from + 6)?;
            let waiter = Waiter::new(kind, micros(rest)).waiting_for(waited.map(micros));
            waiters.0.push(waiter.labelled(label));
            waiters.1 = all;
        }
    }
    Ok(Inspection::new(holders, waiters))
}

/// A letter of a mode and the number of permits.
fn kind(text: &str) -> Option<Kind> {
    let owner = lock_core::OwnerToken::from_bytes([0; 16]);
    let (letter, take) = text.split_at_checked(1)?;
    let mode = match letter {
        "x" => Mode::Exclusive,
        "s" => Mode::Shared,
        "u" => Mode::Upgradable,
        "p" => Mode::Permits { take: take.parse().ok()?, of: 0 },
        "j" => Mode::Joint { group: owner },
        _ => return None,
    };
    Some(mode.kind())
}
