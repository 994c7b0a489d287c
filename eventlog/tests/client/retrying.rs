//! How often a client tries a logger that disappears repeatedly.

use crate::links::{commit, over_messages};
use crate::scripted::{Clockwork, Joined, Scripted};
use refrain_eventlog::Level;
use refrain_eventlog::client::Client;
use refrain_logging::pessimist::Commits;
use std::time::Duration;

const SOON: Duration = Duration::from_millis(100);

/// The logger disappears, and the client notices.
fn goes(client: &mut Client, clockwork: &mut Clockwork, joined: Joined) {
    drop(joined);
    clockwork.poll_until(client, |client| client.live() == 0);
}

fn comes_back(client: &mut Client, clockwork: &mut Clockwork, logger: &Scripted) -> Joined {
    clockwork.poll(client);
    let mut joined = logger.accept();
    joined.say(&logger.welcome(0, 0));
    clockwork.poll_until(client, |client| client.live() == 1);
    joined
}

fn is_called_soon(client: &mut Client, clockwork: &Clockwork, logger: &Scripted) -> bool {
    client.poll_at(clockwork.0 + SOON);
    logger.is_called()
}

/// An admission alone does not reset the wait: each may be expensive for the logger. A logger
/// that has confirmed something is tried at once.
#[test]
fn a_logger_that_confirms_nothing_is_asked_more_and_more_seldom() {
    let (mut client, mut loggers, _folder) = over_messages(1, 1, Level::Placed);
    let mut clockwork = Clockwork(Duration::ZERO);
    let (logger, mut joined) = loggers.pop().expect("one");
    commit(&mut client, 10);
    for _ in 0..10 {
        goes(&mut client, &mut clockwork, joined);
        joined = comes_back(&mut client, &mut clockwork, &logger);
    }
    goes(&mut client, &mut clockwork, joined);
    assert!(!is_called_soon(&mut client, &clockwork, &logger));
    let mut joined = comes_back(&mut client, &mut clockwork, &logger);
    joined.say(&joined.stable(logger.id, 1, 0, Level::Placed));
    clockwork.poll_until(&mut client, |client| client.explain().is_none());
    goes(&mut client, &mut clockwork, joined);
    assert!(is_called_soon(&mut client, &clockwork, &logger));
}
