//! Which acknowledgements count at which level.

use crate::links::{commit, over_messages};
use crate::scripted::{Clockwork, Joined, Scripted};
use refrain_eventlog::Level;
use refrain_eventlog::client::Client;
use refrain_logging::determinant::EventIndex;
use refrain_logging::pessimist::Commits;
use std::time::Duration;

/// A logger that was started again at a lower level has what it says it has, but
/// not on its disk.
// EL-1, GATE-1
#[test]
fn what_a_logger_of_a_lower_level_has_opens_no_gate() {
    let (mut client, mut loggers, _folder) = over_messages(1, 1, Level::Durable);
    let mut clockwork = Clockwork(Duration::ZERO);
    for _ in 0..9 {
        commit(&mut client, 10);
    }
    let (logger, joined) = loggers.pop().expect("one");
    joined_says_placed(&mut client, &mut clockwork, (&logger, joined));
    clockwork.poll_until(&mut client, |client| client.live() == 0);
    clockwork.poll(&mut client);
    let mut again = logger.accept();
    again.say(&logger.welcome_at(Level::Placed, 9, 80));
    clockwork.poll_until(&mut client, |client| {
        client
            .explain()
            .is_none_or(|why| why.contains("--level durable"))
    });
    assert_eq!(client.stable_end(), EventIndex(0));
    assert_eq!(client.live(), 0);
    // At its level again, it counts.
    drop(again);
    clockwork.poll(&mut client);
    logger.accept().say(&logger.welcome(9, 80));
    clockwork.poll_until(&mut client, |client| client.stable_end() == EventIndex(9));
}

/// Acknowledges everything, and is gone.
fn joined_says_placed(
    client: &mut Client,
    clockwork: &mut Clockwork,
    (logger, mut joined): (&Scripted, Joined),
) {
    joined.say(&joined.stable(logger.id, 9, 80, Level::Placed));
    clockwork.poll_until(client, |client| {
        client
            .explain()
            .is_some_and(|why| why.contains("--level durable"))
    });
}
