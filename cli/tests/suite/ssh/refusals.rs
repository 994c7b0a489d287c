//! Hosts that refuse the login, and hosts that do not exist.

use super::jobs::with_ssh;
use super::server::Ssh;
use crate::launched::{Ended, job, run};
use std::fs;

/// A job on a good host and a bad one; it must not start.
fn refused(ssh: &Ssh, host: &str) -> Ended {
    let mut command = job(&format!("-n 2 --host a,{host}"), "say=started hello");
    let ended = run(with_ssh(&mut command, ssh)).expect(2);
    assert_eq!(ended.out, "");
    let words = format!("host {host}: ");
    assert_eq!(ended.err.matches(&words).count(), 1, "{}", ended.err);
    // The command in the advice is the one that was tried.
    let advice = format!("{} {host} true", ssh.command());
    assert!(ended.err.contains(&advice), "{}", ended.err);
    ssh.expect_nothing_left();
    ended
}

#[test]
fn a_key_that_the_host_does_not_know_is_refused() {
    let Some(ssh) = Ssh::start() else { return };
    fs::rename(ssh.file("key-stranger"), ssh.file("key-b")).expect("both are there");
    fs::rename(ssh.file("key-stranger.pub"), ssh.file("key-b.pub")).expect("both are there");
    let ended = refused(&ssh, "b");
    assert!(ended.err.contains("Permission denied"), "{ended:?}");
}

/// The host's key is unknown, or another server listens there.
#[test]
fn a_host_with_an_unknown_key_is_refused() {
    let Some(ssh) = Ssh::start() else { return };
    let known = ssh.text("known-b");
    let place = known.split(' ').next().expect("an address");
    let other = format!("{place} {}", ssh.text("key-stranger.pub"));
    for known in ["", &other] {
        fs::write(ssh.file("known-b"), known).expect("it is there");
        let ended = refused(&ssh, "b");
        let words = "Host key verification failed";
        assert!(ended.err.contains(words), "{ended:?}");
    }
}

#[test]
fn a_name_that_is_no_host_is_named() {
    let Some(ssh) = Ssh::start() else { return };
    let ended = refused(&ssh, "no-such-host.invalid");
    assert!(ended.err.contains("resolve"), "{ended:?}");
}
