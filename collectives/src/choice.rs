//! Which algorithm does a call.
//!
//! COLL-1: a table is a list of rules; the first one that applies decides. The choice depends on the
//! arguments of the call, on the group and on the table, which are the same at all places and in
//! all lives.
//!
//! As text, a rule is a line: the collective, conditions, the algorithm.
//!
//! ```text
//! # up to 2 KiB: latency counts
//! allreduce places<=64 bytes<=2048 recursive-doubling
//! bcast shared flat
//! ```
//!
//! Lines `segment-bytes N` (of chains) and `window N` (rounds of a linear alltoall) set parameters.
//! `places` is the size of the group. `bytes` is [`Call::bytes`]: of the vector, or of one block.
//! A rule with `bytes` does not apply where places do not know them: gatherv, scatterv, alltoallv.
//! `shared` is for groups whose members can all read one memory; `hierarchical` is for those of several
//! hosts.

use crate::algorithms::{Algorithm, Parameters};
use crate::call::{Call, Operation};
use std::fmt;
use std::str::FromStr;

/// Rules of choice and the parameters of algorithms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    rules: Vec<Rule>,
    /// Parameters for all schedules.
    pub parameters: Parameters,
}

/// A line of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rule {
    operation: Operation,
    shared: bool,
    places_max: Option<u32>,
    bytes_max: Option<u64>,
    algorithm: Algorithm,
}

/// A line that is not a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the table of algorithms: {problem}")]
pub struct NotATable {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub problem: String,
}

const OPERATIONS: [(Operation, &str); 13] = [
    (Operation::Barrier, "barrier"),
    (Operation::Bcast, "bcast"),
    (Operation::Gather, "gather"),
    (Operation::Scatter, "scatter"),
    (Operation::Allgather, "allgather"),
    (Operation::Alltoall, "alltoall"),
    (Operation::Reduce, "reduce"),
    (Operation::Allreduce, "allreduce"),
    (Operation::ReduceScatter, "reduce-scatter"),
    (Operation::Scan, "scan"),
    (Operation::Exscan, "exscan"),
    (Operation::NeighbourAllgather, "neighbour-allgather"),
    (Operation::NeighbourAlltoall, "neighbour-alltoall"),
];

const ALGORITHMS: [(Algorithm, &str); 15] = [
    (Algorithm::Linear, "linear"),
    (Algorithm::Flat, "flat"),
    (Algorithm::Binomial, "binomial"),
    (Algorithm::Dissemination, "dissemination"),
    (Algorithm::Chain, "chain"),
    (Algorithm::ScatterAllgather, "scatter-allgather"),
    (Algorithm::ScatterDoubling, "scatter-doubling"),
    (Algorithm::Ring, "ring"),
    (Algorithm::RecursiveDoubling, "recursive-doubling"),
    (Algorithm::RecursiveHalving, "recursive-halving"),
    (Algorithm::Bruck, "bruck"),
    (Algorithm::Pairwise, "pairwise"),
    (Algorithm::Rabenseifner, "rabenseifner"),
    (Algorithm::HalvingFlat, "halving-flat"),
    (Algorithm::Hierarchical, "hierarchical"),
];

/// Sizes where the model of `cost` changes sides; below them where the faster algorithm sends, and
/// so logs, more bytes. Measured are those with `shared`, for 2 to 8 places on 2 cores, and those with
/// `hierarchical`, for 4 and 8 places on two hosts.
const DEFAULT: &str = "
barrier shared places<=8 flat
barrier shared places<=256 dissemination
barrier shared binomial
barrier hierarchical
barrier dissemination
bcast hierarchical
bcast bytes<=8192 binomial
bcast shared flat
bcast bytes<=16384 binomial
bcast places<=2 binomial
bcast scatter-doubling
bcast places<=64 scatter-allgather
bcast bytes<=4194304 binomial
bcast places<=1024 scatter-allgather
bcast bytes<=67108864 binomial
bcast chain
gather bytes<=4096 binomial
gather linear
scatter bytes<=4096 binomial
scatter linear
allgather shared places<=8 flat
allgather hierarchical
allgather bytes<=16384 recursive-doubling
allgather bytes<=16384 bruck
allgather shared flat
allgather ring
alltoall places<=8 linear
alltoall bytes<=256 bruck
alltoall bytes<=32768 linear
alltoall pairwise
reduce bytes<=131072 hierarchical
reduce bytes<=4096 binomial
reduce shared places<=2 binomial
reduce shared places<=8 bytes<=262144 binomial
reduce rabenseifner
allreduce shared places<=8 bytes<=4096 flat
allreduce bytes<=131072 hierarchical
allreduce bytes<=4096 recursive-doubling
allreduce places<=4 bytes<=16384 recursive-doubling
allreduce shared halving-flat
allreduce places<=4 bytes<=65536 recursive-doubling
allreduce rabenseifner
reduce-scatter bytes<=16384 recursive-halving
reduce-scatter pairwise
scan places<=8 chain
scan bytes<=65536 recursive-doubling
scan places<=16 chain
scan bytes<=524288 recursive-doubling
scan places<=128 chain
scan recursive-doubling
exscan places<=8 chain
exscan bytes<=65536 recursive-doubling
exscan places<=16 chain
exscan bytes<=524288 recursive-doubling
exscan places<=128 chain
exscan recursive-doubling
neighbour-allgather linear
neighbour-alltoall linear
";

impl Default for Table {
    fn default() -> Self {
        DEFAULT.parse().expect("the tests have parsed it")
    }
}

impl Table {
    /// The algorithm for `call`.
    pub fn choose(&self, call: &Call) -> Algorithm {
        let (operation, size, shared) = (call.operation(), call.group.size, call.hosts.are_one());
        let applies = |rule: &&Rule| {
            rule.operation == operation
                && (shared || !rule.shared)
                && rule.places_max.is_none_or(|most| size <= most)
                && rule
                    .bytes_max
                    .is_none_or(|most| call.bytes().is_some_and(|it| it <= most))
                && rule.algorithm.fits(call)
        };
        let rule = self.rules.iter().find(applies);
        rule.map_or(operation.algorithms()[0], |rule| rule.algorithm)
    }

    /// Puts the rules of `text` before those of this table, and replaces parameters that it names.
    pub fn override_with(&mut self, text: &str) -> Result<(), NotATable> {
        let mut rules = Vec::new();
        let mut parameters = self.parameters;
        for (index, line) in text.lines().enumerate() {
            let words: Vec<&str> = line
                .split('#')
                .next()
                .into_iter()
                .flat_map(str::split_whitespace)
                .collect();
            let parsed = match words[..] {
                [] => Ok(()),
                ["segment-bytes", value] => number(value).map(|it| parameters.segment_bytes = it),
                ["window", value] => number(value).map(|it| parameters.window = it),
                _ => Rule::of(&words).map(|rule| rules.push(rule)),
            };
            let line = index + 1;
            parsed.map_err(|problem| NotATable { line, problem })?;
        }
        self.rules.splice(0..0, rules);
        self.parameters = parameters;
        Ok(())
    }
}

impl FromStr for Table {
    type Err = NotATable;

    fn from_str(text: &str) -> Result<Self, NotATable> {
        let mut table = Self {
            rules: Vec::new(),
            parameters: Parameters::default(),
        };
        table.override_with(text)?;
        Ok(table)
    }
}

fn number<T: FromStr>(word: &str) -> Result<T, String> {
    word.parse()
        .map_err(|_| format!("{word:?} is no number that fits"))
}

impl Rule {
    fn of(words: &[&str]) -> Result<Self, String> {
        let [operation, conditions @ .., algorithm] = words else {
            return Err(format!("{:?} has no algorithm", words.concat()));
        };
        let operation = named(&OPERATIONS, operation, "collective")?;
        let mut rule = Self {
            operation,
            shared: false,
            places_max: None,
            bytes_max: None,
            algorithm: named(&ALGORITHMS, algorithm, "algorithm")?,
        };
        let algorithms = operation.algorithms();
        if !algorithms.contains(&rule.algorithm) {
            let names: Vec<_> = algorithms.iter().map(|it| name(&ALGORITHMS, *it)).collect();
            let (operation, names) = (words[0], names.join(", "));
            return Err(format!(
                "{algorithm} is no algorithm of {operation}: take {names}"
            ));
        }
        for condition in conditions {
            let is_known = match condition.split_once("<=") {
                None => {
                    rule.shared = true;
                    *condition == "shared"
                }
                Some(("places", most)) => {
                    rule.places_max = most.parse().ok();
                    rule.places_max.is_some()
                }
                Some(("bytes", most)) => {
                    rule.bytes_max = most.parse().ok();
                    rule.bytes_max.is_some()
                }
                Some(_) => false,
            };
            if !is_known {
                return Err(format!(
                    "{condition:?} is no condition: write shared, places<=N or bytes<=N"
                ));
            }
        }
        Ok(rule)
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        writeln!(f, "segment-bytes {}", self.parameters.segment_bytes)?;
        writeln!(f, "window {}", self.parameters.window)?;
        self.rules.iter().try_for_each(|rule| writeln!(f, "{rule}"))
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}", self.operation)?;
        if self.shared {
            write!(f, " shared")?;
        }
        if let Some(places) = self.places_max {
            write!(f, " places<={places}")?;
        }
        if let Some(bytes) = self.bytes_max {
            write!(f, " bytes<={bytes}")?;
        }
        write!(f, " {}", self.algorithm)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.pad(name(&OPERATIONS, *self))
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.pad(name(&ALGORITHMS, *self))
    }
}

fn name<T: PartialEq>(names: &[(T, &'static str)], wanted: T) -> &'static str {
    let entry = names.iter().find(|(it, _)| *it == wanted);
    entry.expect("each has a name").1
}

fn named<T: Copy>(names: &[(T, &'static str)], word: &str, kind: &str) -> Result<T, String> {
    match names.iter().find(|(_, name)| *name == word) {
        Some((it, _)) => Ok(*it),
        None => {
            let known: Vec<_> = names.iter().map(|(_, name)| *name).collect();
            Err(format!(
                "{word:?} is no {kind}: take one of {}",
                known.join(", ")
            ))
        }
    }
}
