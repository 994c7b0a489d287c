//! A peer in another process is killed, and another process takes its place.
//!
//! The test starts its own program again as the peer, which sends back what it
//! receives.

use crate::bytes::{fill, holds};
use crate::pair::{Ground, LIMIT, Side, ground};
use refrain_verbs::{Completion, EndpointOptions, Kind, MessageEndpoint, PeerAddress, Refused};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Instant;

const ROLE: &str = "REFRAIN_TEST_ECHO";
const NAME: &str = "processes::a_killed_peer_is_replaced_by_another";
const BYTES: usize = 3000;
const SLOTS: u64 = 32;

/// A process that sends all messages back.
struct Echo {
    child: Child,
    name: Vec<u8>,
    /// The process ends when this is closed.
    _life: ChildStdin,
}

impl Echo {
    fn start(own: &[u8]) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", NAME, "--nocapture"])
            .env(ROLE, hex(own))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let life = child.stdin.take().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // The test harness writes lines of its own.
        let name = lines
            .map(|line| line.unwrap())
            .find_map(|line| Some(unhex(line.split_once("name: ")?.1)))
            .expect("the peer lives");
        Self {
            child,
            name,
            _life: life,
        }
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn be_the_echo(ground: &Ground, peer: &str) {
    let mut side = Side::open(ground, 1, 1 << 20, &EndpointOptions::default());
    let peer = side.endpoint.insert(&unhex(peer)).unwrap();
    for slot in 0..SLOTS {
        let part = side.part(slot as usize * 4096, 4096);
        side.endpoint.receive(part, slot).unwrap();
    }
    println!("name: {}", hex(&side.endpoint.name().unwrap()));
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    loop {
        side.poll();
        for completion in core::mem::take(&mut side.completions) {
            let slot = completion.token;
            let part = side.part(slot as usize * 4096, completion.bytes);
            if completion.kind == Kind::Receive && completion.outcome.is_ok() {
                while side.endpoint.send(peer, &[part], slot).is_err() {
                    side.poll();
                }
            } else {
                let part = side.part(slot as usize * 4096, 4096);
                side.endpoint.receive(part, slot).unwrap();
            }
        }
    }
}

/// Sends one message and waits for it to come back.
fn ask(side: &mut Side, peer: PeerAddress, seed: u64) {
    let began = Instant::now();
    fill(&side.region, 0, BYTES, seed);
    let (from, into) = (side.part(0, BYTES), side.part(8192, 4096));
    side.endpoint.receive(into, 1).unwrap();
    while let Err(refused) = side.endpoint.send(peer, &[from], 2) {
        assert_eq!(refused, Refused::Again);
        side.poll();
        assert!(began.elapsed() < LIMIT);
    }
    for token in [1, 2] {
        let completion = wait(side, token, began);
        assert_eq!(completion.outcome, Ok(()));
    }
    assert!(holds(&side.region, 8192, BYTES, seed));
}

fn wait(side: &mut Side, token: u64, began: Instant) -> Completion {
    loop {
        side.poll();
        if let Some(completion) = side.completion(token) {
            return completion;
        }
        let counters = side.endpoint.counters();
        assert!(began.elapsed() < LIMIT, "{token}: {counters:?}");
    }
}

/// A peer is killed during traffic: operations fail. The next process is another peer, even if it
/// gets the same numbers from the device.
#[test]
fn a_killed_peer_is_replaced_by_another() {
    let Some(ground) = ground() else { return };
    if let Ok(peer) = std::env::var(ROLE) {
        return be_the_echo(&ground, &peer);
    }
    let mut side = Side::open(&ground, 0, 1 << 20, &EndpointOptions::default());
    let own = side.endpoint.name().unwrap();
    let mut before: Option<PeerAddress> = None;
    for life in 0..3 {
        let echo = Echo::start(&own);
        let peer = side.endpoint.insert(&echo.name).unwrap();
        assert_ne!(before, Some(peer));
        for message in 0..100 {
            ask(&mut side, peer, life * 1000 + message);
        }
        let part = side.part(0, BYTES);
        let send = |side: &mut Side, token| side.endpoint.send(peer, &[part], token).is_ok();
        let begun = (100..120).filter(|token| send(&mut side, *token)).count();
        echo.kill();
        let late = send(&mut side, 200);
        let began = Instant::now();
        // Operations that were completed in time succeed; the others fail, each by itself.
        for token in 0..begun as u64 {
            let _ = wait(&mut side, 100 + token, began);
        }
        if late {
            let error = wait(&mut side, 200, began).outcome.unwrap_err();
            println!("{error}");
        }
        assert!(!side.endpoint.is_connected(peer));
        side.endpoint.remove(peer).unwrap();
        before = Some(peer);
    }
    println!("{:?}", side.endpoint.counters());
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len())
        .step_by(2)
        .map(|index| u8::from_str_radix(&text[index..index + 2], 16).unwrap())
        .collect()
}
