//! Bugs of watching.

use futures::StreamExt;
use futures::channel::mpsc;
use futures::stream::pending;
use lock_core::{Backend, Key, Result, Watch};

use crate::bug::Bug;
use crate::mutant::Mutant;

impl Mutant {
    pub(crate) async fn watch_wrongly(&self, key: &Key) -> Result<Watch> {
        let watch = self.store.watch(key).await?;
        let first = self.shared().watched.insert(key.clone());
        Ok(match self.bug {
            Bug::NeverHints => Watch::new(pending()),
            Bug::HintsOnce => Watch::new(watch.take(1).chain(pending())),
            Bug::HintsToOne if !first => Watch::new(pending()),
            Bug::HintsOfAllKeys => {
                let (sender, hints) = mpsc::unbounded();
                self.shared().everybody.push(sender);
                Watch::new(hints)
            }
            Bug::HidesACut => Watch::new(watch.chain(pending())),
            _ => watch,
        })
    }
}
