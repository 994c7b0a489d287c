//! The command line.

use crate::campaign::Seeds;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgGroup, Args, Parser, Subcommand, value_parser};
use refrain_logging::Member;
use refrain_sim::explorer::Exploration;
use refrain_sim::holders;
use refrain_sim::model;
use refrain_sim::plan::Plan;
use refrain_sim::plan::generate::PlanOptions;
use refrain_sim::planted::{Known, Planted};
use refrain_sim::world::explored;
use std::time::Duration;

/// Runs whole simulated jobs (ranks, event loggers, checkpoint store, network,
/// disks, failures), each from a seed, and checks that the protocol holds.
#[derive(Debug, Parser)]
#[command(name = "refrain-sim", version, arg_required_else_help = true)]
#[command(args_conflicts_with_subcommands = true)]
#[command(group = ArgGroup::new("what").args(["seed", "seeds", "minutes", "explore"]))]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Run this seed only, and print its plan.
    #[arg(long, value_name = "SEED")]
    seed: Option<u64>,
    /// Number of seeds to run.
    #[arg(long, value_name = "COUNT", value_parser = value_parser!(u64).range(1..))]
    seeds: Option<u64>,
    /// Minutes to run seeds for.
    #[arg(long, value_name = "MINUTES", value_parser = minutes)]
    minutes: Option<Duration>,
    /// First of many seeds.
    #[arg(
        long,
        value_name = "SEED",
        default_value_t = 0,
        conflicts_with = "seed"
    )]
    first: u64,
    /// Number of threads, each with one seed [default: one per core].
    #[arg(long, value_name = "THREADS", value_parser = value_parser!(u32).range(1..=1024))]
    jobs: Option<u32>,
    /// Ranks of every job, 2 to 16 [default: the seed decides].
    #[arg(long, value_parser = value_parser!(u32).range(2..=i64::from(PlanOptions::RANKS_MAX)))]
    ranks: Option<u32>,
    /// Protocol of every job [default: the seed decides].
    #[arg(long, value_parser = PossibleValuesParser::new(["pessimist", "pessimist-classic", "ticket", "ticket-classic", "causal", "causal-classic"])
        .try_map(|name| name.parse::<Member>()))]
    protocol: Option<Member>,
    /// Approximate number of operations of each rank.
    #[arg(long, default_value_t = 200, value_parser = value_parser!(u32).range(1..=100_000))]
    operations: u32,
    /// Run jobs without faults.
    #[arg(long)]
    no_faults: bool,
    /// Plant a bug that must be found; all: one after the other; list: print their names.
    #[arg(long, value_name = "BUG")]
    plant: Option<String>,
    /// Explore all states of the protocol's core, of events at ranks (ticket, causal: all sizes of
    /// these) or of restarts of real engines (restart: all of these) in this size; list: print the
    /// sizes.
    #[arg(long, value_name = "SIZE")]
    explore: Option<String>,
    /// Run each seed twice and compare the runs.
    #[arg(long)]
    pub twice: bool,
    /// Do not search for a smaller plan that fails.
    #[arg(long)]
    pub no_shrink: bool,
    /// Print every effect of one seed.
    #[arg(long)]
    pub trace: bool,
}

/// What is simulated instead of whole jobs.
#[derive(Clone, Debug, Subcommand)]
pub enum Command {
    /// Simulates the control plane of large jobs: launcher and agents. Prints the times to start, to tell
    /// a death and to start a rank again, messages and memory.
    Control(ControlOptions),
}

/// Options of `control`.
#[derive(Clone, Debug, Args)]
pub struct ControlOptions {
    /// Numbers of ranks.
    #[arg(long, value_name = "A,B,…", value_delimiter = ',', default_value = "1024,16384,131072,1048576",
        value_parser = value_parser!(u32).range(1..=1 << 24))]
    pub ranks: Vec<u32>,
    /// Ranks on each host.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = value_parser!(u32).range(1..=4096))]
    pub ranks_per_host: u32,
    /// Number of agents below the launcher and below each agent; 0: the launcher is connected with all.
    #[arg(long, value_name = "A,B,…", value_delimiter = ',', default_value = "0,32",
        value_parser = value_parser!(u32).range(0..=65_536))]
    pub fan_out: Vec<u32>,
}

/// The task that the command line asks for.
pub enum Task {
    /// List the explorations.
    ListExplorations,
    /// Run these explorations.
    Explore(Vec<Explored>),
    /// List the planted bugs.
    ListPlanted,
    /// Find all planted bugs.
    FindAll,
    /// Find this planted bug.
    Find(&'static Known),
    /// Run one seed.
    One(u64),
    /// Run many seeds.
    Many(Seeds),
}

/// The name of an exploration, and the exploration.
pub type Explored = (String, Box<dyn Fn() -> Exploration>);

/// All explorations.
pub fn explorations() -> Vec<Explored> {
    let mut all: Vec<Explored> = Vec::new();
    for name in model::Size::NAMES {
        if let Some(size) = model::Size::named(name) {
            all.push((name.to_owned(), Box::new(move || model::run(&size))));
        }
    }
    for protocol in ["ticket", "causal"] {
        for name in holders::Size::NAMES {
            let name = format!("{protocol}-{name}");
            if let Some(size) = holders::Size::named(&name) {
                all.push((name, Box::new(move || holders::run(&size))));
            }
        }
    }
    for name in explored::Size::NAMES {
        if let Some(size) = explored::Size::named(name) {
            let run = move || explored::run(&size);
            all.push((format!("restart-{name}"), Box::new(run)));
        }
    }
    all
}

fn minutes(text: &str) -> Result<Duration, String> {
    let minutes: f64 = text.parse().map_err(|_| "not a number".to_string())?;
    if minutes > 0.0 && minutes < 1e6 {
        Ok(Duration::from_secs_f64(minutes * 60.0))
    } else {
        Err("must be above 0 and below 1000000".into())
    }
}

impl Arguments {
    /// The task that the options ask for.
    ///
    /// # Errors
    /// What is wrong with the options.
    pub fn task(&self) -> Result<Task, String> {
        // Not checked by clap: it ignores requirements on options that the group excludes.
        if self.trace && self.seed.is_none() {
            return Err("--trace prints the effects of one seed: add --seed SEED".into());
        }
        match self.explore.as_deref() {
            Some("list") => return Ok(Task::ListExplorations),
            Some(name) => {
                let mut chosen = explorations();
                let is_of = |it: &str| it.strip_prefix(name).is_some_and(|it| it.starts_with('-'));
                chosen.retain(|(it, _)| it == name || is_of(it));
                return match chosen.is_empty() {
                    true => Err(format!(
                        "no exploration is called `{name}`: see --explore list"
                    )),
                    false => Ok(Task::Explore(chosen)),
                };
            }
            None => {}
        }
        match self.plant.as_deref() {
            Some("list") => return Ok(Task::ListPlanted),
            Some("all") if self.seed.is_some() => {
                return Err("--plant all looks for bugs in many seeds: remove --seed".into());
            }
            Some("all") => return Ok(Task::FindAll),
            Some(name) => {
                let known = known(name)?;
                if self.seed.is_none() {
                    return Ok(Task::Find(known));
                }
            }
            None => {}
        }
        match (self.seed, self.many()) {
            (Some(seed), _) => Ok(Task::One(seed)),
            (None, Some(seeds)) => Ok(Task::Many(seeds)),
            (None, None) => {
                Err("no seeds: add --seed SEED, --seeds COUNT or --minutes MINUTES".into())
            }
        }
    }

    /// The seeds of a campaign, if they are given.
    pub fn many(&self) -> Option<Seeds> {
        match (self.seeds, self.minutes) {
            (Some(count), _) => Some(Seeds::Count(self.first, count)),
            (None, Some(time)) => Some(Seeds::Time(self.first, time)),
            (None, None) => None,
        }
    }

    /// The first seed of many.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Number of seeds that run at the same time.
    pub fn threads(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        self.jobs.map_or_else(cores, |jobs| jobs as usize)
    }

    /// The plan of a seed.
    pub fn plan(&self, seed: u64) -> Plan {
        let named = self.plant.as_deref().and_then(|name| known(name).ok());
        self.plan_with(seed, named.map(|known| known.planted))
    }

    /// The plan of a seed, with a planted bug or none.
    pub fn plan_with(&self, seed: u64, planted: Option<Planted>) -> Plan {
        let options = PlanOptions {
            ranks: self.ranks,
            protocol: self.protocol,
            operations: self.operations,
            planted,
            has_faults: !self.no_faults,
        };
        Plan::generate(seed, &options)
    }

    /// The command that runs a plan again.
    pub fn repeat(&self, plan: &Plan) -> String {
        let mut command = format!("refrain-sim --seed {}", plan.seed);
        if let Some(ranks) = self.ranks {
            command += &format!(" --ranks {ranks}");
        }
        if let Some(protocol) = self.protocol {
            command += &format!(" --protocol {}", protocol.name());
        }
        if self.operations != 200 {
            command += &format!(" --operations {}", self.operations);
        }
        if let Some(planted) = plan.planted {
            command += &format!(" --plant {}", planted.known().name);
        }
        for (is_set, option) in [(self.no_faults, " --no-faults"), (self.twice, " --twice")] {
            command += if is_set { option } else { "" };
        }
        command
    }
}

fn known(name: &str) -> Result<&'static Known, String> {
    let found = Planted::ALL.iter().find(|known| known.name == name);
    found.ok_or_else(|| format!("no bug is called `{name}`: see --plant list"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        Arguments::command().debug_assert();
    }

    /// The printed command runs the same plan.
    #[test]
    fn a_repeated_command_means_the_same() {
        let lines = [
            "refrain-sim --seeds 5",
            "refrain-sim --minutes 0.5 --ranks 3 --protocol pessimist-classic",
            "refrain-sim --seeds 1 --first 9 --operations 50 --no-faults",
        ];
        for line in lines {
            let arguments = Arguments::parse_from(line.split(' '));
            let planted = Some(Planted::ALL[0].planted);
            for planted in [None, planted] {
                let plan = arguments.plan_with(77, planted);
                let command = arguments.repeat(&plan);
                let again = Arguments::parse_from(command.split(' '));
                assert!(matches!(again.task(), Ok(Task::One(77))), "{command}");
                assert_eq!(again.plan(77), plan, "{command}");
            }
        }
    }

    #[test]
    fn wrong_options_are_told() {
        for line in [
            "refrain-sim --seed 1 --seeds 2",
            "refrain-sim --ranks 1 --seed 1",
            "refrain-sim --minutes -1",
            "refrain-sim --protocol none --seed 1",
        ] {
            assert!(
                Arguments::try_parse_from(line.split(' ')).is_err(),
                "{line}"
            );
        }
        for line in [
            "refrain-sim --ranks 3",
            "refrain-sim --trace --seeds 4",
            "refrain-sim --seed 1 --plant nonsense",
        ] {
            let arguments = Arguments::parse_from(line.split(' '));
            assert!(arguments.task().is_err(), "{line}");
        }
    }
}
