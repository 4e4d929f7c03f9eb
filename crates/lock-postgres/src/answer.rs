//! The answers of the verbs. Pure.

use std::num::NonZeroU32;
use std::time::Duration;

use lock_core::{
    AcquireOutcome, Cell, Contention, Error, ErrorKind, FencingToken, Grant, Instant, LoadedValue,
    Renewal, TokenRange, Ttl,
};
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use crate::failure::protocol;

/// A row of the type `lock_v1.answer`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Answer {
    pub(crate) verdict: Option<String>,
    first: Option<i64>,
    count: Option<i32>,
    ttl: Option<i32>,
    rest: Option<i64>,
    contention: Option<String>,
    /// The clock of the server, in microseconds.
    pub(crate) at: Option<i64>,
    value: Option<LoadedValue>,
}

/// A column of a row.
pub(crate) fn column<'a, T: FromSql<'a>>(row: &'a Row, index: usize) -> Result<T, Error> {
    row.try_get(index)
        .map_err(|error| Error::with_source(ErrorKind::Protocol, "an unexpected answer", error))
}

impl Answer {
    pub(crate) fn of(row: &Row) -> Result<Self, Error> {
        let has_value: Option<bool> = column(row, 7)?;
        let value = match has_value {
            Some(true) => Some(LoadedValue::new(cell(row, 8)?)),
            _ => None,
        };
        Ok(Self {
            verdict: column(row, 0)?,
            first: column(row, 1)?,
            count: column(row, 2)?,
            ttl: column(row, 3)?,
            rest: column(row, 4)?,
            contention: column(row, 5)?,
            at: column(row, 6)?,
            value,
        })
    }

    /// The outcome of a request that was sent at this time.
    pub(crate) fn outcome(self, sent: Instant) -> Result<AcquireOutcome, Error> {
        let retry_after = self.rest.map(micros);
        match self.verdict.as_deref() {
            Some("G") => self.grant(sent).map(AcquireOutcome::Granted),
            Some("Q") => Ok(AcquireOutcome::Queued { retry_after }),
            Some("B") => Ok(AcquireOutcome::Busy { retry_after }),
            Some("C") => Err(Error::new(ErrorKind::Closed, "the semaphore is closed")),
            Some("N") => {
                Err(Error::new(ErrorKind::NotHeld, "the lease that was to be converted is over"))
            }
            _ => Err(protocol("the verdict")),
        }
    }

    /// Whether the answer shows that the database has no watch of the client. `queue`: the request asks for a place.
    pub(crate) fn shows_no_watch(&self, queue: bool) -> bool {
        match self.verdict.as_deref() {
            Some("G") => contention(self.contention.as_deref()) == Contention::Unknown,
            Some("B") => queue,
            _ => false,
        }
    }

    /// The lease lives for `rest` from some instant after `sent`.
    fn grant(self, sent: Instant) -> Result<Grant, Error> {
        let tokens = self.tokens().ok_or_else(|| protocol("the tokens of a grant"))?;
        let (Some(ttl), Some(rest)) = (self.ttl, self.rest) else {
            return Err(protocol("the time of a grant"));
        };
        let left = micros(rest).saturating_sub(ttl_of(ttl).drift());
        let mut grant =
            Grant::new(tokens, sent + left).with_contention(contention(self.contention.as_deref()));
        grant.value = self.value;
        Ok(grant)
    }

    /// The outcome of a renewal that was sent at this time.
    pub(crate) fn renewal(self, ttl: Ttl, sent: Instant) -> Result<Renewal, Error> {
        match self.verdict.as_deref() {
            Some("N") => Ok(Renewal::Lost),
            Some("G") => Ok(Renewal::Renewed {
                valid_until: ttl.valid_until(sent),
                tokens: self.tokens(),
                contention: contention(self.contention.as_deref()),
            }),
            _ => Err(protocol("the verdict")),
        }
    }

    fn tokens(&self) -> Option<TokenRange> {
        tokens(self.first?, self.count?)
    }
}

pub(crate) fn tokens(first: i64, count: i32) -> Option<TokenRange> {
    let first = FencingToken::try_from(first).ok()?;
    let count = NonZeroU32::new(u32::try_from(count).ok()?)?;
    Some(TokenRange::new(first, count))
}

pub(crate) fn contention(letter: Option<&str>) -> Contention {
    match letter {
        Some("c") => Contention::Contended,
        Some("q") => Contention::Quiet,
        _ => Contention::Unknown,
    }
}

/// A value in three columns from this one on, if there is one.
pub(crate) fn cell(row: &Row, from: usize) -> Result<Option<Cell>, Error> {
    let value: Option<Vec<u8>> = column(row, from)?;
    let Some(value) = value else { return Ok(None) };
    let (token, held): (i64, Option<bool>) = (column(row, from + 1)?, column(row, from + 2)?);
    let token = FencingToken::try_from(token).map_err(|_| protocol("the token of a value"))?;
    Ok(Some(Cell::new(value, token, held.unwrap_or(false))))
}

/// No lease has a negative time left.
pub(crate) fn micros(count: i64) -> Duration {
    Duration::from_micros(u64::try_from(count).unwrap_or(0))
}

pub(crate) fn ttl_of(millis: i32) -> Ttl {
    let time = Duration::from_millis(u64::try_from(millis).unwrap_or(0));
    Ttl::new(time.clamp(Ttl::MIN.duration(), Ttl::MAX.duration())).unwrap_or(Ttl::MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn granted() -> Answer {
        let (verdict, contention) = (Some("G".to_owned()), Some("q".to_owned()));
        let (first, count, ttl, rest) = (Some(7), Some(3), Some(1000), Some(600_000));
        Answer { verdict, first, count, ttl, rest, contention, ..Answer::default() }
    }

    #[test]
    fn a_grant_ends_before_the_lease_by_the_drift_of_its_ttl() {
        let sent = Instant::from_nanos(5);
        let Ok(AcquireOutcome::Granted(grant)) = granted().outcome(sent) else {
            panic!("no grant")
        };
        assert_eq!(grant.valid_until, sent + Duration::from_millis(600 - 12));
        assert_eq!((grant.tokens.first().get(), grant.tokens.last().get()), (7, 9));
        assert_eq!(grant.contention, Contention::Quiet);
    }

    #[test]
    fn an_answer_without_sense_is_an_error() {
        let sent = Instant::from_nanos(0);
        let odd = [
            Answer::default(),
            Answer { verdict: Some("?".to_owned()), ..granted() },
            Answer { first: Some(-1), ..granted() },
            Answer { count: Some(0), ..granted() },
            Answer { rest: None, ..granted() },
        ];
        for answer in odd {
            let error = answer.clone().outcome(sent).map(|_| ()).map_err(|error| error.kind());
            assert_eq!(error, Err(ErrorKind::Protocol), "{answer:?}");
        }
    }

    #[test]
    fn a_lease_that_is_over_has_no_time_left() {
        let late = Answer { rest: Some(-5), ..granted() };
        let sent = Instant::from_nanos(5);
        let Ok(AcquireOutcome::Granted(grant)) = late.outcome(sent) else { panic!("no grant") };
        assert_eq!(grant.valid_until, sent);
    }
}
