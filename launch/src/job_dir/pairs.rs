//! Which ranks were introduced to each other, for later runs: one file, to which each batch of pairs is
//! appended before the launcher sends an address of it. JOB-8
//!
//! A header (`MAGIC`, version, number of ranks, number of the job, CRC-32 of these), then batches:
//! number of pairs, CRC-32 of the job's number and the pairs, pairs of ranks. All numbers are little
//! endian and of 4 bytes, the job's of 8.

use super::{JobDir, wrong};
use refrain_job::JobError;
use refrain_job::introductions::Introductions;
use refrain_job::stderr::report;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

pub(super) const PAIRS: &str = "introductions";
const MAGIC: [u8; 8] = *b"rfrnpair";
/// Version of the file.
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 28;
/// Before the pairs of a batch.
const BATCH_HEADER_BYTES: usize = 8;
const PAIR_BYTES: usize = 8;

/// The file to which new pairs are appended; `None`: all ranks are introduced at the start of each later
/// run.
#[derive(Debug, Default)]
pub(super) struct PairsFile(Option<File>);

fn header(job: u64, ranks: u32) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend(ranks.to_le_bytes());
    bytes.extend(job.to_le_bytes());
    bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
    bytes
}

fn checksum(job: u64, pairs: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&job.to_le_bytes());
    hasher.update(pairs);
    hasher.finalize()
}

fn batch(job: u64, pairs: &[(u32, u32)]) -> Vec<u8> {
    let numbers = pairs.iter().flat_map(|(one, other)| [*one, *other]);
    let content: Vec<u8> = numbers.flat_map(u32::to_le_bytes).collect();
    let mut bytes = (pairs.len() as u32).to_le_bytes().to_vec();
    bytes.extend(checksum(job, &content).to_le_bytes());
    bytes.extend(content);
    bytes
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + 4)?;
    bytes.try_into().ok().map(u32::from_le_bytes)
}

/// The pairs in a file of this job; `None`: it is not whole.
fn decode(bytes: &[u8], job: u64, ranks: u32) -> Option<Vec<(u32, u32)>> {
    let (said, mut rest) = bytes.split_at_checked(HEADER_BYTES)?;
    if said != header(job, ranks) {
        return None;
    }
    let mut pairs = Vec::new();
    while !rest.is_empty() {
        let (count, crc) = (number(rest, 0)?, number(rest, 4)?);
        let (_, after) = rest.split_at_checked(BATCH_HEADER_BYTES)?;
        let (content, after) = after.split_at_checked(count as usize * PAIR_BYTES)?;
        if count == 0 || checksum(job, content) != crc {
            return None;
        }
        for pair in content.chunks_exact(PAIR_BYTES) {
            let pair = (number(pair, 0)?, number(pair, 4)?);
            if pair.0 >= ranks || pair.1 >= ranks || pair.0 == pair.1 {
                return None;
            }
            pairs.push(pair);
        }
        rest = after;
    }
    Some(pairs)
}

impl JobDir {
    fn pairs_path(&self) -> PathBuf {
        self.path.join(PAIRS)
    }

    /// The introductions with which a run begins: none in the first, later those of all earlier ones.
    /// Called before ranks are started, and before the state says that they were. JOB-8
    ///
    /// # Errors
    /// The file of the first run cannot be written.
    pub fn open_introductions(&mut self, ranks: u32) -> Result<Introductions, JobError> {
        let mut introductions = Introductions::new(ranks as usize, false);
        match self.goes_on() {
            false => {
                let made = self.begin_pairs(ranks);
                let file = made.map_err(|error| {
                    wrong(
                        &self.path,
                        format_args!("{PAIRS} cannot be written: {error}"),
                    )
                })?;
                self.pairs = PairsFile(Some(file));
            }
            true => match self.read_pairs(ranks) {
                Ok((file, pairs)) => {
                    pairs.into_iter().for_each(|it| introductions.note(it));
                    self.pairs = PairsFile(Some(file));
                }
                Err(why) => {
                    report(format_args!(
                        "--job-dir {}: {PAIRS} {why}: all ranks are introduced to each other at the start, which takes longer",
                        self.path.display()
                    ));
                    introductions = Introductions::All;
                }
            },
        }
        Ok(introductions)
    }

    fn begin_pairs(&self, ranks: u32) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.create(true).truncate(true).write(true).mode(0o600);
        let mut file = options.open(self.pairs_path())?;
        file.write_all(&header(self.state.job, ranks))?;
        file.sync_all()?;
        File::open(&self.path)?.sync_all()?;
        Ok(file)
    }

    fn read_pairs(&self, ranks: u32) -> Result<(File, Vec<(u32, u32)>), String> {
        let path = self.pairs_path();
        let failed = |error: io::Error| format!("cannot be read: {error}");
        let bytes = fs::read(&path).map_err(failed)?;
        let pairs = decode(&bytes, self.state.job, ranks).ok_or("is damaged or incomplete")?;
        let file = OpenOptions::new().append(true).open(&path);
        Ok((file.map_err(failed)?, pairs))
    }

    /// Stores pairs before the launcher sends their addresses. If that fails, later runs introduce all ranks. Returns
    /// a line to report. JOB-8
    ///
    /// # Errors
    /// The pairs cannot be stored, and the file cannot be removed.
    pub fn store_pairs(&mut self, pairs: &[(u32, u32)]) -> Result<Option<String>, JobError> {
        let PairsFile(Some(file)) = &mut self.pairs else {
            return Ok(None);
        };
        let stored = file.write_all(&batch(self.state.job, pairs));
        let Err(error) = stored.and_then(|()| file.sync_data()) else {
            return Ok(None);
        };
        self.pairs = PairsFile::default();
        let failed = format!("{PAIRS} cannot be written: {error}");
        let removed = fs::remove_file(self.pairs_path());
        let removed = removed.and_then(|()| File::open(&self.path)?.sync_all());
        if let Err(error) = removed {
            return Err(wrong(
                &self.path,
                format_args!(
                    "{failed}, and cannot be removed, so a later run would miss introductions: {error}"
                ),
            ));
        }
        Ok(Some(format!(
            "--job-dir {}: {failed}: the job goes on, and a later run introduces all ranks to each other at its start",
            self.path.display()
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{begin, open};
    use super::*;
    use proptest::prelude::*;

    fn batches() -> impl Strategy<Value = Vec<Vec<(u32, u32)>>> {
        let pair = (0u32..7, 1u32..7).prop_map(|(one, by)| (one, (one + by) % 7));
        prop::collection::vec(prop::collection::vec(pair, 1..4), 0..4)
    }

    fn file(batches: &[Vec<(u32, u32)>]) -> Vec<u8> {
        let batches = batches.iter().flat_map(|pairs| batch(7, pairs));
        header(7, 7).into_iter().chain(batches).collect()
    }

    proptest! {
        // JOB-8
        #[test]
        fn only_whole_files_are_read(batches in batches(), at in any::<prop::sample::Index>(), bit in 0u8..8) {
            let bytes = file(&batches);
            prop_assert_eq!(decode(&bytes, 7, 7), Some(batches.concat()));
            prop_assert_eq!(decode(&bytes, 8, 7), None, "of another job");
            prop_assert_eq!(decode(&bytes, 7, 6), None);
            let mut damaged = bytes.clone();
            damaged[at.index(bytes.len())] ^= 1 << bit;
            prop_assert_eq!(decode(&damaged, 7, 7), None);
            // A batch that the launcher could not finish.
            let ends: Vec<usize> = (0..=batches.len()).map(|whole| file(&batches[..whole]).len()).collect();
            let cut = at.index(bytes.len());
            prop_assert_eq!(decode(&bytes[..cut], 7, 7).is_some(), ends.contains(&cut));
        }

        #[test]
        fn any_bytes_are_refused_or_read(bytes in any::<Vec<u8>>()) {
            decode(&bytes, 7, 7);
            decode(&[header(7, 7), bytes].concat(), 7, 7);
        }
    }

    /// A run that was killed, one that could not store its pairs, and one after that.
    // JOB-8
    #[test]
    fn later_runs_have_the_pairs_of_earlier_ones() {
        let folder = tempfile::tempdir().expect("a folder");
        let begun = |pairs: &[(u32, u32)]| {
            let mut dir = open(folder.path(), 7);
            let introductions = dir.open_introductions(4).expect("it can be read");
            begin(&mut dir);
            let told = dir.store_pairs(pairs).expect("it can be written");
            assert_eq!(told, None);
            introductions
        };
        let first = begun(&[(0, 1), (2, 1)]);
        assert_eq!(first.asked(1), Some(vec![]));
        let second = begun(&[(3, 0)]);
        assert_eq!(second.asked(1), Some(vec![0, 2]));
        let third = begun(&[(3, 1)]);
        assert_eq!(third.asked(0), Some(vec![1, 3]));
        let mut dir = open(folder.path(), 7);
        dir.open_introductions(4).expect("it can be read");
        dir.pairs = PairsFile(File::open("/dev/null").ok());
        begin(&mut dir);
        let told = dir.store_pairs(&[(0, 2)]).expect("the file is removed");
        assert!(told.expect("reported").contains("introduces all ranks"));
        assert_eq!(dir.store_pairs(&[(1, 3)]).expect("nothing to store"), None);
        drop(dir);
        for _ in 0..2 {
            assert_eq!(begun(&[(2, 3)]).asked(0), None, "all are introduced");
        }
    }
}
