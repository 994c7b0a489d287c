//! Steps of ranks that die and are restarted. They speak to the launcher as a later life does, and
//! check its messages.

use refrain_job::JobError;
use refrain_job::control::message::{RecoveryFigures, StatusFigures, ToLauncher};
use refrain_job::control::{ControlPlane, News};
use refrain_ring::Rank;
use rustix::fs::MemfdFlags;
use rustix::process::{Signal, getpid, kill_process};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

thread_local! {
    /// By other rank, the newest incarnation that was reported as reachable.
    static KNOWN: RefCell<HashMap<u32, u32>> = RefCell::default();
    /// By other rank, the newest incarnation that was reported as dead.
    static DEAD: RefCell<HashMap<u32, u32>> = RefCell::default();
    /// The status that it answers.
    static FIGURES: RefCell<StatusFigures> = RefCell::default();
    /// Number of checkpoints that it has taken on request.
    static HEEDED: Cell<u64> = const { Cell::new(0) };
    /// It takes no checkpoints.
    static DEAF: Cell<bool> = const { Cell::new(false) };
}

/// Whether this is a later life.
pub fn is_later(control: &mut Option<ControlPlane>) -> bool {
    super::joined(control).expect("it joins").incarnation().0 > 0
}

/// Executes one of these steps; `false`: the step is none of them.
pub fn act(control: &mut Option<ControlPlane>, name: &str, value: &str) -> Result<bool, JobError> {
    match name {
        "join" => {
            super::joined(control)?;
        }
        "die" => die(value),
        "next-life" => {
            let control = super::joined(control)?;
            let own = control.rank();
            return Err(control.ask_for_next_life(own));
        }
        "touch" => drop(File::create(value).expect("a file")),
        "exists" => assert!(Path::new(value).exists(), "{value}"),
        "wait-for" => wait_for(value),
        "begin-fence" => super::joined(control)?.begin_fence(false)?,
        "life" => println!("life {}", super::joined(control)?.incarnation().0),
        "address" => put_address(super::joined(control)?)?,
        "remains" => expect_remains(super::joined(control)?, value)?,
        "begin" => super::joined(control)?.tell_beginning(number(value))?,
        "mark" => super::joined(control)?.mark_output(number(value))?,
        "stable" => super::joined(control)?.report(&stable(number(value), 1000))?,
        "recovered" => {
            super::joined(control)?.report(&ToLauncher::Recovered(Box::new(RecoveryFigures {
                events: number(value),
                ..RecoveryFigures::default()
            })))?
        }
        "meet-one" => meet_one(super::joined(control)?, value)?,
        "untold" => untold(super::joined(control)?)?,
        "ask" | "meet" => meet(super::joined(control)?)?,
        "wait-up" => wait_for_life(super::joined(control)?, value, false)?,
        "wait-down" => wait_for_life(super::joined(control)?, value, true)?,
        "figures" => set_figures(value),
        "deaf" => DEAF.set(true),
        "serve-until" => wait_until(super::joined(control)?, || Path::new(value).exists())?,
        "heed" => wait_until(super::joined(control)?, || HEEDED.get() >= number(value))?,
        "unasked" => assert_eq!(HEEDED.get(), 0),
        "want" => {
            super::joined(control)?.report(&ToLauncher::WantCheckpoint(number(value) as u32))?
        }
        "last-fence" => last_fence(super::joined(control)?)?,
        "clock" => {
            let expected = (!value.is_empty()).then(|| number(value));
            assert_eq!(
                super::joined(control)?.config().recovery.kill_at_clock,
                expected
            );
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// `R,S`: answers that it has received R and sent S bytes, and takes checkpoints.
fn set_figures(value: &str) {
    let (received, sent) = value.split_once(',').expect("two numbers");
    FIGURES.set(StatusFigures {
        received_bytes: number(received),
        sent_bytes: number(sent),
        heeds_requests: true,
        ..StatusFigures::default()
    });
}

/// Reports a checkpoint without taking one.
fn heed_request(control: &mut ControlPlane) -> Result<(), JobError> {
    if DEAF.get() {
        return Ok(());
    }
    let checkpoint = HEEDED.get() + 1;
    control.report(&ToLauncher::Taking(checkpoint))?;
    control.report(&stable(checkpoint, 5000))?;
    HEEDED.set(checkpoint);
    Ok(())
}

fn stable(checkpoint: u64, bytes: u64) -> ToLauncher {
    ToLauncher::Stable {
        checkpoint,
        bytes,
        log_bytes: 0,
    }
}

fn number(text: &str) -> u64 {
    text.parse().expect("a number")
}

/// `N/path`: kills itself, unless N lives died before; the file counts them.
fn die(value: &str) {
    let (times, path) = value.split_once('/').expect("a number and a path");
    let mut file = OpenOptions::new()
        .append(true)
        .create(true)
        .open(format!("/{path}"))
        .expect("a file");
    if file.metadata().expect("its length").len() < number(times) {
        file.write_all(b"x").expect("it can be written");
        kill_process(getpid(), Signal::KILL).expect("one may kill oneself");
    }
}

/// Waits until a file exists.
fn wait_for(path: &str) {
    while !Path::new(path).exists() {
        thread::sleep(Duration::from_millis(1));
    }
}

fn card(rank: u32, life: u32) -> String {
    format!("card of {rank} in life {life}")
}

fn memory(rank: u32, life: u32) -> String {
    format!("memory of {rank} in life {life}")
}

fn expect_memory(memory: OwnedFd, expected: &str) {
    // All processes share the offset of the file: read without moving it.
    let mut text = vec![0; expected.len() + 1];
    let read = File::from(memory)
        .read_at(&mut text, 0)
        .expect("it can be read");
    assert_eq!(String::from_utf8_lossy(&text[..read]), expected);
}

fn put_address(control: &mut ControlPlane) -> Result<(), JobError> {
    let (rank, life) = (control.rank().0, control.incarnation().0);
    let file = rustix::fs::memfd_create("test", MemfdFlags::CLOEXEC).expect("memory");
    let mut file = File::from(file);
    write!(file, "{}", memory(rank, life)).expect("it fits");
    control.put(
        &format!("address/{rank}"),
        card(rank, life).as_bytes(),
        Some(file.as_fd()),
    )
}

/// The memory of earlier lives comes right after the welcome, or not at all: `of` has the expected
/// incarnations for each life, like `none,0,0+1`.
fn expect_remains(control: &mut ControlPlane, of: &str) -> Result<(), JobError> {
    let of = of.split(',').nth(control.incarnation().0 as usize);
    let of = of.expect("one for each life");
    // All messages sent before the answer have arrived with it.
    control.put("asked", &[], None)?;
    control.get("asked")?;
    for one in of.split('+').filter(|one| *one != "none") {
        match control.next_news() {
            Some(News::Remains {
                incarnation,
                memory: left,
            }) => {
                assert_eq!(incarnation.0.to_string(), one);
                expect_memory(left, &memory(control.rank().0, incarnation.0));
            }
            other => panic!("{other:?} instead of {one}"),
        }
    }
    let more = control.next_news();
    assert!(more.is_none(), "{more:?} behind {of}");
    Ok(())
}

/// Notes a message of the launcher.
fn take_news(control: &mut ControlPlane) -> Result<(), JobError> {
    while let Some(news) = control.next_news() {
        match news {
            News::Up(peer) => {
                let (rank, incarnation) = (peer.rank, peer.incarnation);
                assert_ne!(rank, control.rank(), "nobody is told of itself");
                let told = String::from_utf8_lossy(&peer.card);
                assert_eq!(told, card(rank.0, incarnation.0));
                expect_memory(peer.memory.expect("memory"), &memory(rank.0, incarnation.0));
                note_up(rank.0, incarnation.0);
            }
            News::Down { rank, incarnation } => {
                assert_ne!(rank, control.rank(), "nobody is told of itself");
                let known = KNOWN.with_borrow(|known| known.get(&rank.0).copied());
                let is_over = known.is_none_or(|known| known <= incarnation.0);
                assert!(is_over, "it lives");
                DEAD.with_borrow_mut(|dead| dead.insert(rank.0, incarnation.0));
            }
            News::Remains { .. } | News::Departed(_) => {}
            News::RoundBegins(_) | News::RoundEnds { .. } => panic!("no rank is in a set"),
            News::CheckpointWanted => heed_request(control)?,
            News::StatusAsked => control.report(&ToLauncher::Status(Box::new(
                FIGURES.with_borrow(Clone::clone),
            )))?,
        }
    }
    Ok(())
}

/// A life is reported after the death of the known one. It is reported again when it puts its
/// address again.
fn note_up(rank: u32, life: u32) {
    if let Some(before) = KNOWN.with_borrow_mut(|known| known.insert(rank, life)) {
        let dead = DEAD.with_borrow(|dead| dead.get(&rank).copied());
        let is_next = before < life && dead >= Some(before);
        assert!(
            is_next || before == life,
            "{dead:?} of {before}, now {life}"
        );
    }
}

fn wait_until(control: &mut ControlPlane, done: impl Fn() -> bool) -> Result<(), JobError> {
    loop {
        control.check()?;
        take_news(control)?;
        if done() {
            return Ok(());
        }
        thread::yield_now();
    }
}

/// Asks for the introduction of all other ranks, and waits for it.
fn meet(control: &mut ControlPlane) -> Result<(), JobError> {
    let own = control.rank();
    for rank in (0..control.size()).map(Rank).filter(|rank| *rank != own) {
        control.meet(rank)?;
    }
    let others = control.size() as usize - 1;
    wait_until(control, || KNOWN.with_borrow(|known| known.len() == others))
}

/// Asks for the introduction of one rank, and waits for it.
fn meet_one(control: &mut ControlPlane, rank: &str) -> Result<(), JobError> {
    let rank = number(rank) as u32;
    control.meet(Rank(rank))?;
    wait_until(control, || {
        KNOWN.with_borrow(|known| known.contains_key(&rank))
    })
}

/// The launcher has told nothing of any other rank.
fn untold(control: &mut ControlPlane) -> Result<(), JobError> {
    control.check()?;
    let news = control.next_news();
    assert!(news.is_none(), "{news:?}");
    Ok(())
}

/// `R.L`: waits until rank R is reported, reachable or dead, in life L or a later one.
fn wait_for_life(control: &mut ControlPlane, value: &str, is_dead: bool) -> Result<(), JobError> {
    let (rank, life) = value.split_once('.').expect("a rank and a life");
    let (rank, life) = (number(rank) as u32, number(life) as u32);
    let told = if is_dead { &DEAD } else { &KNOWN };
    let is_told = |told: &HashMap<u32, u32>| told.get(&rank).is_some_and(|told| *told >= life);
    wait_until(control, || told.with_borrow(is_told))
}

fn last_fence(control: &mut ControlPlane) -> Result<(), JobError> {
    control.begin_fence(true)?;
    while !control.fence_passed()? {
        take_news(control)?;
        thread::yield_now();
    }
    Ok(())
}
