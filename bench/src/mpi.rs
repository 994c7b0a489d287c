//! `refrain bench mpi`: the time of MPI's messages on two ranks, beside other libraries.
//!
//! One program in C (`bench/peers/mpi.c`) is compiled with each library. A run is a job of one size; in
//! each repetition every library has its turn at each size. Figures are medians over repetitions, ratios
//! medians of ratios within a repetition. No run sends more than fits in the payload log: the log is
//! never reused, as without checkpoints, and its memory is taken at the start. A job whose log is full
//! fails. The job of size 0 has no messages and no options: it tells the time of `MPI_Init` and
//! `MPI_Finalize`.

use crate::drawing::axis::{Axis, LogAxis};
use crate::drawing::chart::{Chart, Panel, Series, Shape};
use crate::error::BenchError;
use crate::experiments::jobs::Jobs;
use crate::experiments::{Reporting, check_loop, repeat};
use crate::machine;
use crate::mpi_libraries::{self, Compiled, Source};
use crate::report::{format_size, print, table};
use crate::summary::Summary;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

const SOURCE: Source = Source {
    name: "mpi.c",
    text: include_str!("../peers/mpi.c"),
    ranks: 2,
};
/// Figures, in the order of the tables.
const NAMES: [&str; 7] = [
    "contiguous",
    "vector",
    "blocks",
    "indexed",
    "struct",
    "window",
    "start",
];
/// Number of figures for which a run sends.
const MEASUREMENTS: u64 = 6;
/// Smallest log bytes of a message: its record.
const RECORD_BYTES: u64 = 64;
const SIZE_BYTES_MAX: u64 = 1 << 28;

/// Parameters of the measurement of MPI's messages.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub struct Arguments {
    /// Folder of an installed Refrain [default: where this program is installed].
    #[arg(long, value_name = "DIR")]
    #[serde(skip)]
    prefix: Option<PathBuf>,
    /// Sizes of messages, separated by commas.
    #[arg(long, value_name = "SIZES", value_delimiter = ',', value_parser = refrain_launch::size::parse,
          default_value = "8,64,256,1K,4K,16K,64K,256K,1M,4M")]
    sizes: Vec<u64>,
    /// Protocols to compare.
    #[arg(
        long,
        value_name = "A,B,…",
        value_delimiter = ',',
        default_value = "pessimist"
    )]
    protocol: Vec<String>,
    /// Time of each measurement: of one size and type.
    #[arg(long, value_name = "SECONDS", default_value_t = 0.02)]
    time: f64,
    /// Memory of the payload log of each rank.
    #[arg(long, value_name = "SIZE", default_value = "2G", value_parser = refrain_launch::size::parse)]
    log_memory: u64,
    /// Number of measurements.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    repetitions: u32,
    #[command(flatten)]
    #[serde(skip)]
    reporting: Reporting,
}

/// A figure of one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Run {
    repetition: u32,
    library: String,
    bytes: u64,
    /// One of [`NAMES`].
    figure: String,
    /// Microseconds; of `start`: milliseconds.
    value: f64,
}

impl Arguments {
    fn check(&self) -> Result<(), BenchError> {
        if let Some(bytes) = (self.sizes.iter()).find(|it| !(8..=SIZE_BYTES_MAX).contains(*it)) {
            let problem = format!("messages of {bytes} bytes cannot be measured");
            return Err(BenchError::option("--sizes", problem, "give 8 to 256M"));
        }
        check_loop(self.protocol.iter().map(String::as_str), self.time)?;
        let largest = self.sizes.iter().copied().max().unwrap_or(0);
        if self.log_memory < 32 * MEASUREMENTS * largest {
            let size = format_size(largest);
            let problem = format!("the messages of {size} do not fit in the payload log");
            let help = "raise --log-memory, or lower --sizes";
            return Err(BenchError::option("--log-memory", problem, help));
        }
        Ok(())
    }

    /// The installed program of this name.
    fn installed(&self, name: &str) -> Result<PathBuf, BenchError> {
        let beside = || Some(std::env::current_exe().ok()?.parent()?.to_owned());
        let folder = match &self.prefix {
            Some(prefix) => Some(prefix.join("bin")),
            None => beside(),
        };
        let found = folder.map(|folder| folder.join(name));
        found.filter(|path| path.is_file()).ok_or_else(|| {
            BenchError::failed(format!(
                "{name} was not found: run refrain install --prefix DIR, then give --prefix DIR"
            ))
        })
    }

    fn own(&self, protocol: &str, jobs: &Jobs) -> Result<Compiled, BenchError> {
        let options = vec!["--protocol".into(), protocol.into()];
        Compiled::new(
            protocol.to_owned(),
            &self.installed("mpicc")?,
            self.installed("mpiexec")?,
            options,
            SOURCE,
            jobs.interrupt(),
        )
    }

    /// Options of Refrain for a job of this size.
    fn options(&self, bytes: u64) -> Vec<String> {
        let log_memory = self.log_memory;
        let options = match bytes {
            0 => return Vec::new(),
            _ => format!("--log-memory {log_memory} --log-disk 0 --log-prefault --log-full stop"),
        };
        options.split(' ').map(str::to_owned).collect()
    }

    /// Arguments of the program.
    fn words(&self, bytes: u64) -> [String; 3] {
        // Half of the log is for what surrounds the data of short messages.
        let sent = self.log_memory / MEASUREMENTS / 2;
        let sent = sent * bytes / (bytes + RECORD_BYTES);
        [self.time.to_string(), sent.to_string(), bytes.to_string()]
    }
}

/// Measures and prints.
///
/// # Errors
/// When a job fails, or a file cannot be written.
pub fn run(arguments: &Arguments) -> Result<(), BenchError> {
    arguments.check()?;
    arguments.reporting.check()?;
    let jobs = Jobs::new()?;
    let own = arguments.protocol.iter().map(|it| arguments.own(it, &jobs));
    let mut libraries = own.collect::<Result<Vec<_>, _>>()?;
    let (peers, missing) = mpi_libraries::find(SOURCE, jobs.interrupt())?;
    libraries.extend(peers);
    for reason in missing {
        eprintln!("{reason}");
    }
    let cases: Vec<(u64, usize)> = (arguments.sizes.iter().chain(&[0]))
        .flat_map(|bytes| (0..libraries.len()).map(|index| (*bytes, index)))
        .collect();
    let mut left_out = BTreeMap::new();
    let runs = repeat(
        &cases,
        arguments.repetitions,
        &arguments.reporting,
        |(bytes, index)| format!("{}, {}", format_size(bytes), libraries[index].name()),
        |repetition, (bytes, index)| {
            let library = libraries[index].name();
            let is_own = index < arguments.protocol.len();
            if left_out.contains_key(library) {
                return Ok(Vec::new());
            }
            let options = match is_own {
                true => arguments.options(bytes),
                false => Vec::new(),
            };
            let ran = libraries[index].run(&options, &arguments.words(bytes));
            let figures = ran.and_then(|text| {
                figures(&text).ok_or_else(|| {
                    let problem = format!("{library}: no figures in what it printed:\n{text}");
                    BenchError::failed(problem)
                })
            });
            let figures = match figures {
                Err(error) if !is_own && !matches!(error, BenchError::Interrupted) => {
                    left_out.insert(library, error.to_string());
                    Vec::new()
                }
                figures => figures?,
            };
            let figures = figures
                .into_iter()
                .filter(|(name, _)| bytes == 0 || name != "start");
            let run = |(figure, value)| Run {
                repetition,
                library: library.to_owned(),
                bytes,
                figure,
                value,
            };
            Ok(figures.map(run).collect::<Vec<_>>())
        },
    )?
    .concat();
    let names: Vec<&str> = libraries.iter().map(Compiled::name).collect();
    let results = Results {
        runs: &runs,
        names: &names,
        own: arguments.protocol.len(),
    };
    let (experiment, chart) = ("mpi", || results.chart(&arguments.sizes));
    (arguments.reporting).write(experiment, arguments, &runs, chart)?;
    print(&results.text(arguments))?;
    for (library, why) in left_out {
        print(&format!("{library} is left out: {why}"))?;
    }
    Ok(())
}

/// The figures in the output of the program, among other lines.
fn figures(text: &str) -> Option<Vec<(String, f64)>> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("figure "));
    let figure = |line: &str| {
        let (name, value) = line.split_once(' ')?;
        let value: f64 = value.parse().ok()?;
        (NAMES.contains(&name) && value > 0.0 && value.is_finite())
            .then(|| (name.to_owned(), value))
    };
    let figures: Option<Vec<_>> = lines.map(figure).collect();
    let is_whole = |figures: &Vec<_>| matches!(&figures[..], [.., (name, _)] if name == "start");
    figures.filter(is_whole)
}

/// What was measured. The first `own` libraries are Refrain.
struct Results<'a> {
    runs: &'a [Run],
    names: &'a [&'a str],
    own: usize,
}

impl Results<'_> {
    fn of(&self, figure: &str, bytes: u64, library: &str) -> impl Iterator<Item = &Run> {
        self.runs
            .iter()
            .filter(move |run| run.figure == figure && run.bytes == bytes && run.library == library)
    }

    fn summary(&self, figure: &str, bytes: u64, library: &str) -> Option<Summary> {
        Summary::of(self.of(figure, bytes, library).map(|run| run.value))
    }

    /// The value of `library`, divided by that of the better peer of the same repetition.
    fn ratio(&self, figure: &str, bytes: u64, library: &str) -> Option<Summary> {
        let peers = &self.names[self.own..];
        Summary::of(self.of(figure, bytes, library).filter_map(|run| {
            let values = peers.iter().flat_map(|peer| self.of(figure, bytes, peer));
            let values = values.filter(|peer| peer.repetition == run.repetition);
            let better = values.map(|peer| peer.value).reduce(f64::min)?;
            Some(run.value / better)
        }))
    }

    fn text(&self, arguments: &Arguments) -> String {
        let mut header = vec!["figure".to_owned(), "bytes".to_owned()];
        header.extend(self.names.iter().map(|name| (*name).to_owned()));
        if self.own < self.names.len() {
            header.extend(
                self.names[..self.own]
                    .iter()
                    .map(|name| format!("{name}\n÷ peer")),
            );
        }
        let mut rows = Vec::new();
        for figure in NAMES {
            for &bytes in arguments.sizes.iter().chain(&[0]) {
                if self.of(figure, bytes, self.names[0]).next().is_none() {
                    continue;
                }
                let mut row = vec![figure.to_owned(), format_size(bytes)];
                for name in self.names {
                    let summary = self.summary(figure, bytes, name);
                    row.push(summary.map_or_else(String::new, |it| it.text(digits(it.median))));
                }
                for name in &self.names[..self.own] {
                    let ratio = self.ratio(figure, bytes, name);
                    row.extend(ratio.map(|it| it.text(2)));
                }
                rows.push(row);
            }
        }
        format!(
            "2 ranks; median over {} repetitions (quartiles). Types: half a round trip, µs; window: a message of \
             64 that go one way, µs; start: MPI_Init and MPI_Finalize, ms. ÷: median of ratios within a \
             repetition; peer: the better one.\n{}",
            arguments.repetitions,
            table(header, rows, 2)
        )
    }

    /// Times over sizes, a panel for each figure.
    fn chart(&self, sizes: &[u64]) -> Chart {
        let mut sizes = sizes.to_vec();
        sizes.sort_unstable();
        let panel = |figure: &&str| {
            let series = |(index, name): (usize, &&str)| {
                let at = |bytes: &u64| Some(self.summary(figure, *bytes, name)?.at(*bytes as f64));
                let is_own = index < self.own;
                let shape = if is_own { Shape::Line } else { Shape::Dashed };
                Series::new(*name, index, shape, sizes.iter().filter_map(at))
            };
            let series: Vec<Series> = self.names.iter().enumerate().map(series).collect();
            let points = || series.iter().flat_map(|it| &it.points);
            let x = LogAxis::sizes(points().map(|point| point.x))?;
            let y = LogAxis::decades(points().map(|point| point.y))?;
            Some(Panel {
                title: format!("{figure}, µs"),
                x_name: String::new(),
                x: Axis::Sizes(x),
                y: Axis::Decades(y),
                series,
                mark: None,
            })
        };
        let figures = NAMES.iter().filter(|name| **name != "start");
        Chart {
            title: "refrain bench mpi: 2 ranks, over bytes of the message".into(),
            remark: machine::describe(),
            panels: figures.filter_map(panel).collect(),
        }
    }
}

/// Digits behind the point of a number with three significant ones.
fn digits(value: f64) -> usize {
    match value {
        v if v < 1.0 => 3,
        v if v < 10.0 => 2,
        v if v < 100.0 => 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(repetition: u32, library: &str, value: f64) -> Run {
        Run {
            repetition,
            library: library.into(),
            bytes: 8,
            figure: "window".into(),
            value,
        }
    }

    #[test]
    fn a_ratio_is_to_the_better_peer_of_the_repetition() {
        let runs = [
            run(0, "own", 2.0),
            run(0, "one", 4.0),
            run(0, "other", 8.0),
            run(1, "own", 6.0),
            run(1, "one", 4.0),
            run(1, "other", 3.0),
        ];
        let (names, own) = (&["own", "one", "other"], 1);
        let results = Results {
            runs: &runs,
            names,
            own,
        };
        let ratio = results.ratio("window", 8, "own").unwrap();
        assert_eq!((ratio.count, ratio.largest), (2, 2.0));
        assert!(results.ratio("start", 8, "own").is_none());
    }

    #[test]
    fn an_output_without_its_end_has_no_figures() {
        let text = "a warning\nfigure window 0.5\nfigure start 3.25\n";
        let expected = vec![("window".to_owned(), 0.5), ("start".to_owned(), 3.25)];
        assert_eq!(figures(text), Some(expected));
        for wrong in [
            "",
            "figure window 0.5\n",
            "figure other 1\nfigure start 1\n",
            "figure window 0\nfigure start 1\n",
            "figure window nan\nfigure start 1\n",
        ] {
            assert_eq!(figures(wrong), None, "{wrong}");
        }
    }
}
