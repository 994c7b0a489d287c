//! A job of two ranks, as the driver sees it.

use super::arguments::Settings;
use super::command::{Answer, Command, Incoming, Round, Samples, write_frame};
use super::fabrics::is_open;
use super::protocols::{base, is_in_one_set, keeps_payload};
use super::rank::{ANSWERS_VARIABLE, COMMANDS_VARIABLE};
use crate::error::BenchError;
use crate::interrupt::Interrupt;
use crate::machine::readable;
use refrain_job::config::{JobConfig, RecoveryConfig, VerbsConfig};
use refrain_launch::{EventLoggerSpec, Job, JobSpec, Outcome, Output, Program, SetsSpec};
use rustix::pipe::{PipeFlags, pipe_with};
use std::fs::File;
use std::time::{Duration, Instant};

/// Time between two checks of a waiting driver for the job's state and for Ctrl-C.
const LOOK: Duration = Duration::from_millis(100);
/// The same while ranks start and ask the launcher for addresses.
const LOOK_STARTING: Duration = Duration::from_millis(2);
/// Time for ranks to join.
const START_LIMIT: Duration = Duration::from_secs(60);
/// Time that a round may take in addition to its planned time before it counts as hung.
const ROUND_SLACK: Duration = Duration::from_secs(60);
/// Time for ranks to leave.
const END_LIMIT: Duration = Duration::from_secs(10);
/// Two ranks on one fabric with one protocol.
pub trait Contestant {
    /// The fabric in use.
    fn fabric(&self) -> &str;
    /// The protocol in use.
    fn protocol(&self) -> &str;
    /// Measures one round; the ranks do nothing before and after.
    ///
    /// # Errors
    /// A rank fails, or the sweep is interrupted.
    fn measure(&mut self, round: &Round) -> Result<Samples, BenchError>;
}

/// Two ranks on one fabric with one protocol, and a pipe to and from each.
pub struct Ranks {
    protocol: String,
    fabric: String,
    job: Option<Job>,
    ends: Vec<RankEnd>,
    interrupt: Interrupt,
}

/// The driver's ends of one rank's pipes.
struct RankEnd {
    commands: File,
    answers: File,
    incoming: Incoming,
}

impl Ranks {
    /// Starts the job, but does not wait for its ranks.
    ///
    /// # Errors
    /// The launcher cannot start the job.
    pub fn start(
        settings: &Settings,
        fabric: &str,
        protocol: &str,
        interrupt: &Interrupt,
    ) -> Result<Self, BenchError> {
        let program = std::env::current_exe()
            .map_err(BenchError::system("cannot find this program's own file"))?;
        let mut descriptors = Vec::new();
        let mut ends = Vec::new();
        for rank in 0..2 {
            let pipe = || {
                pipe_with(PipeFlags::CLOEXEC)
                    .map_err(BenchError::system("cannot make a pipe to a rank"))
            };
            let (commands_read, commands_write) = pipe()?;
            let (answers_read, answers_write) = pipe()?;
            descriptors.push((rank, COMMANDS_VARIABLE.into(), commands_read));
            descriptors.push((rank, ANSWERS_VARIABLE.into(), answers_write));
            ends.push(RankEnd {
                commands: commands_write.into(),
                answers: answers_read.into(),
                incoming: Incoming::default(),
            });
        }
        let job = Job::start(JobSpec {
            programs: vec![Program {
                path: program.clone(),
                arguments: vec!["netpipe-rank".into()],
                ranks: 2,
                ..Program::default()
            }],
            config: config(settings, fabric, protocol),
            output: Output::Inherited,
            pin: true,
            descriptors,
            event_loggers: EventLoggerSpec {
                program: Some(program),
                replicas: settings.arguments.event_replicas,
                ..EventLoggerSpec::default()
            },
            sets: match is_in_one_set(protocol) {
                true => SetsSpec::Host,
                false => SetsSpec::None,
            },
            ..JobSpec::default()
        });
        let mut ranks = Self {
            protocol: protocol.into(),
            fabric: fabric.into(),
            job: None,
            ends,
            interrupt: interrupt.clone(),
        };
        ranks.job = Some(job.map_err(|error| ranks.failed(error))?);
        Ok(ranks)
    }

    /// Waits until both ranks have joined, and sends them the parameters of the sweep.
    ///
    /// # Errors
    /// A rank cannot join or prepare.
    pub fn prepare(&mut self, settings: &Settings) -> Result<(), BenchError> {
        for rank in 0..2 {
            match self.answer(rank, LOOK_STARTING, START_LIMIT)? {
                Answer::Ready { fabric, protocol } if protocol == base(&self.protocol) => {
                    if is_open(&self.fabric) {
                        self.fabric = fabric;
                    }
                }
                Answer::Ready { protocol, .. } => {
                    return Err(self.rank_failed(rank, format!("it runs protocol `{protocol}`")));
                }
                other => return Err(self.unexpected(rank, &other)),
            }
        }
        let keeps_payload = keeps_payload(&self.protocol);
        self.command(&Command::Prepare {
            largest_bytes: settings.largest_bytes(),
            log_room: keeps_payload.then_some(settings.log_room),
        })
    }

    fn command(&mut self, command: &Command) -> Result<(), BenchError> {
        for rank in 0..2 {
            if let Err(error) = write_frame(&mut self.ends[rank].commands, command) {
                // The last answer of the rank explains more than a broken pipe.
                let _ = self.answer(rank, LOOK, LOOK)?;
                return Err(self.rank_failed(rank, format!("its pipe is closed: {error}")));
            }
        }
        Ok(())
    }

    /// Waits for an answer of a rank, and serves the job every `look`.
    fn answer(
        &mut self,
        rank: usize,
        look: Duration,
        limit: Duration,
    ) -> Result<Answer, BenchError> {
        let began = Instant::now();
        loop {
            self.interrupt.check()?;
            let end = &mut self.ends[rank];
            let taken = end.incoming.take();
            match taken {
                Ok(Some(Answer::Failed(reason))) => {
                    return Err(self.interrupted_or(self.rank_failed(rank, reason)));
                }
                Ok(Some(answer)) => return Ok(answer),
                Ok(None) => {}
                Err(error) => return Err(self.rank_failed(rank, error.to_string())),
            }
            if began.elapsed() > limit {
                let seconds = limit.as_secs();
                return Err(self.rank_failed(rank, format!("no answer within {seconds} s")));
            }
            if readable(&end.answers, look)
                .map_err(BenchError::system("cannot wait for the ranks"))?
            {
                match end.incoming.read_from(&mut end.answers) {
                    Ok(true) => continue,
                    Ok(false) | Err(_) => return Err(self.why_gone(rank)),
                }
            }
            if let Some(outcome) = self.serve(Duration::ZERO)? {
                return Err(self.ended(rank, outcome));
            }
        }
    }

    fn serve(&mut self, time: Duration) -> Result<Option<Outcome>, BenchError> {
        let Some(job) = &mut self.job else {
            return Ok(None);
        };
        job.serve(time).map_err(|error| {
            let failed = self.failed(error);
            self.interrupted_or(failed)
        })
    }

    /// The error for a rank that closed its pipe: the reason of the launcher or of the other rank.
    fn why_gone(&mut self, rank: usize) -> BenchError {
        let began = Instant::now();
        while began.elapsed() < END_LIMIT {
            match self.serve(LOOK) {
                Ok(None) => {}
                Ok(Some(outcome)) => return self.ended(rank, outcome),
                Err(error) => return error,
            }
        }
        self.interrupted_or(self.rank_failed(rank, "it has closed its pipe".into()))
    }

    /// The error for a job that has ended early: the reason of a rank, or the launcher's.
    fn ended(&mut self, rank: usize, outcome: Outcome) -> BenchError {
        self.job = None;
        for (other, end) in (0..).zip(&mut self.ends) {
            while matches!(end.incoming.read_from(&mut end.answers), Ok(true)) {}
            while let Ok(Some(answer)) = end.incoming.take::<Answer>() {
                if let Answer::Failed(reason) = answer {
                    return self.interrupted_or(self.rank_failed(other, reason));
                }
            }
        }
        let reason = outcome
            .failure
            .unwrap_or_else(|| format!("it has ended early, with status {}", outcome.status));
        self.interrupted_or(self.rank_failed(rank, reason))
    }

    /// Ctrl-C reaches the ranks, too: their end is then not a failure.
    fn interrupted_or(&self, error: BenchError) -> BenchError {
        if self.interrupt.requested() {
            BenchError::Interrupted
        } else {
            error
        }
    }

    fn failed(&self, reason: impl std::fmt::Display) -> BenchError {
        let Self {
            fabric, protocol, ..
        } = self;
        BenchError::failed(format!(
            "the job with fabric `{fabric}` and protocol `{protocol}` failed: {reason}"
        ))
    }

    fn rank_failed(&self, rank: usize, reason: String) -> BenchError {
        self.failed(format!("rank {rank}: {reason}"))
    }

    fn unexpected(&self, rank: usize, answer: &Answer) -> BenchError {
        self.rank_failed(rank, format!("unexpected answer {answer:?}"))
    }

    /// Ends the job.
    ///
    /// # Errors
    /// The ranks do not end in time, or the job fails.
    pub fn end(mut self) -> Result<(), BenchError> {
        // A rank ends at the end of its command pipe.
        self.ends.clear();
        let began = Instant::now();
        while began.elapsed() < END_LIMIT {
            self.interrupt.check()?;
            match self.serve(LOOK)? {
                Some(outcome) if outcome.failure.is_none() => return Ok(()),
                Some(outcome) => return Err(self.ended(0, outcome)),
                None => {}
            }
        }
        let seconds = END_LIMIT.as_secs();
        Err(self.failed(format!("its ranks did not end within {seconds} s")))
    }
}

impl Contestant for Ranks {
    fn fabric(&self) -> &str {
        &self.fabric
    }

    fn protocol(&self) -> &str {
        &self.protocol
    }

    fn measure(&mut self, round: &Round) -> Result<Samples, BenchError> {
        self.command(&Command::Measure(*round))?;
        let limit = round.time * 10 + ROUND_SLACK;
        let mut samples = Samples::default();
        for rank in 0..2 {
            match self.answer(rank, LOOK, limit)? {
                Answer::Measured(measured) if rank == 0 => samples = measured,
                Answer::Measured(measured) => samples.log = samples.log.and(&measured.log),
                other => return Err(self.unexpected(rank, &other)),
            }
        }
        self.command(&Command::Rest)?;
        Ok(samples)
    }
}

fn config(settings: &Settings, fabric: &str, protocol: &str) -> JobConfig {
    let arguments = &settings.arguments;
    let spill = Some(&arguments.spill).filter(|_| base(protocol) != "none");
    let folder = spill.and_then(|spill| spill.spill_dir.as_ref());
    JobConfig {
        fabric: fabric.into(),
        protocol: base(protocol).into(),
        log_memory_bytes: Some(settings.log_room.memory_bytes),
        log_prefault: true,
        libfabric: arguments.libfabric.clone(),
        verbs: VerbsConfig {
            library: arguments.libibverbs.clone(),
            ..VerbsConfig::default()
        },
        peer_timeout_ms: arguments.peer_timeout,
        suspect_after_ms: arguments.suspect_after.milliseconds,
        ranks_on_host: 2,
        spill_dir: folder.map(|folder| folder.display().to_string()),
        log_disk_bytes: spill.and_then(|spill| spill.log_disk),
        spill_after_bytes: spill.and_then(|spill| spill.spill_after),
        spill_io: arguments.spill.spill_io.clone(),
        events: settings.events.clone(),
        recovery: RecoveryConfig {
            // Sets are for jobs whose ranks are restarted.
            max_restarts: u32::from(is_in_one_set(protocol)),
            ..RecoveryConfig::default()
        },
        ..JobConfig::default()
    }
}
