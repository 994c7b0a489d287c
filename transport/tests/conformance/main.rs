//! One suite for every fabric: each check proves a clause of the contract in
//! `transport/src/fabric/mod.rs`.
//!
//! A fabric has a [`Harness`]: endpoints of several ranks in one process, driven in turn from one
//! thread. [`run_all`] runs every check, also after one that fails, and names the checks that
//! failed and those that this fabric cannot show. Tests that need real processes (kills at any
//! instruction, sleeping without a processor) are beside each fabric.
//!
//! Besides its own subject, every check verifies of each frame that arrives: its order on its lane,
//! its header and each byte of its payload.

mod again;
mod death;
mod distant;
mod garbage;
mod greeting;
mod inbox;
mod keeping;
mod landings;
mod on_faulty;
mod on_mixed;
mod on_network;
mod on_ofi;
mod on_shm;
mod on_sim;
mod on_verbs;
mod order;
mod pattern;
mod progress;
mod rig;
mod seat;
mod sim_network;

pub use again::*;
pub use death::*;
pub use distant::*;
pub use garbage::*;
pub use keeping::*;
pub use order::*;
pub use progress::*;
pub use rig::{start_all, to_check};

use core::any::Any;
use core::fmt::Debug;
use core::time::Duration;
use refrain_ring::{Arena, Incarnation, Rank};
use refrain_transport::fabric::Fabric;
use refrain_transport::fabric::sim::LaneKind;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Any fabric that is checked.
pub trait Checked: Fabric + Debug + Any {}

impl<F: Fabric + Debug + Any> Checked for F {}

/// One rank as a harness makes it.
#[derive(Debug)]
pub struct Endpoint<F = Box<dyn Checked>> {
    /// The rank.
    pub rank: Rank,
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// Its fabric.
    pub fabric: F,
    /// Its log memory: at least four windows.
    pub arena: Arena,
    /// Maximum bytes in a channel's log.
    pub window_bytes: u64,
}

impl<F: Checked> Endpoint<F> {
    /// The same endpoint, to be checked.
    pub fn to_check(self) -> Endpoint {
        Endpoint {
            rank: self.rank,
            incarnation: self.incarnation,
            fabric: Box::new(self.fabric),
            arena: self.arena,
            window_bytes: self.window_bytes,
        }
    }
}

/// The parts of a fabric that the checks need.
pub trait Harness {
    /// A new job of `ranks` ranks in incarnation 0, each connected with all others. Endpoints of earlier jobs are gone.
    fn make(&mut self, ranks: u32) -> Vec<Endpoint>;

    /// A rank of the present job in a higher incarnation, without
    /// connections. Its older endpoint may still live, and post.
    fn restart(&mut self, rank: Rank, incarnation: Incarnation) -> Endpoint;

    /// Ends a rank as if its process were killed: without a last message.
    fn kill(&mut self, endpoint: Endpoint);

    /// Advances frames in flight; returns false if there are none.
    fn progress(&mut self) -> bool;

    /// The time that [`Fabric::wait`] measures its time-outs by.
    fn now(&self) -> Duration;

    /// Maximum number of calls to a sink that one poll makes, with two ranks.
    fn poll_calls_max(&self) -> usize;

    /// Whether a rank's frames may wait until other ranks poll, too (manual progress below the
    /// fabric): checks then poll all ranks while they wait for one.
    fn drives_all(&self) -> bool {
        false
    }

    /// How long nothing has to arrive before a check concludes that nothing more will. Zero if
    /// [`Harness::progress`] knows all frames in flight. Checks wait longer, see
    /// [`Harness::patience`], for frames that must arrive; this time is spent in full only if
    /// something was posted that must not arrive.
    fn silence(&self) -> Duration {
        Duration::ZERO
    }

    /// How often a sender tries to overrun a receiver that polls at every hundredth turn: fewer
    /// times if a turn is slow.
    fn busy_rounds(&self) -> u32 {
        10_000
    }

    /// Maximum time for anything that must happen, on a loaded machine.
    fn patience(&self) -> Duration {
        Duration::from_secs(30)
    }

    /// Why lanes of this fabric cannot begin again here, if so.
    fn cannot_begin_again(&self) -> Option<&'static str> {
        None
    }

    /// Puts bytes where the lane's next frame belongs, behind all posted ones. Returns false if
    /// this harness has no way to do that.
    fn inject(&mut self, from: Rank, to: Rank, lane: LaneKind, bytes: &[u8]) -> bool {
        let _ = (from, to, lane, bytes);
        false
    }
}

/// The outcome of a check that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The clause holds.
    Holds,
    /// This fabric or harness cannot show it, for the given reason.
    Skipped(&'static str),
}

/// The outcomes of all checks, by name.
#[derive(Debug, Default)]
pub struct Report {
    /// Checks that hold.
    pub held: Vec<&'static str>,
    /// Checks that could not be shown, with the reason.
    pub skipped: Vec<(&'static str, &'static str)>,
    /// Checks that failed, with the words of the failure.
    pub failed: Vec<(&'static str, String)>,
}

macro_rules! report {
    ($harness:expr; $($check:ident,)+) => {{
        let mut report = Report::default();
        $(
            match catch_unwind(AssertUnwindSafe(|| $check($harness))) {
                Ok(Outcome::Holds) => report.held.push(stringify!($check)),
                Ok(Outcome::Skipped(why)) => report.skipped.push((stringify!($check), why)),
                Err(panic) => report.failed.push((stringify!($check), words_of(&*panic))),
            }
        )+
        report
    }};
}

/// Runs every check, also after one has failed.
pub fn run(harness: &mut dyn Harness) -> Report {
    report!(harness;
        check_data_lane_is_fifo,
        check_control_lane_is_fifo,
        check_nothing_is_lost_when_busy,
        check_payload_sizes,
        check_log_memory_is_reused,
        check_chunks_are_left,
        check_peers_interleaved,
        check_control_passes_a_full_data_lane,
        check_poll_is_bounded,
        check_wait_sees_what_was_posted_before,
        check_wait_sees_released,
        check_wait_sees_room_for_control,
        check_wait_ends,
        check_released_reaches_the_tail,
        check_released_stops_at_kept,
        check_keep_and_let_go_in_any_order,
        check_pressed_before_a_stall,
        check_frames_do_not_wait_for_a_landing,
        check_landings_end_once,
        check_released_stops_at_distant,
        check_wait_sees_a_landing,
        check_disconnect_ends_landings,
        check_death_ends_landings,
        check_old_distant_places_are_lost,
        check_close_ends_everything,
        check_drained_when_all_has_come,
        check_unconnected_is_refused,
        check_unusable_address_is_refused,
        check_disconnect_fences,
        check_disconnect_ends_keeping,
        check_reconnect_begins_anew,
        check_frames_wait_for_connect,
        check_old_places_do_not_name_new_frames,
        check_late_frames_are_fenced,
        check_first_frames_of_the_old_are_fenced,
        check_connect_fences,
        check_fenced_incarnation_stays_out,
        check_killed_peer_leaves_a_prefix,
        check_lane_begins_in_the_middle,
        check_released_of_a_peer_that_is_gone,
        check_published_while_gone_comes_later,
        check_kept_frames_hold_a_lane_that_began_again,
        check_both_sides_begin_again,
        check_lives_in_a_row,
        check_early_life_gets_nothing_of_the_old,
        check_kept_of_an_earlier_life,
        check_connected_incarnation_is_refused,
        check_wrong_incarnation_is_refused,
        check_wrong_source_is_refused,
        check_broken_header_is_refused,
        check_broken_link_is_refused,
        check_garbage_header_is_refused,
        check_garbage_control_is_refused,
    )
}

/// Runs every check, and prints those that could not be shown.
///
/// # Panics
/// When a check failed. The message names all failed checks.
pub fn run_all(harness: &mut dyn Harness) -> Report {
    let report = run(harness);
    for (check, why) in &report.skipped {
        eprintln!("skipped {check}: {why}");
    }
    let failed: Vec<String> = report
        .failed
        .iter()
        .map(|(check, words)| format!("  {check}: {words}"))
        .collect();
    assert!(
        failed.is_empty(),
        "the fabric breaks its contract:\n{}",
        failed.join("\n")
    );
    report
}

fn words_of(panic: &(dyn Any + Send)) -> String {
    let literal = panic
        .downcast_ref::<&str>()
        .map(|words| (*words).to_owned());
    literal
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without words".to_owned())
}
