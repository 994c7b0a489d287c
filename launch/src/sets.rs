//! Correlated sets: which ranks are expected to fail together (`--sets`), and go back to their
//! checkpoints together. Pure, except that it reads a file. SET-1

use std::fs;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use thiserror::Error;

/// The choice of sets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SetsSpec {
    /// Each rank is a set of its own.
    #[default]
    None,
    /// The ranks of each host are a set.
    Host,
    /// This number of ranks each, in the order of ranks; the last set may be smaller.
    Size(u32),
    /// From a file: a line for each set, with ranks and ranges of ranks. Ranks that it does not
    /// name are sets of their own.
    File(PathBuf),
}

/// A choice of sets that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SetsError {
    /// Neither a word, nor a number, nor the name of a file.
    #[error("{0:?} is neither host, nor a number of ranks from 1 on, nor a file that exists")]
    Unknown(String),
    /// The file cannot be read.
    #[error("{0}: {1}")]
    Unreadable(String, String),
    /// A line is no list of ranks.
    #[error("{file} line {line}: {text:?} is no list of ranks, such as 0 1 4-7")]
    Line {
        /// The file.
        file: String,
        /// From 1.
        line: usize,
        /// The word that is wrong.
        text: String,
    },
    /// A rank is in two sets.
    #[error("{file} line {line}: rank {rank} is in a set already")]
    Twice {
        /// The file.
        file: String,
        /// From 1.
        line: usize,
        /// The rank.
        rank: u32,
    },
    /// The job has no such rank.
    #[error("{file} line {line}: rank {rank} does not exist, the job has {ranks} ranks")]
    NoRank {
        /// The file.
        file: String,
        /// From 1.
        line: usize,
        /// The rank.
        rank: u32,
        /// Ranks of the job.
        ranks: u32,
    },
}

impl FromStr for SetsSpec {
    type Err = SetsError;

    fn from_str(text: &str) -> Result<Self, SetsError> {
        match (text, text.parse()) {
            ("host", _) => Ok(Self::Host),
            (_, Ok(size)) if size > 0 => Ok(Self::Size(size)),
            (_, Err(_)) if fs::metadata(text).is_ok_and(|it| !it.is_dir()) => {
                Ok(Self::File(text.into()))
            }
            _ => Err(SetsError::Unknown(text.to_owned())),
        }
    }
}

impl SetsSpec {
    /// By rank, the number of its set; empty: no set has two ranks. `host_of_rank`: the number of
    /// each rank's host.
    ///
    /// # Errors
    /// When the file cannot be used for this job.
    pub fn set_of_rank(&self, host_of_rank: &[usize]) -> Result<Vec<u32>, SetsError> {
        let ranks = host_of_rank.len() as u32;
        let set_of_rank: Vec<u32> = match self {
            Self::None => Vec::new(),
            Self::Host => host_of_rank.iter().map(|host| *host as u32).collect(),
            Self::Size(size) => (0..ranks).map(|rank| rank / size).collect(),
            Self::File(path) => {
                let file = path.display().to_string();
                let text = fs::read_to_string(path)
                    .map_err(|error| SetsError::Unreadable(file.clone(), error.to_string()))?;
                in_file(&file, &text, ranks)?
            }
        };
        let mut sorted = set_of_rank.clone();
        sorted.sort_unstable();
        let is_any = sorted.windows(2).any(|two| two[0] == two[1]);
        Ok(if is_any { set_of_rank } else { Vec::new() })
    }
}

/// Comments begin with `#`.
fn in_file(file: &str, text: &str, ranks: u32) -> Result<Vec<u32>, SetsError> {
    let mut set_of_rank = vec![None; ranks as usize];
    for (number, line) in text.lines().enumerate() {
        let at = || (file.to_owned(), number + 1);
        let line = line.split('#').next().unwrap_or_default();
        let words = line.split(|at: char| at.is_whitespace() || at == ',');
        for word in words.filter(|word| !word.is_empty()) {
            let Some(of_word) = ranks_of(word) else {
                let (file, line) = at();
                let text = word.to_owned();
                return Err(SetsError::Line { file, line, text });
            };
            for rank in of_word {
                let (file, line) = at();
                match set_of_rank.get_mut(rank as usize) {
                    None => {
                        return Err(SetsError::NoRank {
                            file,
                            line,
                            rank,
                            ranks,
                        });
                    }
                    Some(Some(_)) => return Err(SetsError::Twice { file, line, rank }),
                    Some(set) => *set = Some(number as u32),
                }
            }
        }
    }
    let lines = text.lines().count() as u32;
    let alone = (0..).map(|rank: u32| lines + rank);
    let sets = set_of_rank.into_iter().zip(alone);
    Ok(sets.map(|(set, alone)| set.unwrap_or(alone)).collect())
}

fn ranks_of(word: &str) -> Option<RangeInclusive<u32>> {
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    let ranks = first.parse().ok()?..=last.parse().ok()?;
    (!ranks.is_empty()).then_some(ranks)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sets(spec: &str, ranks: usize) -> Vec<u32> {
        let spec: SetsSpec = spec.parse().unwrap();
        spec.set_of_rank(&vec![0; ranks]).unwrap()
    }

    // SET-1
    #[test]
    fn sets_are_of_hosts_or_of_a_size() {
        assert_eq!(sets("host", 3), [0, 0, 0]);
        assert_eq!(sets("2", 5), [0, 0, 1, 1, 2]);
        assert_eq!(sets("1", 5), [0; 0], "no set has two ranks");
        let hosts = SetsSpec::Host.set_of_rank(&[0, 1, 0]).unwrap();
        assert_eq!(hosts, [0, 1, 0]);
        for wrong in ["0", "-1", "hosts", "", "/"] {
            assert!(wrong.parse::<SetsSpec>().is_err(), "{wrong}");
        }
    }

    // SET-1
    #[test]
    fn a_file_names_sets_and_others_are_alone() {
        let read = |text, ranks| in_file("sets.txt", text, ranks);
        let sets = read("0 2-3 # first\n\n4, 5\n", 7).unwrap();
        assert_eq!(sets[0], sets[2]);
        assert_eq!(sets[0], sets[3]);
        assert_eq!(sets[4], sets[5]);
        let mut distinct = vec![sets[0], sets[1], sets[4], sets[6]];
        distinct.dedup();
        assert_eq!(distinct.len(), 4, "{sets:?}");
        let message = |text| read(text, 3).unwrap_err().to_string();
        assert!(message("0 1\n1 2").contains("line 2: rank 1 is in a set already"));
        assert!(message("0 3").contains("rank 3 does not exist, the job has 3 ranks"));
        assert!(message("0-x").contains("\"0-x\" is no list of ranks"));
        assert!(message("2-1").contains("is no list of ranks"));
    }
}
