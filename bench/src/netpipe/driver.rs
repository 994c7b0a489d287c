//! The sweep: size by size, round by round, job by job; then the peers.

use super::arguments::{Mode, Settings, named_twice};
use super::command::{Round, Samples};
use super::disk_alone::FolderDisk;
use super::log_figures::{DiskFigures, LogFigures};
use super::peers::{self, Peer};
use super::plot::chart;
use super::ranks::{Contestant, Ranks};
use super::result::{Figures, Measured, NO_PROTOCOL, Record, overhead};
use super::sizes::Point;
use super::table::{legend, render};
use crate::error::BenchError;
use crate::interrupt::Interrupt;
use crate::machine;
use crate::report::{Progress, format_size, print};
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

/// The protocol with which the others are compared.
const BASELINE: &str = "none";

/// Runs a sweep, and prints its table also after an error.
///
/// # Errors
/// The sweep could not begin or did not end well.
pub fn run(settings: &Settings) -> Result<(), BenchError> {
    let arguments = &settings.arguments;
    let interrupt = Interrupt::install()?;
    let progress = Progress::new("size", settings.points.len(), arguments.quiet);
    let mut json = arguments.json.clone().map(JsonFile::create).transpose()?;
    let mut records = Vec::new();
    let result = measure_all(settings, &interrupt, &progress, &mut |record| {
        if let Some(json) = &mut json {
            json.write(&record)?;
        }
        records.push(record);
        Ok(())
    });
    drop(progress);
    if !records.is_empty() {
        print(&render(&records, arguments.all_sizes))?;
        print(&legend(&records))?;
        if let Some(path) = &arguments.plot {
            chart(&records, &machine::describe())?.save(path)?;
        }
    }
    result
}

type Report<'a> = &'a mut dyn FnMut(Record) -> Result<(), BenchError>;
/// Measures the speed of the disk alone, in bytes per second.
type DiskAlone<'a> = &'a mut dyn FnMut(Duration) -> Result<f64, BenchError>;

fn measure_all(
    settings: &Settings,
    interrupt: &Interrupt,
    progress: &Progress,
    report: Report<'_>,
) -> Result<(), BenchError> {
    let arguments = &settings.arguments;
    // Dropped in every case: no rank outlives this function.
    let mut jobs: Vec<Ranks> = Vec::new();
    for fabric in &arguments.fabric {
        for protocol in &arguments.protocol {
            let mut ranks = Ranks::start(settings, fabric, protocol, interrupt)?;
            ranks.prepare(settings)?;
            let is_same = |other: &Ranks| {
                other.fabric() == ranks.fabric() && other.protocol() == ranks.protocol()
            };
            if jobs.iter().any(is_same) {
                return Err(named_twice("--fabric", ranks.fabric()));
            }
            jobs.push(ranks);
        }
    }
    let mut found = peers::Found::default();
    if arguments.peers {
        let fabrics: Vec<&str> = jobs.iter().map(Contestant::fabric).collect();
        found = peers::find(settings, &fabrics, interrupt);
    }
    for missing in &found.missing {
        progress.remark(missing);
    }
    let folder = arguments.spill.spill_dir.clone();
    let mut disk = folder.map(|folder| FolderDisk::new(folder, interrupt.clone()));
    let mut disk = disk.as_mut().map(|disk| |time| disk.measure(time));
    let mut sweep = Sweep {
        settings,
        contestants: (jobs.iter_mut())
            .map(|ranks| ranks as &mut dyn Contestant)
            .collect(),
        disk: disk.as_mut().map(|disk| disk as DiskAlone<'_>),
        peers: with_groups(found.peers, &settings.points),
        interrupt,
        progress,
    };
    sweep.run(report)?;
    drop(sweep);
    jobs.into_iter().try_for_each(Ranks::end)
}

/// Groups of sizes; a peer measures each group with one start.
type Groups = Vec<Vec<u64>>;

fn with_groups(peers: Vec<Peer>, points: &[Point]) -> Vec<(Peer, Groups)> {
    let on_series = points.iter().filter(|point| !point.perturbed);
    let sizes: Vec<u64> = on_series.map(|point| point.bytes).collect();
    let grouped = |peer: Peer| {
        let groups = (peer.groups)(&sizes);
        (peer, groups)
    };
    peers.into_iter().map(grouped).collect()
}

/// All participants that have a turn at each size.
struct Sweep<'a> {
    settings: &'a Settings,
    contestants: Vec<&'a mut dyn Contestant>,
    disk: Option<DiskAlone<'a>>,
    /// Peers with their groups of sizes; a group is measured after its last size.
    peers: Vec<(Peer, Groups)>,
    interrupt: &'a Interrupt,
    progress: &'a Progress,
}

impl Sweep<'_> {
    /// Measures all sizes. Reports the records of each size when it is done.
    fn run(&mut self, report: Report<'_>) -> Result<(), BenchError> {
        let settings = self.settings;
        let count = self.contestants.len();
        let mut turn = 0;
        for &point in &settings.points {
            self.progress.begin(format_size(point.bytes));
            let mut rounds = vec![Vec::new(); count];
            let mut disk_rounds = Vec::new();
            for _ in 0..settings.arguments.rounds {
                // Each turn begins with the next contestant.
                for index in (0..count).map(|index| (index + turn) % count) {
                    self.interrupt.check()?;
                    let round = Round {
                        bytes: point.bytes,
                        mode: settings.mode,
                        receive: settings.arguments.receive,
                        time: settings.round_time(),
                        seed: turn as u64,
                    };
                    rounds[index].push(self.contestants[index].measure(&round)?);
                }
                if let Some(disk) = &mut self.disk {
                    disk_rounds.push(disk(settings.round_time())?);
                }
                turn += 1;
            }
            for record in self.records(point, &rounds, &disk_rounds) {
                report(record)?;
            }
            if !point.perturbed {
                self.measure_peers(point.bytes, report)?;
            }
            self.progress.step();
        }
        Ok(())
    }

    /// The records of one size, from the samples of each contestant's rounds.
    fn records(&self, point: Point, rounds: &[Vec<Samples>], disk_rounds: &[f64]) -> Vec<Record> {
        let settings = self.settings;
        let of_rounds = |rounds: &Vec<Samples>| Figures::from_rounds(rounds);
        let figures: Vec<Option<Figures>> = rounds.iter().map(of_rounds).collect();
        let with_figures = || self.contestants.iter().zip(&figures);
        let baseline = |fabric: &str| {
            with_figures()
                .find(|(other, _)| (other.fabric(), other.protocol()) == (fabric, BASELINE))
                .and_then(|(_, figures)| figures.as_ref())
        };
        let record = |index: usize| {
            let (contestant, rounds) = (&self.contestants[index], &rounds[index]);
            let figures = figures[index].as_ref()?;
            let measured = Measured {
                fabric: contestant.fabric(),
                protocol: contestant.protocol(),
                receive: settings.arguments.receive,
                mode: settings.mode,
                point,
            };
            if contestant.protocol() == BASELINE {
                return Some(measured.record(figures, None));
            }
            let base = baseline(contestant.fabric());
            let overhead = base.and_then(|base| overhead(&figures.rounds_us, &base.rounds_us));
            let log = LogFigures::of(rounds, settings.log_room.memory_bytes);
            let speeds = |figures: &Figures| figures.speeds(point.bytes, settings.mode);
            let disk = DiskFigures::of(
                &speeds(figures),
                base.map(speeds).as_deref(),
                disk_rounds,
                log.log_bytes_per_payload_byte,
            );
            Some(Record {
                log,
                disk,
                ..measured.record(figures, overhead)
            })
        };
        (0..rounds.len()).filter_map(record).collect()
    }

    /// Measures the peers whose group of sizes ends with this size. A peer that fails is left out
    /// from then on.
    fn measure_peers(&mut self, bytes: u64, report: Report<'_>) -> Result<(), BenchError> {
        for (mut peer, groups) in std::mem::take(&mut self.peers) {
            let due = groups.iter().find(|group| group.last() == Some(&bytes));
            let figures = match due {
                Some(group) => {
                    self.progress.begin(&*peer.name);
                    (peer.measure)(group)
                }
                None => Ok(Vec::new()),
            };
            match figures {
                Ok(figures) => {
                    let records = figures.iter().map(|figure| peer_record(&peer, figure));
                    records.into_iter().try_for_each(&mut *report)?;
                    self.peers.push((peer, groups));
                }
                Err(BenchError::Interrupted) => return Err(BenchError::Interrupted),
                Err(error) => {
                    let name = &peer.name;
                    self.progress
                        .remark(&format!("{name} is left out: {error}"));
                }
            }
        }
        Ok(())
    }
}

fn peer_record(peer: &Peer, figure: &peers::PeerFigure) -> Record {
    Measured {
        fabric: &peer.name,
        protocol: NO_PROTOCOL,
        receive: peer.receive,
        mode: Mode::PingPong,
        point: Point {
            bytes: figure.bytes,
            perturbed: false,
        },
    }
    .bare_record(figure.time_us)
}

/// The JSON file: one object per line, each written as soon as it is known.
struct JsonFile {
    path: PathBuf,
    file: File,
}

impl JsonFile {
    fn create(path: PathBuf) -> Result<Self, BenchError> {
        let file = File::create(&path).map_err(BenchError::write(&path))?;
        Ok(Self { path, file })
    }

    fn write(&mut self, record: &Record) -> Result<(), BenchError> {
        serde_json::to_string(record)
            .map_err(std::io::Error::from)
            .and_then(|line| self.file.write_all(format!("{line}\n").as_bytes()))
            .map_err(BenchError::write(&self.path))
    }
}

#[cfg(test)]
mod tests;
