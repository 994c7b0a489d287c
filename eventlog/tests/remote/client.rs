//! A client in another process, to be killed: this test program, started again.

use crate::harness::{Batches, LIMIT, RingFile, Setup, hex, unhex};
use refrain_eventlog::message::RemoteRing;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

const ROLE: &str = "REFRAIN_TEST_CLIENT";
const NAME: &str = "client::a_client_in_another_process";

/// Not a test by itself: the other process, which writes until it is killed.
#[test]
fn a_client_in_another_process() {
    let Ok(role) = std::env::var(ROLE) else {
        println!("skipped the client: no test of its own, the others start it");
        return;
    };
    let words: Vec<&str> = role.split('|').collect();
    let remote = RemoteRing {
        provider: words[1].to_owned(),
        address: unhex(words[2]),
        base: words[3].parse().unwrap(),
        key: words[4].parse().unwrap(),
    };
    let setup = Setup {
        library: words[0].into(),
        provider: words[1].to_owned(),
    };
    let mut writer = setup.writer(&remote);
    let identity = {
        // Gone before it is killed.
        let folder = tempfile::tempdir().unwrap();
        RingFile::create(folder.path(), 1).identity
    };
    let mut batches = Batches::new(identity);
    let begin = Instant::now();
    // Usually killed long before; ends by itself if it is not killed.
    while begin.elapsed() < 2 * LIMIT {
        if writer.write(&batches.of(4000)).unwrap().is_err() {
            // No server drains the ring: placed bytes count as consumed.
            let placed = writer.poll().unwrap();
            writer.consumed(placed).unwrap();
        }
    }
}

/// Starts a client that writes without a pause.
pub fn start(setup: &Setup, remote: &RemoteRing) -> Child {
    let role = format!(
        "{}|{}|{}|{}|{}",
        setup.library.display(),
        setup.provider,
        hex(&remote.address),
        remote.base,
        remote.key
    );
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", NAME, "--nocapture"])
        .env(ROLE, role)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}
