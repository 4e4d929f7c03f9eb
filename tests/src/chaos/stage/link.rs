//! The link from a worker to a server, and its faults.

use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::chaos::{Fault, How};
use crate::{Direction, Proxy};

const BOTH: [Direction; 2] = [Direction::ToServer, Direction::ToClient];

/// The link from one worker to one server. It can have several faults at once.
#[derive(Debug)]
pub struct Link {
    proxy: Proxy,
    /// With the numbers of their steps.
    faults: Mutex<Vec<(usize, Fault, How)>>,
}

/// The sum of all faults of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Weather {
    silent: [bool; 2],
    delay: Duration,
    jitter: Duration,
    straggle: Duration,
    dribble: Option<Duration>,
    repeats: bool,
    refuses: bool,
}

impl Link {
    pub(super) fn before(server: SocketAddr) -> Self {
        Self { proxy: Proxy::start(server), faults: Mutex::default() }
    }

    /// The proxy of the link.
    pub fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    pub(in crate::chaos) fn begin(&self, step: usize, fault: Fault, how: How) {
        let mut faults = self.faults();
        faults.push((step, fault, how));
        self.set(Weather::of(&faults));
        if fault == Fault::Partition {
            self.proxy.cut();
        }
    }

    /// The repeated deeds while a fault lasts.
    pub(in crate::chaos) fn again(&self, fault: Fault) {
        match fault {
            Fault::Reset => self.proxy.cut(),
            Fault::CutReplies => self.proxy.cut_replies(),
            _ => {}
        }
    }

    pub(in crate::chaos) fn end(&self, step: usize) {
        let mut faults = self.faults();
        let half_open =
            faults.iter().any(|(of, fault, _)| (*of, *fault) == (step, Fault::HalfOpen));
        if half_open {
            // The bytes sent meanwhile are lost, and now both ends notice.
            self.proxy.cut();
        }
        faults.retain(|(of, ..)| *of != step);
        self.set(Weather::of(&faults));
    }

    fn set(&self, weather: Weather) {
        let proxy = &self.proxy;
        for (direction, silent) in BOTH.into_iter().zip(weather.silent) {
            proxy.delay(direction, weather.delay);
            proxy.jitter(direction, weather.jitter);
            proxy.straggle(direction, weather.straggle);
            proxy.dribble(direction, weather.dribble);
            if silent {
                proxy.silence(direction);
            } else {
                proxy.speak(direction);
            }
        }
        proxy.repeat(weather.repeats);
        if weather.refuses {
            proxy.refuse();
        } else {
            proxy.accept();
        }
    }

    fn faults(&self) -> MutexGuard<'_, Vec<(usize, Fault, How)>> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Weather {
    fn of(faults: &[(usize, Fault, How)]) -> Self {
        let mut weather = Self::default();
        for (_, fault, how) in faults {
            match (fault, how) {
                // There and back again.
                (Fault::Delay, How::By(time)) => weather.delay += *time / 2,
                (Fault::Jitter, How::By(time)) => weather.jitter += *time / 2,
                (Fault::Straggle, How::By(time)) => {
                    weather.straggle = weather.straggle.max(*time);
                }
                (Fault::Dribble, How::By(pause)) => {
                    weather.dribble = weather.dribble.max(Some(*pause));
                }
                (Fault::Silence, How::Towards(direction)) => {
                    weather.silent[usize::from(*direction == Direction::ToClient)] = true;
                }
                (Fault::HalfOpen, _) => weather.silent = [true; 2],
                (Fault::Duplicate, _) => weather.repeats = true,
                (Fault::Partition, _) => weather.refuses = true,
                _ => {}
            }
        }
        weather
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_of_one_link_add_up_and_end_one_by_one() {
        let millis = Duration::from_millis;
        let mut faults = vec![
            (0, Fault::Delay, How::By(millis(20))),
            (1, Fault::Delay, How::By(millis(40))),
            (2, Fault::Silence, How::Towards(Direction::ToClient)),
            (3, Fault::HalfOpen, How::Plainly),
            (4, Fault::Dribble, How::By(Duration::ZERO)),
            (5, Fault::Partition, How::Plainly),
        ];
        let all = Weather::of(&faults);
        assert_eq!((all.silent, all.delay, all.refuses), ([true; 2], millis(30), true));
        assert_eq!((all.dribble, all.repeats), (Some(Duration::ZERO), false));
        faults.retain(|(step, ..)| ![1, 3, 5].contains(step));
        let rest = Weather::of(&faults);
        assert_eq!((rest.silent, rest.delay, rest.refuses), ([false, true], millis(10), false));
        assert_eq!(Weather::of(&[]), Weather::default());
    }
}
