//! When a client that wants a lock again lets other clients go first. Nodes have no queue for claims of a quorum, so
//! the clients take turns.

/// The turns at one key since this client had the lock.
///
/// Of several clients that hear of a release, the fastest client would have every turn. So after its own release, a
/// client waits until each client that listened has had a turn. Some of these clients may not want the lock, or may
/// only share it. Then this client waits in vain. After the second wait in vain in a row, it expects fewer turns for a
/// while.
#[derive(Debug)]
pub(crate) struct Turns {
    /// How many turns other clients have had.
    had: u32,
    /// How many other clients listen, by the answers to the releases of this client.
    others: u32,
    /// How many turns are worth waiting for, times [`UNIT`].
    worth: u32,
    /// Whether this client waited in vain before its last turn.
    in_vain: bool,
}

/// How many parts a turn has. If this client has not waited in vain for its turn, it expects one more part.
const UNIT: u32 = 8;

/// The greatest number of turns for which a client waits.
const MOST_TURNS: u32 = 64;

impl Default for Turns {
    fn default() -> Self {
        Self { had: 0, others: 0, worth: MOST_TURNS * UNIT, in_vain: false }
    }
}

impl Turns {
    fn due(&self) -> u32 {
        self.others.min(self.worth / UNIT)
    }

    /// Another client has had a turn.
    pub(crate) fn pass(&mut self) {
        self.had = self.had.saturating_add(1).min(MOST_TURNS);
    }

    /// This client has its turn.
    pub(crate) fn win(&mut self) {
        let had = std::mem::take(&mut self.had);
        let in_vain = had < self.due();
        let was_in_vain = std::mem::replace(&mut self.in_vain, in_vain);
        self.worth = match in_vain {
            // One wait in vain may be an accident: a client was slow to take its turn.
            true if was_in_vain => had * UNIT,
            true => self.worth,
            false => (self.worth + 1).min(MOST_TURNS * UNIT),
        };
    }

    /// This client has released the lock, and `others` other clients listened. A client that asks for the lock may
    /// not listen yet, so the number falls slowly.
    pub(crate) fn released(&mut self, others: u32) {
        self.others = others.max(self.others.saturating_sub(1));
    }

    /// Whether other clients have had fewer turns than they are due.
    pub(crate) fn gives_way(&self) -> bool {
        self.had < self.due()
    }

    /// Whether other clients have had exactly one turn each.
    pub(crate) fn is_next(&self) -> bool {
        self.others > 0 && self.had == self.others
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Clients take turns at a lock. One hasty client is always the fastest.
    #[test]
    fn the_fastest_client_has_no_more_turns_than_the_others() {
        const CLIENTS: usize = 4;
        let mut clients: [Turns; CLIENTS] = Default::default();
        let mut won = [0; CLIENTS];
        for _ in 0..400 {
            let next = (0..CLIENTS).find(|&it| !clients[it].gives_way()).unwrap_or_default();
            won[next] += 1;
            clients[next].win();
            clients[next].released(CLIENTS as u32 - 1);
            (0..CLIENTS).filter(|&it| it != next).for_each(|it| clients[it].pass());
        }
        assert_eq!(won, [100; CLIENTS]);
    }

    /// Three clients listen, and only one of them takes turns.
    #[test]
    fn a_client_seldom_waits_for_clients_that_take_no_turn() {
        let (mut turns, mut vain) = (Turns::default(), 0);
        for _ in 0..800 {
            turns.win();
            turns.released(3);
            turns.pass();
            vain += u32::from(turns.gives_way());
        }
        assert!((1..=2 * 800 / UNIT).contains(&vain), "{vain}");
    }
}
