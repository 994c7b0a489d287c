//! A rank in another process: it sends and receives all the time, and follows orders that arrive
//! line by line.

use crate::process::{self, STARTED, TEST};
use crate::setting::Setting;
use crate::shared_memory;
use crate::station::{PATIENCE, Station};
use refrain_ring::{Incarnation, Rank};
use rustix::process::{Pid, Signal, WaitOptions};
use std::io::Write;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::time::Instant;

const SETTING: &str = "REFRAIN_TEST_OFI_SETTING";
const LIFE: &str = "REFRAIN_TEST_OFI_LIFE";
const ANSWER: &str = "answer: ";

/// The other process, as the test sees it.
pub struct Peer {
    child: Child,
    to: ChildStdin,
    answers: Receiver<String>,
    pub address: Vec<u8>,
    rank: Rank,
    incarnation: Incarnation,
}

/// Sent and received frames at the peer, of the channel with one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    pub sent: u64,
    pub frames: u64,
    pub controls: u64,
    /// Whether all frames that it sent were taken and let go, and none is in flight to it.
    pub is_quiet: bool,
}

impl Peer {
    /// Starts the process, and waits until it has opened its endpoint.
    pub fn start(setting: &Setting, rank: Rank, incarnation: Incarnation) -> Self {
        let test = std::env::var(TEST).expect("set for every test");
        let mut child = process::again(&test, "peer")
            .env(SETTING, setting.encode())
            .env(LIFE, format!("{} {}", rank.0, incarnation.0))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a program can start itself");
        println!("{STARTED}{}", child.id());
        let (to_here, answers) = mpsc::channel();
        process::forward(child.stdout.take().expect("piped"), to_here);
        let mut peer = Self {
            to: child.stdin.take().expect("piped"),
            child,
            answers,
            address: Vec::new(),
            rank,
            incarnation,
        };
        peer.address = unhex(&peer.answer(|| {}));
        peer
    }

    /// Connects the peer with a rank of this process, on both sides.
    pub fn connect(&mut self, station: &mut Station, rank: Rank, incarnation: Incarnation) {
        let address = hex(&station.address());
        self.order(&format!("connect {} {} {address}", rank.0, incarnation.0));
        self.wait_for_answer(station);
        station.connect(self.rank, self.incarnation, &self.address);
    }

    /// Sends an order; the answer comes later.
    pub fn order(&mut self, words: &str) {
        writeln!(self.to, "{words}").expect("it lives");
    }

    /// Waits for the answer, while this rank continues.
    pub fn wait_for_answer(&mut self, station: &mut Station) -> String {
        self.answer(|| station.turn_or_wait())
    }

    fn answer(&mut self, mut meanwhile: impl FnMut()) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            match self.answers.try_recv() {
                Ok(line) => {
                    if let Some((_, answer)) = line.split_once(ANSWER) {
                        return answer.to_owned();
                    }
                    // Lines of the test program itself, and words of a panic.
                }
                Err(TryRecvError::Empty) => {
                    meanwhile();
                    std::thread::yield_now();
                }
                Err(TryRecvError::Disconnected) => panic!("rank {} has ended", self.rank),
            }
            assert!(Instant::now() < end, "rank {} does not answer", self.rank);
        }
    }

    /// The counts at the peer, of the channel with `rank`.
    pub fn counts(&mut self, station: &mut Station, rank: Rank) -> Counts {
        self.order(&format!("counts {}", rank.0));
        let answer = self.wait_for_answer(station);
        let words: Vec<&str> = answer.split(' ').collect();
        let number = |index: usize| words[index].parse().expect("a number");
        Counts {
            sent: number(0),
            frames: number(1),
            controls: number(2),
            is_quiet: words[3] == "true",
        }
    }

    /// Asks repeatedly until the counts are right.
    pub fn counts_are(
        &mut self,
        station: &mut Station,
        rank: Rank,
        are_right: impl Fn(Counts) -> bool,
    ) {
        let end = Instant::now() + PATIENCE;
        loop {
            let counts = self.counts(station, rank);
            if are_right(counts) {
                return;
            }
            let is_late = Instant::now() > end;
            assert!(!is_late, "rank {} never has all: {counts:?}", self.rank);
        }
    }

    /// Lets the peer make no calls to its provider until the next order. This is for providers
    /// inside which no peer can be killed or stopped without harm to others: a rank that uses `shm`
    /// holds locks (1.17) or places in queues (2.5) in the memory of its peers, which would wait
    /// for them for ever.
    pub fn leave_the_provider(&mut self, station: &mut Station, provider: &str) {
        if provider == "shm" {
            self.order("stand still");
            self.wait_for_answer(station);
        }
    }

    /// Kills the peer at once, between any two instructions, and reaps it.
    pub fn kill(&mut self) {
        self.child.kill().expect("it lives");
        self.child.wait().expect("it is a child");
    }

    /// Stops the peer; it has stopped when this returns.
    pub fn stop(&self) {
        rustix::process::kill_process(self.pid(), Signal::STOP).expect("it lives");
        let (_, status) = rustix::process::waitpid(Some(self.pid()), WaitOptions::UNTRACED)
            .expect("it is a child")
            .expect("waited for");
        assert!(status.stopped(), "{status:?}");
    }

    /// Lets the peer continue where it stopped.
    pub fn go_on(&mut self, station: &mut Station) {
        rustix::process::kill_process(self.pid(), Signal::CONT).expect("it lives");
        self.order("continue");
        self.wait_for_answer(station);
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Removes the leftovers of the killed process's provider.
    pub fn clean_up(&self) {
        shared_memory::remove_segments_of(self.child.id());
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.clean_up();
    }
}

/// Runs a peer until it is killed or its orders end.
pub fn be_the_peer() {
    let setting = Setting::decode(&std::env::var(SETTING).expect("set by the parent"));
    let life = std::env::var(LIFE).expect("set by the parent");
    let (rank, incarnation) = life.split_once(' ').expect("two numbers");
    let rank = Rank(rank.parse().expect("a number"));
    let incarnation = Incarnation(incarnation.parse().expect("a number"));
    let mut station = Station::open(&setting, rank, incarnation);
    println!("\n{ANSWER}{}", hex(&station.address()));
    let (to_here, orders) = mpsc::channel();
    process::forward(std::io::stdin(), to_here);
    let mut stands_still = false;
    loop {
        match orders.try_recv() {
            Ok(order) => {
                stands_still = order == "stand still";
                println!("\n{ANSWER}{}", obey(&mut station, &order));
            }
            Err(TryRecvError::Empty) if stands_still => std::thread::yield_now(),
            Err(TryRecvError::Empty) => station.turn_or_wait(),
            Err(TryRecvError::Disconnected) => return,
        }
    }
}

fn obey(station: &mut Station, order: &str) -> String {
    if ["stand still", "continue"].contains(&order) {
        return String::new();
    }
    let words: Vec<&str> = order.split(' ').collect();
    let number = |index: usize| words[index].parse::<u64>().expect("a number");
    let peer = Rank(number(1) as u32);
    match words[0] {
        "connect" => {
            station.connect(peer, Incarnation(number(2) as u32), &unhex(words[3]));
            String::new()
        }
        "send" => {
            station.set_goal(peer, number(2));
            String::new()
        }
        "stop" => station.stop(peer).to_string(),
        "counts" => {
            let is_quiet = station.flows[&peer].is_released()
                && station.inbox.landings_of(peer) == 0
                && station.inbox.kept.is_empty();
            format!(
                "{} {} {} {is_quiet}",
                station.flows[&peer].frames,
                station.inbox.frames(peer),
                station.inbox.controls(peer),
            )
        }
        other => panic!("{other}?"),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len())
        .step_by(2)
        .map(|index| u8::from_str_radix(&text[index..index + 2], 16).expect("hexadecimal"))
        .collect()
}
