//! The folder of a job that outlives its launcher (`--job-dir`): its checkpoints, its events, and what
//! a later run of the job has to know.
//!
//! One file, `job.json`, decides what the others mean. It is replaced as a whole, and synced.
//!
//! | file | subject |
//! |---|---|
//! | `shape` | what all runs of a job have in common |
//! | `output` | how far the output of ranks was passed on |
//! | `pairs` | which ranks were introduced to each other |
//! | `whole_checkpoint` | checkpoints of all ranks at a signal, and the end of the run |
//!
//! Docs: `docs/design/whole-job.md`.

mod output;
mod pairs;
mod shape;
pub mod whole_checkpoint;

pub use shape::Shape;

use crate::JobSpec;
use refrain_checkpoint::{CheckpointStoreSpec, JobName, Store};
use refrain_eventlog::Level;
use refrain_job::JobError;
use refrain_job::choice::events::{CommitPathChoice, commit_path};
use refrain_job::config::JobConfig;
use refrain_job::stderr::report;
use refrain_logging::{EventStore, Member};
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// Version of `job.json`.
const VERSION: u64 = 1;
const STATE: &str = "job.json";
const NEW_STATE: &str = "job.json.new";
const LOCK: &str = "lock";
const EVENTS: &str = "events";
const CHECKPOINTS: &str = "checkpoints";
const OUTPUT: &str = "output";
/// The folders with what a run needs.
const FOLDERS: [&str; 3] = [EVENTS, CHECKPOINTS, OUTPUT];

/// How far the job has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Stage {
    /// No rank was started yet.
    Beginning,
    /// Ranks were started.
    Begun,
    /// All ranks have ended well.
    Ended,
}

/// The content of `job.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct State {
    version: u64,
    stage: Stage,
    /// Number of the job, the same in all runs: files of checkpoints and events have it.
    job: u64,
    began_unix_ns: u64,
    /// Number of this run, from 1.
    run: u32,
    /// No life of any rank was started with a higher incarnation. JOB-2
    incarnation: u32,
    /// By rank, the host at the job's begin. COLL-1
    host_of_rank: Vec<u32>,
    /// Why no later run can go on. JOB-6
    lost: Option<String>,
    shape: Shape,
}

/// The folder of this job. Dropping it removes what only a later run would need, if the job has ended
/// well.
#[derive(Debug)]
pub struct JobDir {
    path: PathBuf,
    state: State,
    /// Where checkpoints are, if not in this folder.
    other_store: Option<Store>,
    pairs: pairs::PairsFile,
    /// Held as long as this process lives. JOB-1
    _lock: File,
}

/// What a job directory adds to the start of a job.
#[derive(Debug, Default)]
pub struct GoingOn {
    /// Incarnation of the first lives of this run.
    pub incarnation: u32,
    /// Number of this run, from 1.
    pub run: u32,
}

fn wrong(path: &Path, why: impl std::fmt::Display) -> JobError {
    JobError::Config(format!("--job-dir {}: {why}", path.display()))
}

/// Refuses jobs of which too little survives their processes. JOB-3
fn check(path: &Path, spec: &JobSpec) -> Result<(), JobError> {
    let config = &spec.config;
    let member = config.protocol.parse().unwrap_or(Member::None);
    let is_elsewhere = spec.event_loggers.rings.is_some()
        || matches!(
            commit_path(&config.events.way)?,
            CommitPathChoice::Provider(_)
        );
    let refused = [
        (
            member.events() != EventStore::Loggers || config.recovery.max_restarts == 0,
            format!(
                "with --protocol {} and --max-restarts {} nothing of a job is left when all its processes have ended: choose pessimist or pessimist-classic, with restarts",
                config.protocol, config.recovery.max_restarts
            ),
        ),
        (
            spec.sets != crate::SetsSpec::None,
            "cannot be combined with --sets: leave one of them out".into(),
        ),
        (
            config.collectives.whole.is_some(),
            "results of --collectives whole survive some failures, and not the end of all processes: leave one of them out".into(),
        ),
        (
            config.events.gate_output,
            "lines that --gate-output holds back would be lost with the launcher: leave one of them out".into(),
        ),
        (
            spec.event_loggers.directory.is_some(),
            "has a folder for events: leave --event-dir out".into(),
        ),
        (
            is_elsewhere && config.events.level == Level::Placed,
            "events that are placed in memory (--event-rings, or an --event-way by a provider) would be lost with the loggers: choose --stable durable, or leave the option out".into(),
        ),
        (
            spec.output == crate::Output::Inherited,
            "the launcher has to pass output on".into(),
        ),
    ];
    match refused.into_iter().find(|(is_asked, _)| *is_asked) {
        Some((_, why)) => Err(wrong(path, why)),
        None => Ok(()),
    }
}

impl JobDir {
    /// Opens the folder of `--job-dir`, or begins it for the job with this number, and fills in what the
    /// settings of all runs have in common.
    ///
    /// # Errors
    /// [`JobError::Config`]: the folder is in use, or has a job that this one does not continue. JOB-1
    pub fn open(spec: &mut JobSpec, new_job: u64) -> Result<Option<Self>, JobError> {
        let Some(given) = spec.job_dir.clone() else {
            return Ok(None);
        };
        check(&given, spec)?;
        let path = std::path::absolute(&given).map_err(|error| wrong(&given, error))?;
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&path);
        made.map_err(|error| wrong(&path, format_args!("cannot be created: {error}")))?;
        let lock = lock(&path)?;
        let shape = Shape::of(spec);
        let state = match State::read(&path)? {
            Some(state) => state.fits(&path, &shape, new_job)?,
            None => State::new(shape, new_job),
        };
        let mut dir = Self {
            path,
            state,
            other_store: None,
            pairs: pairs::PairsFile::default(),
            _lock: lock,
        };
        dir.prepare(spec)?;
        Ok(Some(dir))
    }

    /// Makes the folders, and fills in the settings.
    fn prepare(&mut self, spec: &mut JobSpec) -> Result<(), JobError> {
        let failed = |error: io::Error| wrong(&self.path, format_args!("cannot be used: {error}"));
        if !self.goes_on() {
            // Of a run that has ended before its first rank was started.
            self.remove_folders().map_err(failed)?;
            self.save()?;
        }
        for folder in FOLDERS {
            let mut made = DirBuilder::new();
            let made = made.recursive(true).mode(0o700);
            made.create(self.path.join(folder)).map_err(failed)?;
        }
        let recovery = &mut spec.config.recovery;
        recovery.job_dir = Some(self.text(&self.path)?);
        // Not that of the launcher's process: a later one reads the same checkpoints.
        recovery.checkpoint_prefix = format!("job-{:016x}-", self.state.job);
        match &recovery.checkpoint_dir {
            Some(place) => {
                let place: Result<CheckpointStoreSpec, _> = place.parse();
                let name = JobName::new(self.state.job, recovery.checkpoint_prefix.clone());
                // Errors are reported where ranks are prepared.
                if let (Ok(place), Ok(name)) = (place, name) {
                    self.other_store = Store::open(&place, name).ok();
                }
            }
            None => recovery.checkpoint_dir = Some(self.text(&self.path.join(CHECKPOINTS))?),
        }
        spec.config
            .collectives
            .host_of_rank
            .clone_from(&self.state.host_of_rank);
        spec.event_loggers.directory = Some(self.path.join(EVENTS));
        spec.event_loggers.continues = self.goes_on();
        Ok(())
    }

    fn text(&self, path: &Path) -> Result<String, JobError> {
        let text = path.to_str().map(str::to_owned);
        text.ok_or_else(|| wrong(&self.path, "the name is not UTF-8"))
    }

    /// Whether an earlier run has started ranks.
    pub fn goes_on(&self) -> bool {
        self.state.stage == Stage::Begun
    }

    /// Whether the run that was begun continues an earlier one.
    pub fn is_later_run(&self) -> bool {
        self.state.run > 1
    }

    /// Number of the job.
    pub fn job(&self) -> u64 {
        self.state.job
    }

    /// When the job began; `now` if this is its first run.
    pub fn began_unix_ns(&mut self, now: u64) -> u64 {
        if !self.goes_on() {
            self.state.began_unix_ns = now;
        }
        self.state.began_unix_ns
    }

    /// The next run starts ranks from here on.
    ///
    /// # Errors
    /// The state cannot be written.
    pub fn begin_run(&mut self, config: &JobConfig) -> Result<GoingOn, JobError> {
        let state = &mut self.state;
        if state.stage == Stage::Begun {
            // FENCE-1, JOB-2: what ranks of the earlier run may still write does not count.
            state.incarnation += 1;
        }
        state.stage = Stage::Begun;
        state.run += 1;
        if state.host_of_rank.is_empty() {
            let host_of_rank = &config.collectives.host_of_rank;
            state.host_of_rank.clone_from(host_of_rank);
        }
        self.save()?;
        Ok(GoingOn {
            incarnation: self.state.incarnation,
            run: self.state.run,
        })
    }

    /// A life is about to be started. JOB-2
    ///
    /// # Errors
    /// The state cannot be written.
    pub fn will_start(&mut self, incarnation: u32) -> Result<(), JobError> {
        if incarnation <= self.state.incarnation {
            return Ok(());
        }
        self.state.incarnation = incarnation;
        self.save()
    }

    /// No later run can go on, for this reason. JOB-6
    ///
    /// # Errors
    /// The state cannot be written.
    pub fn lose(&mut self, why: &str) -> Result<(), JobError> {
        if self.state.lost.is_some() {
            return Ok(());
        }
        self.state.lost = Some(why.into());
        self.save()
    }

    /// Whether a later run can go on.
    pub fn is_lost(&self) -> bool {
        self.state.lost.is_some()
    }

    /// All ranks have ended well. Stored before the first file is removed. JOB-7
    ///
    /// # Errors
    /// The state cannot be written.
    pub fn end(&mut self) -> Result<(), JobError> {
        let mut ended = self.state.clone();
        ended.stage = Stage::Ended;
        self.replace(&ended)?;
        self.state = ended;
        Ok(())
    }

    /// The folder, for people.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn save(&self) -> Result<(), JobError> {
        self.replace(&self.state)
    }

    /// Replaces the stored state as a whole: a launcher that is killed leaves the old one or this one.
    /// JOB-4
    fn replace(&self, state: &State) -> Result<(), JobError> {
        let text = serde_json::to_vec_pretty(state).map_err(io::Error::other);
        let saved = text.and_then(|text| {
            let new = self.path.join(NEW_STATE);
            let mut options = OpenOptions::new();
            options.create(true).truncate(true).write(true).mode(0o600);
            let mut file = options.open(&new)?;
            file.write_all(&text)?;
            file.sync_all()?;
            fs::rename(&new, self.path.join(STATE))?;
            File::open(&self.path)?.sync_all()
        });
        saved.map_err(|error| {
            wrong(
                &self.path,
                format_args!("{STATE} cannot be written: {error}"),
            )
        })
    }

    fn remove_folders(&self) -> io::Result<()> {
        let unless_missing = |removed: io::Result<()>| match removed {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
        unless_missing(fs::remove_file(self.path.join(pairs::PAIRS)))?;
        let remove = |folder| unless_missing(fs::remove_dir_all(self.path.join(folder)));
        FOLDERS.into_iter().try_for_each(remove)
    }
}

impl Drop for JobDir {
    fn drop(&mut self) {
        if self.state.stage != Stage::Ended {
            return;
        }
        let path = self.path.display();
        if let Err(error) = self.remove_folders() {
            report(format_args!("{path}: cannot be emptied: {error}"));
        }
        if let Some(store) = &self.other_store
            && let Err(error) = store.remove_all()
        {
            report(format_args!(
                "checkpoints of the job cannot be removed: {error}"
            ));
        }
    }
}

/// Locks the folder, and leaves in it who has. JOB-1
fn lock(path: &Path) -> Result<File, JobError> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).read(true).write(true);
    let file = options.mode(0o600).open(path.join(LOCK));
    let mut file = file.map_err(|error| wrong(path, format_args!("cannot be used: {error}")))?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let holder = fs::read_to_string(path.join(LOCK)).unwrap_or_default();
            return Err(wrong(
                path,
                format_args!(
                    "is in use by a job that runs ({}): wait for its end, or name another folder",
                    holder.trim()
                ),
            ));
        }
        Err(error) => {
            return Err(wrong(
                path,
                format_args!(
                    "cannot be locked, so two jobs could use it at once: {}: name a folder on another file system, or mount this one with locks (Lustre: -o flock)",
                    io::Error::from(error)
                ),
            ));
        }
    }
    let name = rustix::system::uname();
    let holder = format!(
        "process {} on {}\n",
        std::process::id(),
        name.nodename().to_string_lossy()
    );
    // For people only.
    let _ = file
        .set_len(0)
        .and_then(|()| file.write_all(holder.as_bytes()));
    Ok(file)
}

impl State {
    fn new(shape: Shape, job: u64) -> Self {
        Self {
            version: VERSION,
            stage: Stage::Beginning,
            job,
            began_unix_ns: 0,
            run: 0,
            incarnation: 0,
            host_of_rank: Vec::new(),
            lost: None,
            shape,
        }
    }

    /// `None`: the folder has no job.
    fn read(path: &Path) -> Result<Option<Self>, JobError> {
        let text = match fs::read_to_string(path.join(STATE)) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return must_be_empty(path),
            Err(error) => {
                return Err(wrong(path, format_args!("{STATE} cannot be read: {error}")));
            }
        };
        let damaged = |error| {
            wrong(
                path,
                format_args!(
                    "{STATE} is no state of a job ({error}): name another folder, or remove this one"
                ),
            )
        };
        let value: serde_json::Value = serde_json::from_str(&text).map_err(damaged)?;
        match value["version"].as_u64() {
            Some(VERSION) => serde_json::from_value(value).map(Some).map_err(damaged),
            version => Err(wrong(
                path,
                format_args!(
                    "{STATE} has version {}, and this refrain reads version {VERSION}: use the one that began the job",
                    version.map_or("none".into(), |it| it.to_string())
                ),
            )),
        }
    }

    /// The state from which a job of this shape goes on.
    fn fits(self, path: &Path, shape: &Shape, new_job: u64) -> Result<Self, JobError> {
        let other = "name another folder";
        if self.stage == Stage::Beginning {
            return Ok(Self::new(shape.clone(), new_job));
        }
        if let Some(difference) = self.shape.difference(shape) {
            return Err(wrong(
                path,
                format_args!("{difference}: start it as before, or {other} for another job"),
            ));
        }
        if self.stage == Stage::Ended {
            return Err(wrong(
                path,
                format_args!(
                    "this job has ended well, in its run {}: {other}, or remove this one to run it again",
                    self.run
                ),
            ));
        }
        match &self.lost {
            Some(why) => Err(wrong(
                path,
                format_args!(
                    "its job cannot go on: {why}: {other}, or remove this one to begin anew"
                ),
            )),
            None => Ok(self),
        }
    }
}

/// A folder without a job has to be empty: it is not to be taken for another one.
fn must_be_empty(path: &Path) -> Result<Option<State>, JobError> {
    let entries =
        fs::read_dir(path).map_err(|error| wrong(path, format_args!("cannot be read: {error}")))?;
    let names = entries.flatten().map(|entry| entry.file_name());
    match names
        .into_iter()
        .find(|name| name != LOCK && name != NEW_STATE)
    {
        None => Ok(None),
        Some(other) => Err(wrong(
            path,
            format_args!(
                "has no job of refrain, and is not empty ({}): name an empty or a new folder",
                other.to_string_lossy()
            ),
        )),
    }
}

#[cfg(test)]
mod tests;
