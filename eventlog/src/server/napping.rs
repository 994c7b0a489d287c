//! How long a server sleeps whom nobody wakes: clients that write by verbs do it
//! without a word to its processor.
//!
//! Where they wait for the disk they wait for the server to look, and it looks often.
//! A client that does not wait for each commit needs nothing before its ring is full:
//! so the server looks more and more seldom while nothing comes, and often again as
//! soon as something has.

use crate::Level;

/// The shortest sleep, and the longest where clients wait for each commit.
const NAP_MIN_MS: u32 = 1;
/// The longest where they do not: less than a ring of small batches takes to be
/// filled.
const NAP_MAX_MS: u32 = 4;

/// See the [module](self).
#[derive(Clone, Copy, Debug)]
pub(super) struct Napping {
    longest_ms: u32,
    nap_ms: u32,
}

impl Napping {
    pub(super) fn new(level: Level) -> Self {
        Self {
            longest_ms: match level {
                Level::Placed => NAP_MAX_MS,
                Level::Durable => NAP_MIN_MS,
            },
            nap_ms: NAP_MIN_MS,
        }
    }

    /// Something has come, or was given out.
    pub(super) fn moved(&mut self) {
        self.nap_ms = NAP_MIN_MS;
    }

    /// How long to sleep now. It was slept in vain if nothing has moved when this
    /// is asked again.
    pub(super) fn next_ms(&mut self) -> u32 {
        let nap_ms = self.nap_ms;
        self.nap_ms = (nap_ms * 2).min(self.longest_ms);
        nap_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often a server is awake in a second in which nothing comes.
    fn idle_wakes(napping: &mut Napping) -> u32 {
        let (mut wakes, mut slept_ms) = (0, 0);
        while slept_ms < 1000 {
            slept_ms += napping.next_ms();
            wakes += 1;
        }
        wakes
    }

    #[test]
    fn an_idle_server_sleeps_longer_where_nobody_waits_for_it() {
        assert!((200..=260).contains(&idle_wakes(&mut Napping::new(Level::Placed))));
        assert_eq!(idle_wakes(&mut Napping::new(Level::Durable)), 1000);
    }

    #[test]
    fn what_has_come_makes_it_look_again_soon() {
        let mut napping = Napping::new(Level::Placed);
        idle_wakes(&mut napping);
        napping.moved();
        assert_eq!(napping.next_ms(), NAP_MIN_MS, "a ring may be filling");
    }
}
