//! One vote of several.

use std::time::Duration;

use async_trait::async_trait;
use lock_core::{
    AcquireOutcome, Ballot, Claim, Ending, Error, ErrorKind, FencingToken, Membership, OwnerTag,
    OwnerToken, Quarantine, QuorumNode, Server, Standing, Terms, Ttl, Vote,
};
use tokio_postgres::types::Type;

use crate::PostgresBackend;
use crate::answer::{Answer, column};
use crate::backend::{count, millis};
use crate::failure::protocol;
use crate::link::Statement;
use crate::naming;

/// The column of the holder, behind those of the answer.
const HOLDER: usize = 11;

/// A database is one node of a quorum, beside databases of other servers or nodes of other kinds.
///
/// The record of its standing names the run of the server, and a crash and the promotion of a standby remove the
/// record. So a node that may have forgotten votes abstains, and a vote need not wait for the disk. A standby may be
/// promoted only if the old primary is certainly gone: two servers that both count as this node could vote for two
/// holders.
#[async_trait]
impl QuorumNode for PostgresBackend {
    async fn vote(&self, ballot: &Ballot) -> Result<Vote, Error> {
        let Ballot { request, floor, expects, .. } = ballot;
        if request.claim.mode.counts() {
            let message = "permits are not voted on: majorities that overlap can give out too many";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let expected = match expects {
            Some(standing) if !standing.votes_for(request.ttl)? => return Ok(Vote::Abstains),
            expects => expects.as_ref().map(|standing| standing.record.to_string()),
        };
        let sql =
            "SELECT (v.a).*, v.holder FROM lock_v1.vote($1, $2, $3, $4, $5, $6, $7, $8, $9) v";
        let (key, statement) = Self::about(sql, &request.claim)?;
        let listener = self.shared.inbox.listener(&key);
        let statement = statement
            .int(millis(request.ttl))
            .int(count(request.tokens))
            // The database takes a floor that is so high for a lower one.
            .long(i64::try_from(*floor).unwrap_or(i64::MAX))
            .text(listener.name())
            .with(expected, Type::TEXT);
        let (row, sent) = self.shared.ask_lease(&key, statement).await?;
        let answer = Answer::of(&row)?;
        if answer.verdict.as_deref() == Some("A") {
            return Ok(Vote::Abstains);
        }
        listener.learn(&key, &answer, false);
        let holder: Option<&str> = column(&row, HOLDER)?;
        match self.outcome(answer, &request.claim, sent)? {
            AcquireOutcome::Granted(grant) => Ok(Vote::Granted(grant)),
            AcquireOutcome::Busy { retry_after } => {
                Ok(Vote::Busy { holder: holder.and_then(tag), retry_after })
            }
            _ => Err(protocol("the verdict of a vote")),
        }
    }

    async fn confirm(&self, claim: &Claim, token: FencingToken) -> Result<bool, Error> {
        let Ok(number) = i64::try_from(token) else {
            let message = format!("a token of {token} is too high: {} at most", i64::MAX);
            return Err(Error::new(ErrorKind::InvalidConfig, message));
        };
        let (key, statement) = Self::about("SELECT lock_v1.confirm($1, $2, $3, $4)", claim)?;
        column(&self.shared.ask_one(&key, statement.long(number)).await?, 0)
    }

    async fn standing(&self, terms: &Terms) -> Result<Standing, Error> {
        self.stand(terms, "").await
    }

    async fn vouch(&self, quarantine: &Quarantine, max_ttl: Ttl) -> Result<bool, Error> {
        let statement = Statement::new("SELECT lock_v1.vouch($1, $2)")
            .text(quarantine.as_str().to_owned())
            .long(millis(max_ttl).into());
        column(&self.shared.ask_one(&[], statement).await?, 0)
    }

    async fn reassign(&self, from: &Membership, terms: &Terms) -> Result<Standing, Error> {
        self.stand(terms, from.as_str()).await
    }

    async fn admit(&self, terms: &Terms) -> Result<Standing, Error> {
        self.stand(terms, "*").await
    }
}

impl PostgresBackend {
    async fn stand(&self, terms: &Terms, change: &str) -> Result<Standing, Error> {
        let ending = match terms.ending {
            Ending::ByClock => "c",
            Ending::Never => "n",
            _ => "l",
        };
        let statement = Statement::new("SELECT lock_v1.stand($1, $2, $3, $4, $5)")
            .text(naming::owner(&OwnerToken::generate()?))
            .text(terms.membership.as_str().to_owned())
            .long(millis(terms.max_ttl).into())
            .text(ending.to_owned())
            .text(change.to_owned());
        let row = self.shared.ask_one(&[], statement).await?;
        standing(column(&row, 0)?).ok_or_else(|| protocol("the standing of a node"))
    }
}

/// Reads `server quarantine most members longest begun`.
fn standing(record: &str) -> Option<Standing> {
    let words: Vec<_> = record.split(' ').collect();
    let [server, quarantine, most, members, _, _] = words[..] else { return None };
    let max_ttl = match most {
        "-" => None,
        millis => Some(Ttl::new(Duration::from_millis(millis.parse().ok()?)).ok()?),
    };
    let (server, quarantine) = (Server::new(server), Quarantine::new(quarantine));
    Some(Standing::new(server, quarantine, max_ttl, Membership::from_text(members)?, record))
}

/// Reads eight hexadecimal digits.
fn tag(digits: &str) -> Option<OwnerTag> {
    let is_tag = digits.len() == 8 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_tag.then(|| u32::from_str_radix(digits, 16).ok().map(OwnerTag::new)).flatten()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const MEMBERS: &str = "0123456789abcdef01234567";

    #[test]
    fn a_standing_is_read() {
        let out = standing(&format!("a-1 b - {MEMBERS} 60000 1700000000000")).unwrap();
        assert_eq!((out.server, out.max_ttl), (Server::new("a-1"), None));
        assert_eq!(out.membership, Membership::from_text(MEMBERS).unwrap());
        let back = standing("a-1 b 30000 - 60000 -").unwrap();
        assert_eq!((back.quarantine, back.max_ttl), (Quarantine::new("b"), Some(Ttl::DEFAULT)));
        assert_eq!(&*back.record, "a-1 b 30000 - 60000 -");
    }

    #[test]
    fn nonsense_is_no_standing_and_no_tag() {
        for text in ["", "a", "a b c - 1 -", "a b 0 - 1 -", "a b - ? 1 -", "a b - - 1 - -"] {
            assert!(standing(text).is_none(), "{text}");
        }
        assert_eq!(tag("0001feff"), Some(OwnerTag::new(0x0001_feff)));
        for text in ["", "1feff", "0001fefg", "+001feff", "0001feff0"] {
            assert_eq!(tag(text), None, "{text}");
        }
    }
}
