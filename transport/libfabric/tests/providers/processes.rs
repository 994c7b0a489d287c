//! A peer in another process: how much of a transfer needs calls of the peer, and what happens when
//! the peer is killed.
//!
//! The test starts its own program again as the peer. The peer reads commands line by line, and
//! polls only on command.

#![allow(
    unsafe_code,
    reason = "reads of remote memory go to memory that the caller answers for"
)]

use crate::bytes::{clear, fill, holds};
use crate::pair::{OPTIONS, hints, with_every_provider};
use core::ptr::NonNull;
use refrain_libfabric::{
    Access, Completion, Endpoint, Info, Library, MemoryId, MessageEndpoint, Part, PeerAddress,
    Refused, RemoteMemory,
};
use refrain_ring::Region;
use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

const ROLE: &str = "REFRAIN_TEST_PEER";
const NAME: &str = "processes::a_peer_in_another_process";
const BYTES: usize = 2 << 20;
const AT: usize = 4096;

#[test]
fn a_peer_in_another_process() {
    if let Ok(role) = std::env::var(ROLE) {
        let (library, provider) = role.split_once('|').unwrap();
        return be_the_peer(library, provider);
    }
    with_every_provider(|library, info| {
        let mut this = Own::open(library, info);
        let mut peer = Peer::start(library, info);
        let name = peer.ask(&format!("insert {}", hex(&this.endpoint.name().unwrap())));
        this.peer = Some(this.endpoint.insert(&unhex(&name)).unwrap());
        let key = peer.ask("key");
        let (key, base) = key.split_once(' ').unwrap();
        let remote = RemoteMemory {
            key: key.parse().unwrap(),
            base: base.parse::<u64>().unwrap() + AT as u64,
        };

        this.message(&mut peer);
        for bytes in [8, 1024, 256 << 10] {
            this.reply(&mut peer, bytes);
        }
        for bytes in [64, 4096, 64 << 10, 1 << 20] {
            this.read(&mut peer, bytes, remote);
            this.write(&mut peer, bytes, remote);
        }
        this.outlives(peer);
    });
}

/// The endpoint of the test's process.
struct Own {
    endpoint: Endpoint,
    region: Region,
    memory: MemoryId,
    peer: Option<PeerAddress>,
    completions: Vec<Completion>,
}

impl Own {
    fn open(library: &Library, info: &Info) -> Self {
        let mut endpoint = Endpoint::open(library, info, &OPTIONS).unwrap();
        let region = Region::heap(BYTES);
        let access = Access::LOCAL | Access::REMOTE_READ | Access::REMOTE_WRITE;
        let memory = endpoint.register(&region, access).unwrap();
        Self {
            endpoint,
            region,
            memory,
            peer: None,
            completions: Vec::new(),
        }
    }

    /// Polls for some time, until an operation completes.
    fn completes(&mut self) -> bool {
        let end = Instant::now() + Duration::from_millis(20);
        while self.completions.is_empty() && Instant::now() < end {
            self.endpoint.poll(&mut self.completions).unwrap();
            std::thread::yield_now();
        }
        !self.completions.is_empty()
    }

    /// Starts an operation; returns whether it completed without calls of the peer.
    fn run(
        &mut self,
        peer: &mut Peer,
        mut start: impl FnMut(&mut Self) -> Result<(), Refused>,
        at_completion: impl FnOnce(&mut Peer),
    ) -> bool {
        let mut is_started = false;
        let mut is_alone = true;
        for _ in 0..1000 {
            if !is_started {
                match start(self) {
                    Ok(()) => is_started = true,
                    Err(Refused::Again) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            if self.completes() {
                at_completion(peer);
                let completion = self.completions.remove(0);
                assert_eq!(completion.outcome, Ok(()));
                return is_alone;
            }
            is_alone = false;
            peer.ask("poll");
        }
        panic!("it does not complete");
    }

    fn part(&self, bytes: usize) -> Part {
        Part {
            memory: self.memory,
            offset: AT,
            bytes,
        }
    }

    fn message(&mut self, peer: &mut Peer) {
        peer.ask("receive");
        let (part, to) = (self.part(100), self.peer.unwrap());
        fill(&self.region, AT, 100, 9);
        self.run(peer, |this| this.endpoint.send(to, &[part], 1), |_| {});
        let is_received = (0..1000).any(|_| {
            self.endpoint.poll(&mut self.completions).unwrap();
            peer.ask("received") == "true"
        });
        assert!(is_received, "the message never came");
        assert_eq!(peer.ask("holds 100 9"), "true");
    }

    /// The other direction: the peer sends.
    fn reply(&mut self, peer: &mut Peer, bytes: usize) {
        let seed = bytes.ilog2() as u8 + 50;
        self.endpoint.receive(self.part(bytes), 5).unwrap();
        for _ in 0..1000 {
            peer.ask(&format!("send {bytes} {seed}"));
            if self.completes() {
                let completion = self.completions.remove(0);
                assert_eq!((completion.outcome, completion.bytes), (Ok(()), bytes));
                assert!(holds(&self.region, AT, bytes, seed));
                peer.ask("sent");
                return;
            }
        }
        panic!("no reply");
    }

    fn read(&mut self, peer: &mut Peer, bytes: usize, remote: RemoteMemory) {
        let seed = bytes.ilog2() as u8;
        peer.ask(&format!("fill {bytes} {seed}"));
        clear(&self.region, AT, bytes + 1);
        let from = self.peer.unwrap();
        let to = NonNull::new(self.region.at(AT)).unwrap();
        let memory = Some(self.memory);
        let is_alone = self.run(
            peer,
            |this| {
                // SAFETY: registered memory that stays until all operations have ended.
                unsafe { this.endpoint.read(from, (to, memory), bytes, remote, 2) }
            },
            |_| {},
        );
        assert!(holds(&self.region, AT, bytes, seed));
        assert!(!holds(&self.region, AT, bytes + 1, seed));
        println!("  read of {bytes}: {}", without_help(is_alone));
    }

    fn write(&mut self, peer: &mut Peer, bytes: usize, remote: RemoteMemory) {
        let seed = bytes.ilog2() as u8 + 100;
        fill(&self.region, AT, bytes, seed);
        peer.ask(&format!("clear {}", bytes + 1));
        let (part, to) = (self.part(bytes), self.peer.unwrap());
        let mut is_there = false;
        let is_alone = self.run(
            peer,
            |this| this.endpoint.write(to, part, remote, 3),
            |peer| is_there = peer.ask(&format!("holds {bytes} {seed}")) == "true",
        );
        println!(
            "  write of {bytes}: {}{}",
            without_help(is_alone),
            if is_there { "" } else { ", BYTES NOT THERE" }
        );
        assert!(is_there);
        for _ in 0..1000 {
            if peer.ask(&format!("holds {bytes} {seed}")) == "true" {
                return;
            }
            let _ = self.endpoint.poll(&mut self.completions);
            peer.ask("poll");
        }
        panic!("the bytes never came");
    }

    /// With a dead peer, the provider reports errors at most.
    fn outlives(mut self, mut peer: Peer) {
        let (to, part, long) = (self.peer.unwrap(), self.part(100), self.part(1 << 20));
        peer.child.kill().unwrap();
        peer.child.wait().unwrap();
        let mut errors = Vec::new();
        let mut taken = 0;
        let end = Instant::now() + Duration::from_millis(50);
        while Instant::now() < end {
            for part in [part, long] {
                match self.endpoint.send(to, &[part], 4) {
                    Ok(()) => taken += 1,
                    Err(Refused::Again) => errors.push("again".to_owned()),
                    Err(error) => errors.push(error.to_string()),
                }
            }
            self.endpoint.poll(&mut self.completions).unwrap();
            for completion in self.completions.drain(..) {
                if let Err(error) = completion.outcome {
                    errors.push(format!("completion: {error}"));
                }
            }
        }
        errors.sort();
        errors.dedup();
        println!("  killed peer: {taken} sends taken, then {errors:?}");
        self.endpoint.remove(to).unwrap();
        self.endpoint.poll(&mut self.completions).unwrap();
        self.endpoint.close().unwrap();
        // The file that the killed process could not remove.
        let left = format!("{}:", peer.child.id());
        for entry in std::fs::read_dir("/dev/shm")
            .into_iter()
            .flatten()
            .flatten()
        {
            if entry.file_name().to_string_lossy().starts_with(&left) {
                println!("  the killed process left {:?}", entry.path());
                std::fs::remove_file(entry.path()).unwrap();
            }
        }
    }
}

fn without_help(is_alone: bool) -> &'static str {
    if is_alone {
        "completes without the peer's help"
    } else {
        "needs the peer's help"
    }
}

/// The other process.
struct Peer {
    child: Child,
    to: ChildStdin,
    from: Lines<BufReader<ChildStdout>>,
}

impl Peer {
    fn start(library: &Library, info: &Info) -> Self {
        let role = format!("{}|{}", library.path().display(), info.provider());
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", NAME, "--nocapture"])
            .env(ROLE, role)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let to = child.stdin.take().unwrap();
        let from = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, to, from }
    }

    /// Sends a command, and waits for the answer.
    fn ask(&mut self, command: &str) -> String {
        writeln!(self.to, "{command}").unwrap();
        loop {
            let line = self.from.next().expect("the peer lives").unwrap();
            // The test harness writes lines of its own.
            if let Some((_, answer)) = line.split_once("answer: ") {
                return answer.to_owned();
            }
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn be_the_peer(library: &str, provider: &str) {
    let library = Library::load(Some(library.as_ref())).unwrap();
    let info = library.infos(&hints(provider)).unwrap().swap_remove(0);
    let mut this = Own::open(&library, &info);
    let (mut is_received, mut is_sent) = (false, false);
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let words: Vec<&str> = line.split(' ').collect();
        let number = |index: usize| words[index].parse::<usize>().unwrap();
        let answer = match words[0] {
            "insert" => {
                this.peer = Some(this.endpoint.insert(&unhex(words[1])).unwrap());
                hex(&this.endpoint.name().unwrap())
            }
            "key" => {
                let remote = this.endpoint.remote_key(this.memory);
                format!("{} {}", remote.key, remote.base)
            }
            "receive" => {
                this.endpoint.receive(this.part(1 << 20), 1).unwrap();
                String::new()
            }
            "received" => (is_received || this.completes()).to_string(),
            "poll" => {
                this.completes();
                String::new()
            }
            "fill" => {
                fill(&this.region, AT, number(1), number(2) as u8);
                String::new()
            }
            // Repeats until the provider takes it.
            "send" => {
                let (part, to) = (this.part(number(1)), this.peer.unwrap());
                if !is_sent {
                    fill(&this.region, AT, number(1), number(2) as u8);
                    is_sent = this.endpoint.send(to, &[part], 6).is_ok();
                }
                this.completes();
                String::new()
            }
            "sent" => {
                is_sent = false;
                String::new()
            }
            "clear" => {
                clear(&this.region, AT, number(1));
                String::new()
            }
            "holds" => holds(&this.region, AT, number(1), number(2) as u8).to_string(),
            other => panic!("{other}?"),
        };
        is_received |= this.completions.iter().any(|done| done.token == 1);
        this.completions.clear();
        println!("answer: {answer}");
    }
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
