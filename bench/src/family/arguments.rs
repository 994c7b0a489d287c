//! The options of `refrain bench family`.

use super::model::{Costs, Pattern};
use crate::error::BenchError;
use crate::experiments::Reporting;
use clap::ValueEnum;
use refrain_logging::Member;
use serde::Serialize;

/// Maximum number of ranks.
const RANKS_MAX: u64 = 1 << 24;

/// Parameters of the model.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub struct Arguments {
    /// Job sizes.
    #[arg(long, value_name = "A,B,…", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(4..=RANKS_MAX),
          default_value = "1024,4096,16384,65536,262144,1048576")]
    pub(super) ranks: Vec<u64>,
    /// Protocols to compare; all: each that logs messages.
    #[arg(
        long,
        value_name = "A,B,…",
        value_delimiter = ',',
        default_value = "pessimist,ticket,causal"
    )]
    pub(super) protocol: Vec<String>,
    /// Patterns of communication [default: all].
    #[arg(long, value_name = "A,B,…", value_delimiter = ',', value_enum, hide_default_value = true,
          default_values_t = Pattern::value_variants().to_vec())]
    pub(super) patterns: Vec<Pattern>,
    /// Time between two messages of a rank.
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 0.5, value_parser = positive)]
    pub(super) gap: f64,
    /// Time until a logger or a rank has confirmed a batch.
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 5.0, value_parser = positive)]
    pub(super) confirm: f64,
    /// Computation in an iteration.
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 1000.0, value_parser = positive)]
    pub(super) step: f64,
    /// Bytes that a rank sends in a second.
    #[arg(long, value_name = "GB/S", default_value_t = 1.0, value_parser = positive)]
    pub(super) bandwidth: f64,
    /// Iterations between two checkpoints of a rank.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(super) iterations: u64,
    #[command(flatten)]
    #[serde(skip)]
    pub(super) reporting: Reporting,
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(value) if value > 0.0 && value < 1e9 => Ok(value),
        _ => Err("give a number above 0, such as 0.5".into()),
    }
}

impl Arguments {
    pub(super) fn costs(&self) -> Costs {
        Costs {
            gap_us: self.gap,
            confirm_us: self.confirm,
            step_us: self.step,
            byte_ns: 1.0 / self.bandwidth,
            iterations: self.iterations,
        }
    }

    pub(super) fn members(&self) -> Result<Vec<Member>, BenchError> {
        if self.protocol == ["all"] {
            return Ok(Member::ALL
                .into_iter()
                .filter(|it| it.keeps_payload())
                .collect());
        }
        let member = |name: &String| {
            name.parse()
                .map_err(|error| BenchError::option("--protocol", error, "or all"))
        };
        self.protocol.iter().map(member).collect()
    }
}
