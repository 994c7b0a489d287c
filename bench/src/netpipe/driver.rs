//! The sweep: size by size, round by round, job by job; peers after them.

use super::NetpipeError;
use super::arguments::{Mode, Settings};
use super::command::{Round, Samples};
use super::disk_alone::{DiskAlone, FolderDisk};
use super::log_figures::{DiskFigures, LogFigures};
use super::peers::{self, Peer, PeerError};
use super::progress::Progress;
use super::ranks::Ranks;
use super::result::{Figures, Measured, NO_PROTOCOL, Record, overhead};
use super::sizes::Point;
use super::{fabrics, machine, plot, table};
use crate::interrupt::{Interrupt, STATUS_INTERRUPTED};
use std::fs::File;
use std::io::Write;
use std::process::ExitCode;

/// The protocol that the others are compared with.
const BASELINE: &str = "none";

/// Two ranks on one fabric with one protocol.
pub trait Contestant {
    /// The fabric in use.
    fn fabric(&self) -> &str;
    /// The protocol in use.
    fn protocol(&self) -> &str;
    /// Measures one round; nothing of it runs before and after.
    ///
    /// # Errors
    /// When a rank fails, or the sweep is interrupted.
    fn measure(&mut self, round: &Round) -> Result<Samples, NetpipeError>;
}

/// Runs a sweep as `settings` say, and prints its table, however it ends.
///
/// # Errors
/// When it could not begin or did not end well.
pub fn run(settings: &Settings) -> Result<ExitCode, NetpipeError> {
    let interrupt =
        Interrupt::install().map_err(NetpipeError::system("cannot listen for Ctrl-C"))?;
    let progress = Progress::new(settings.points.len(), settings.quiet);
    let mut json = settings.json.as_deref().map(JsonFile::create).transpose()?;
    let mut records = Vec::new();
    let result = measure_all(settings, &interrupt, &progress, &mut |record| {
        if let Some(json) = &mut json {
            json.write(&record)?;
        }
        records.push(record);
        Ok(())
    });
    progress.finish();
    let begun = !records.is_empty();
    if begun {
        print(&records, settings.all_sizes)?;
        if let Some(path) = &settings.plot {
            plot::write(&records, &machine::describe(), path)?;
        }
    }
    match result {
        Err(NetpipeError::Interrupted) => {
            eprintln!("interrupted");
            Ok(ExitCode::from(STATUS_INTERRUPTED))
        }
        Err(error) => Err(error),
        Ok(()) => Ok(ExitCode::SUCCESS),
    }
}

/// A reader that has gone (`| head`) is no error.
fn print(records: &[Record], all_sizes: bool) -> Result<(), NetpipeError> {
    let text = format!(
        "{}\n{}\n",
        table::render(records, all_sizes),
        table::legend(records)
    );
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(NetpipeError::system(
            "cannot write the table to standard output",
        )(error)),
        _ => Ok(()),
    }
}

type Report<'a> = &'a mut dyn FnMut(Record) -> Result<(), NetpipeError>;

fn measure_all(
    settings: &Settings,
    interrupt: &Interrupt,
    progress: &Progress,
    report: Report<'_>,
) -> Result<(), NetpipeError> {
    // Dropped on every way out: no rank outlives this function.
    let mut jobs: Vec<Ranks> = Vec::new();
    for fabric in &settings.fabrics {
        for protocol in &settings.protocols {
            let mut ranks = Ranks::start(settings, fabric, protocol, interrupt)?;
            ranks.prepare(settings)?;
            let is_same = |other: &Ranks| {
                other.fabric() == ranks.fabric() && other.protocol() == ranks.protocol()
            };
            if jobs.iter().any(is_same) {
                return Err(fabrics::named_twice(ranks.fabric()));
            }
            jobs.push(ranks);
        }
    }
    let mut found = peers::Found::default();
    if settings.peers {
        let fabrics: Vec<&str> = jobs.iter().map(Contestant::fabric).collect();
        found = peers::find(settings, &fabrics, interrupt);
    }
    for missing in &found.missing {
        progress.remark(missing);
    }
    let mut contestants: Vec<&mut dyn Contestant> = jobs
        .iter_mut()
        .map(|ranks| ranks as &mut dyn Contestant)
        .collect();
    let mut disk = settings
        .spill
        .as_ref()
        .map(|spill| FolderDisk::new(spill.folder.clone(), interrupt.clone()));
    sweep(
        settings,
        &mut contestants,
        disk.as_mut().map(|disk| disk as &mut dyn DiskAlone),
        found.peers,
        interrupt,
        progress,
        report,
    )?;
    jobs.into_iter().try_for_each(Ranks::end)
}

/// All sizes. Reports the records of a size when it is done.
fn sweep(
    settings: &Settings,
    contestants: &mut [&mut dyn Contestant],
    mut disk: Option<&mut dyn DiskAlone>,
    peers: Vec<Box<dyn Peer>>,
    interrupt: &Interrupt,
    progress: &Progress,
    report: Report<'_>,
) -> Result<(), NetpipeError> {
    let mut turns = PeerTurns::new(peers, &settings.points);
    let mut turn = 0;
    for &point in &settings.points {
        progress.size(point.bytes);
        let mut rounds = vec![Vec::new(); contestants.len()];
        let mut disk_rounds = Vec::new();
        for _ in 0..settings.rounds {
            for index in rotated(contestants.len(), turn) {
                interrupt.check()?;
                let round = Round {
                    bytes: point.bytes,
                    mode: settings.mode,
                    receive: settings.receive,
                    time: settings.round_time,
                    seed: turn as u64,
                };
                rounds[index].push(contestants[index].measure(&round)?);
            }
            if let Some(disk) = &mut disk {
                disk_rounds.push(disk.measure(settings.round_time)?);
            }
            turn += 1;
        }
        for record in records(settings, contestants, point, &rounds, &disk_rounds) {
            report(record)?;
        }
        for record in turns.after(point, progress)? {
            report(record)?;
        }
        progress.step();
    }
    Ok(())
}

/// 0 to `count`, each turn beginning with the next one.
fn rotated(count: usize, turn: usize) -> impl Iterator<Item = usize> {
    (0..count).map(move |index| (index + turn) % count)
}

/// The records of one size, from the samples of each contestant's rounds.
fn records(
    settings: &Settings,
    contestants: &[&mut dyn Contestant],
    point: Point,
    rounds: &[Vec<Samples>],
    disk_rounds: &[f64],
) -> Vec<Record> {
    let figures: Vec<Option<Figures>> = rounds
        .iter()
        .map(|rounds| Figures::from_rounds(rounds))
        .collect();
    let baseline = |fabric: &str| {
        contestants
            .iter()
            .zip(&figures)
            .find(|(other, _)| other.fabric() == fabric && other.protocol() == BASELINE)
            .and_then(|(_, figures)| figures.as_ref())
    };
    contestants
        .iter()
        .zip(&figures)
        .zip(rounds)
        .filter_map(|((contestant, figures), rounds)| {
            let figures = figures.as_ref()?;
            let keeps_payload = contestant.protocol() != BASELINE;
            let base = baseline(contestant.fabric()).filter(|_| keeps_payload);
            let overhead = base.and_then(|base| overhead(&figures.rounds_us, &base.rounds_us));
            let (log, disk) = if keeps_payload {
                let log = LogFigures::of(rounds, settings.log_room.memory_bytes);
                let speeds = |figures: &Figures| figures.speeds(point.bytes, settings.mode);
                let disk = DiskFigures::of(
                    &speeds(figures),
                    base.map(speeds).as_deref(),
                    disk_rounds,
                    log.log_bytes_per_payload_byte,
                );
                (log, disk)
            } else {
                Default::default()
            };
            let measured = Measured {
                fabric: contestant.fabric(),
                protocol: contestant.protocol(),
                receive: settings.receive,
                mode: settings.mode,
                point,
            };
            Some(Record {
                log,
                disk,
                ..measured.record(figures, overhead)
            })
        })
        .collect()
}

/// Sizes that a peer measures by one start each.
type Groups = Vec<Vec<u64>>;

/// Which peer measures what when: each group of sizes has its turn after the
/// group's last size.
struct PeerTurns {
    peers: Vec<(Box<dyn Peer>, Groups)>,
}

impl PeerTurns {
    fn new(peers: Vec<Box<dyn Peer>>, points: &[Point]) -> Self {
        let sizes: Vec<u64> = points
            .iter()
            .filter(|point| !point.perturbed)
            .map(|point| point.bytes)
            .collect();
        let peers = peers
            .into_iter()
            .map(|peer| {
                let groups = peer.groups(&sizes);
                (peer, groups)
            })
            .collect();
        Self { peers }
    }

    /// Measures the groups that end with `point`. A peer that fails is reported
    /// and left out from then on.
    fn after(&mut self, point: Point, progress: &Progress) -> Result<Vec<Record>, NetpipeError> {
        let mut records = Vec::new();
        let mut kept = Vec::new();
        for (mut peer, groups) in self.peers.drain(..) {
            let due = groups
                .iter()
                .find(|group| !point.perturbed && group.last() == Some(&point.bytes));
            let Some(group) = due else {
                kept.push((peer, groups));
                continue;
            };
            progress.peer(peer.name());
            match peer.measure(group) {
                Ok(figures) => {
                    records.extend(figures.iter().map(|figure| peer_record(&*peer, figure)));
                    kept.push((peer, groups));
                }
                Err(PeerError::Interrupted) => return Err(NetpipeError::Interrupted),
                Err(PeerError::Failed(reason)) => {
                    progress.remark(&format!("{} is left out: {reason}", peer.name()));
                }
            }
        }
        self.peers = kept;
        Ok(records)
    }
}

fn peer_record(peer: &dyn Peer, figure: &peers::PeerFigure) -> Record {
    Measured {
        fabric: peer.name(),
        protocol: NO_PROTOCOL,
        receive: peer.receive(),
        mode: Mode::PingPong,
        point: Point {
            bytes: figure.bytes,
            perturbed: false,
        },
    }
    .bare_record(figure.time_us)
}

/// One object a line, each on disk as soon as it is known.
struct JsonFile<'a> {
    path: &'a std::path::Path,
    file: File,
}

impl<'a> JsonFile<'a> {
    fn create(path: &'a std::path::Path) -> Result<Self, NetpipeError> {
        let file = File::create(path).map_err(|error| NetpipeError::Write {
            path: path.into(),
            error,
        })?;
        Ok(Self { path, file })
    }

    fn write(&mut self, record: &Record) -> Result<(), NetpipeError> {
        serde_json::to_string(record)
            .map_err(std::io::Error::from)
            .and_then(|line| self.file.write_all(format!("{line}\n").as_bytes()))
            .map_err(|error| NetpipeError::Write {
                path: self.path.into(),
                error,
            })
    }
}

#[cfg(test)]
mod tests;
