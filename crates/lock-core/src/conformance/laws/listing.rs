//! Lists of locks.

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use super::super::Harness;
use super::super::line::queued;
use super::super::scene::{Client, Scene};
use super::super::verdict::{Check, Failure, ensure};
use crate::{ErrorKind, InspectBackend, Key, List, Listed, Mode, Page};

/// No list of a test has more pages.
const PAGES: usize = 100_000;

pub(in super::super) async fn a_list_shows_each_lock_of_its_prefix<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: InspectBackend>,
{
    let (one, other) = scene.two_clients().await?;
    let ttl = scene.long();
    let base = scene.key()?;
    let key = |end: &[u8]| Key::new([base.as_bytes(), end].concat());
    let held: [&[u8]; 6] = [b"*/", b"*/a", b"*/b c", b"*/\xff{}:state", b"*/%61", b"*/[a]?"];
    let mut expected = BTreeSet::new();
    for end in held {
        one.granted(&scene.claim(&key(end)?)?, ttl).await?;
        expected.insert(key(end)?);
    }
    for beside in [&b"x/a"[..], b"/a", b"", b"*"] {
        one.granted(&scene.claim(&key(beside)?)?, ttl).await?;
    }
    let free = scene.claim(&key(b"*/free")?)?;
    one.granted(&free, ttl).await?;
    one.freed(&free).await?;
    let waits = other.joins(queued(&key(b"*/a")?, Mode::Exclusive, ttl)?).await?.is_some();

    let prefix = [base.as_bytes(), b"*/"].concat();
    for client in [&one, &other] {
        let list = List::of(&prefix);
        let listed = client.lists(list.clone()).await?;
        let keys: BTreeSet<_> = listed.iter().map(|lock| lock.key.clone()).collect();
        ensure!(keys == expected, "it lists {keys:?}, and not {expected:?}");
        for Listed { key: is, inspection } in &listed {
            let waiting = u64::from(waits && *is == key(b"*/a")?);
            ensure!(
                (inspection.holding, inspection.waiting) == (1, waiting),
                "{is} is listed as {inspection:?}"
            );
        }
        let exact = client.lists(List::of_exact_keys(&prefix)).await?;
        ensure!(exact.is_empty(), "names are listed as exact keys: {exact:?}");
    }
    Ok(())
}

pub(in super::super) async fn a_list_comes_in_pages<H>(scene: Scene<'_, H>) -> Check
where
    H: Harness<Client: InspectBackend>,
{
    const LOCKS: usize = 60;
    const PAGE_LEN: u32 = 5;
    /// A store may not be able to stop exactly there.
    const AT_MOST: usize = 26;
    let (one, other) = scene.two_clients().await?;
    let ttl = scene.long();
    let base = scene.key()?;
    let key = |number: usize| Key::new([base.as_bytes(), format!("/{number}").as_bytes()].concat());
    let mut expected = BTreeSet::new();
    for number in 0..LOCKS {
        one.granted(&scene.claim(&key(number)?)?, ttl).await?;
        expected.insert(key(number)?);
    }
    let most = NonZeroU32::new(PAGE_LEN).unwrap_or(List::MOST);
    let mut list = List::of([base.as_bytes(), b"/"].concat()).pages_of(most);
    let mut found = BTreeSet::new();
    for round in 0..PAGES {
        // Locks that come and go hide no lock that stays.
        let passing = scene.claim(&key(LOCKS + round % 7)?)?;
        one.granted(&passing, ttl).await?;
        let page = other.page(&list).await?;
        one.freed(&passing).await?;
        ensure!(page.locks.len() <= AT_MOST, "a page of {PAGE_LEN} has {} locks", page.locks.len());
        found.extend(page.locks.into_iter().map(|lock| lock.key));
        let Some(next) = page.next else {
            let missing: Vec<_> = expected.difference(&found).collect();
            ensure!(missing.is_empty(), "no page has {missing:?}");
            return Ok(());
        };
        list = list.from(next);
    }
    Err(Failure::Broken("the list has no end".into()))
}

impl<B: InspectBackend> Client<B> {
    /// One page; the law is not applicable to a backend without lists.
    async fn page(&self, list: &List) -> Check<Page> {
        match self.bounded("list", self.backend.list(list)).await? {
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                Err(Failure::NotApplicable(error.to_string()))
            }
            answer => Ok(answer?),
        }
    }

    /// The locks of all pages.
    async fn lists(&self, mut list: List) -> Check<Vec<Listed>> {
        let mut locks = Vec::new();
        for _ in 0..PAGES {
            let page = self.page(&list).await?;
            locks.extend(page.locks);
            let Some(next) = page.next else { return Ok(locks) };
            list = list.from(next);
        }
        Err(Failure::Broken("the list has no end".into()))
    }
}
