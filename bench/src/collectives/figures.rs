//! The output of the loop: lines `figure SIZE NAME VALUE`.

use super::arguments::Operation;
use serde::Serialize;

/// The figures of one size, measured once.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// The vector or block.
    pub bytes: u64,
    /// Time of a blocking operation.
    pub blocking_us: f64,
    /// The same as the mean over all batches.
    pub blocking_mean_us: f64,
    /// The non-blocking operation, if it was measured.
    pub overlap: Option<Overlap>,
    /// The algorithm; `None` for peers.
    pub algorithm: Option<String>,
    /// Log bytes of all ranks for one blocking operation; `None` for peers.
    pub log_bytes: Option<f64>,
}

/// Times of the non-blocking operation, of a computation of about this length, and of both.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Overlap {
    pub non_blocking_us: f64,
    pub computation_us: f64,
    pub both_us: f64,
}

impl Overlap {
    /// The part of the operation that the computation hides.
    pub fn hidden(self) -> f64 {
        (self.non_blocking_us + self.computation_us - self.both_us) / self.non_blocking_us
    }
}

/// Figures with the circumstances of their measurement.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    pub repetition: u32,
    pub operation: Operation,
    /// A protocol of Refrain, or a peer.
    pub contestant: String,
    #[serde(flatten)]
    pub figures: Figures,
}

/// Reads the figures of these sizes; other lines are left out.
///
/// # Errors
/// A figure is missing or is no time.
pub fn figures(text: &str, sizes: &[u64], has_overlap: bool) -> Result<Vec<Figures>, String> {
    let of_size = |&bytes: &u64| {
        let value = |wanted: &str| {
            let mut lines = text.lines().filter_map(|line| {
                let mut words = line.split_whitespace();
                let is_meant = words.next()? == "figure"
                    && words.next()?.parse() == Ok(bytes)
                    && words.next()? == wanted;
                words.next().filter(|_| is_meant)
            });
            lines.next()
        };
        let microseconds = |name: &str| {
            let seconds = value(name).and_then(|word| word.parse::<f64>().ok());
            let seconds = seconds.filter(|it| it.is_finite() && *it > 0.0);
            let seconds = seconds.ok_or_else(|| format!("no time `{name}` of {bytes} bytes"));
            seconds.map(|seconds| seconds * 1e6)
        };
        let overlap = || {
            Ok::<_, String>(Overlap {
                non_blocking_us: microseconds("non-blocking")?,
                computation_us: microseconds("computation")?,
                both_us: microseconds("both")?,
            })
        };
        Ok(Figures {
            bytes,
            blocking_us: microseconds("blocking")?,
            blocking_mean_us: microseconds("mean")?,
            overlap: has_overlap.then(overlap).transpose()?,
            algorithm: value("algorithm").map(str::to_owned),
            log_bytes: value("log-bytes").and_then(|word| word.parse().ok()),
        })
    };
    sizes.iter().map(of_size).collect()
}
