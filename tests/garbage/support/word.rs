//! The server's data, read past the proxy.

use std::net::SocketAddr;
use std::time::Duration;

use lock_core::{Clock, Instant, OwnerToken};
use lock_tests::resp::{Client, Value};

/// A connection without harm.
#[derive(Debug)]
pub(crate) struct Word(Client);

impl Word {
    pub(crate) fn of(addr: SocketAddr) -> Self {
        Self(Client::connect(addr, Duration::from_secs(10)).unwrap())
    }

    /// The contradiction to a client that believes to hold this name until then, if there is one. The
    /// test must not end the lease meanwhile.
    pub(crate) fn against(
        &mut self,
        name: &str,
        owner: &OwnerToken,
        until: Instant,
    ) -> Option<String> {
        let held = self.held(name);
        // Checked afterwards: the belief counts only if it was still valid when the server answered.
        let is_over = Clock::boot().now() >= until;
        (!is_owner(&held, owner) && !is_over).then(|| {
            let whose = owner_of(owner);
            format!("{whose} believes to hold {name}, where the server has {held:?}")
        })
    }

    /// The contradiction to a client that believes neither to hold this name any more, nor to wait for
    /// it.
    pub(crate) fn against_the_end(&mut self, name: &str, owner: &OwnerToken) -> Option<String> {
        let waits = format!("x:{}", owner_of(owner));
        let place =
            self.0.command(&["HEXISTS", &format!("lock:{{{name}}}:places"), &waits]).unwrap();
        let held = self.held(name);
        (is_owner(&held, owner) || place != Value::Int(0)).then(|| {
            format!(
                "{} is done with {name}, where the server has {held:?} and {place:?}",
                owner_of(owner)
            )
        })
    }

    fn held(&mut self, name: &str) -> Value {
        // Without its mark.
        match self.0.command(&["GETRANGE", &format!("lock:{{{name}}}"), "0", "31"]).unwrap() {
            Value::Text(text) if text.is_empty() => Value::Nil,
            value => value,
        }
    }
}

fn is_owner(held: &Value, owner: &OwnerToken) -> bool {
    matches!(held, Value::Text(text) if text == owner.expose())
}

/// A token as it is stored. It belongs to a test, and is no secret.
pub(crate) fn owner_of(owner: &OwnerToken) -> String {
    String::from_utf8_lossy(owner.expose()).into_owned()
}
