//! The ranks of one host, and the memory that ranks share by descriptors.

use super::input::Input;
use super::watch::Watch;
use crate::child::RankChild;
use crate::hosts::message::{FromAgent, Life, OUTPUT_BYTES_MAX};
use crate::link::Link;
use crate::link::Memory;
use crate::sink::Stream;
use crate::verdict::End;
use refrain_job::control::message::{Accompanied as _, ToLauncher, ToRank};
use rustix::event::PollFlags;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::Child;
use std::sync::Arc;

const READ_BYTES: usize = 64 << 10;
/// Maximum number of reads of what is left in a pipe: more than its largest capacity (1 MiB).
const DRAIN_READS: usize = 32;

/// State that the ranks of a host share: shared memory by the numbers that the launcher uses for
/// it, and a buffer for reads.
#[derive(Debug, Default)]
pub(super) struct Shared {
    by_number: HashMap<u64, Memory>,
    next: u64,
    buffer: Vec<u8>,
}

impl Shared {
    fn keep(&mut self, memory: Memory) -> u64 {
        self.next += 1;
        self.by_number.insert(self.next, memory);
        self.next
    }

    /// The buffer, for one read.
    fn buffer(&mut self) -> &mut [u8] {
        self.buffer.resize(READ_BYTES, 0);
        &mut self.buffer
    }

    pub(super) fn let_go(&mut self, number: u64) {
        self.by_number.remove(&number);
    }

    /// The memory for a message that needs one. The rank does not read the memory of a rank of
    /// another host; `/dev/null` takes its place.
    fn of(&self, number: Option<u64>) -> io::Result<Memory> {
        let kept = number.and_then(|number| self.by_number.get(&number));
        match kept {
            Some(memory) => Ok(memory.clone()),
            None => Ok(Memory::Here(Arc::new(File::open("/dev/null")?.into()))),
        }
    }
}

/// The agent's end of one output stream.
#[derive(Debug)]
struct Pipe {
    stream: Stream,
    /// The pipe. `None`: the stream has ended.
    end: Option<OwnedFd>,
    /// Bytes that were sent and that the launcher has not acknowledged.
    untaken_bytes: usize,
}

impl Pipe {
    fn new(stream: Stream, end: Option<impl Into<OwnedFd>>) -> io::Result<Self> {
        let end: Option<OwnedFd> = end.map(Into::into);
        if let Some(pipe) = &end {
            fcntl_setfl(pipe, fcntl_getfl(pipe)? | OFlags::NONBLOCK)?;
        }
        Ok(Self {
            stream,
            end,
            untaken_bytes: 0,
        })
    }

    /// Reads once. `None`: no bytes now.
    fn read(&mut self, buffer: &mut [u8]) -> Option<Vec<u8>> {
        let end = self.end.as_ref()?;
        match rustix::io::retry_on_intr(|| rustix::io::read(end, &mut *buffer)) {
            Err(Errno::AGAIN) => None,
            Ok(0) | Err(_) => {
                self.end = None;
                None
            }
            Ok(count) => {
                self.untaken_bytes += count;
                Some(buffer[..count].to_vec())
            }
        }
    }
}

/// A rank, in the life that runs or ran last.
#[derive(Debug)]
pub(super) struct AgentRank {
    pub(super) life: Life,
    child: RankChild,
    link: Link,
    pipes: [Pipe; 2],
    pub(super) input: Option<Input>,
    has_ended: bool,
    /// One of its descriptors was ready since the last [`look`](Self::look).
    pub(super) is_ready: bool,
}

impl AgentRank {
    /// Takes over a started life.
    ///
    /// # Errors
    /// Of the system; the life is ended then.
    pub(super) fn new(life: Life, child: Child, link: Link) -> io::Result<Self> {
        let mut child = RankChild::new(child, true)?;
        let (out, err) = (child.child().stdout.take(), child.child().stderr.take());
        Ok(Self {
            life,
            child,
            link,
            pipes: [Pipe::new(Stream::Out, out)?, Pipe::new(Stream::Err, err)?],
            input: None,
            has_ended: false,
            is_ready: false,
        })
    }

    /// The process of this life.
    pub(super) fn child(&self) -> &RankChild {
        &self.child
    }

    /// The process has ended, and this was reported to the launcher.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// The descriptors to poll.
    pub(super) fn interests(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        let pipes = self.pipes.iter().filter_map(|pipe| {
            let end = pipe.end.as_ref()?;
            (pipe.untaken_bytes < OUTPUT_BYTES_MAX).then(|| (end.as_fd(), PollFlags::IN))
        });
        let ending = self.child.end_descriptor().filter(|_| !self.has_ended);
        let ending = ending.map(|descriptor| (descriptor, PollFlags::IN));
        let input = self.input.iter().filter_map(Input::interest);
        let link = self.link.interest().into_iter();
        link.chain(pipes).chain(input).chain(ending)
    }

    /// See [`Link::is_held_back`].
    pub(super) fn is_held_back(&self) -> bool {
        !self.has_ended && self.link.is_held_back()
    }

    /// Passes a message of the launcher on to the rank.
    ///
    /// # Errors
    /// The message cannot be passed on: the reason, for people.
    pub(super) fn say(
        &mut self,
        message: &ToRank,
        memory: Option<u64>,
        shared: &Shared,
    ) -> Result<(), String> {
        let memory = match message.has_memory() {
            true => Some(shared.of(memory).map_err(|error| error.to_string())?),
            false => None,
        };
        let said = self.link.send(message, memory);
        said.map_err(|error| error.to_string())
    }

    /// The launcher has taken `bytes` of a stream.
    pub(super) fn took(&mut self, stream: Stream, bytes: u32) {
        for pipe in self.pipes.iter_mut().filter(|pipe| pipe.stream == stream) {
            pipe.untaken_bytes = pipe.untaken_bytes.saturating_sub(bytes as usize);
        }
    }

    /// The messages and output that have arrived from the rank, and its end.
    pub(super) fn look(&mut self, shared: &mut Shared, watch: Option<&Watch>) -> Vec<FromAgent> {
        self.is_ready = false;
        self.link.flush();
        let mut words = Vec::new();
        // The end is read first: messages and output from before it are then in the socket and
        // pipes.
        let end = (!self.has_ended).then(|| self.child.look()).flatten();
        let Some(end) = end else {
            self.hear(shared, &mut words);
            self.read(1, shared, &mut words);
            self.report_input(&mut words);
            return words;
        };
        // The first message names the process behind a wrapper; the fence needs it.
        self.hear(shared, &mut words);
        let true_end = self.child.true_end(end);
        if let Some(watch) = watch {
            // Before the kernel may use its id again.
            watch.remove(self.child.group());
        }
        let unfenced = match true_end {
            End::Killed(_) => self.child.fence().err(),
            End::Exited(_) => None,
        };
        self.hear(shared, &mut words);
        self.read(DRAIN_READS, shared, &mut words);
        self.has_ended = true;
        self.report_input(&mut words);
        words.push(FromAgent::Ended {
            life: self.life,
            end,
            true_end,
            unfenced,
        });
        words
    }

    fn report_input(&mut self, words: &mut Vec<FromAgent>) {
        let input = self.input.as_mut();
        let left = input.and_then(|input| input.take_left(self.has_ended));
        words.extend(left.map(|bytes| FromAgent::InputLeft {
            life: self.life,
            bytes,
        }));
    }

    fn hear(&mut self, shared: &mut Shared, words: &mut Vec<FromAgent>) {
        loop {
            match self.link.receive() {
                Ok(Some((message, memory))) => {
                    match message {
                        ToLauncher::Hello(process) => self.child.join(process),
                        // The rank waits: all that it has printed comes before this message. REC-4
                        ToLauncher::Mark(_) | ToLauncher::Beginning { .. } => {
                            self.read(DRAIN_READS, shared, words);
                        }
                        _ => {}
                    }
                    words.push(FromAgent::Heard {
                        life: self.life,
                        message: Box::new(message),
                        memory: memory.map(|memory| shared.keep(memory)),
                    });
                }
                Ok(None) => return,
                Err(error) => {
                    self.link.close();
                    words.push(FromAgent::Misunderstood {
                        life: self.life,
                        reason: error.to_string(),
                    });
                    return;
                }
            }
        }
    }

    /// Reads each stream at most `times` times. Ignores the limit of unacknowledged bytes if
    /// `times` is not 1.
    fn read(&mut self, times: usize, shared: &mut Shared, words: &mut Vec<FromAgent>) {
        for pipe in &mut self.pipes {
            for _ in 0..times {
                if times == 1 && pipe.untaken_bytes >= OUTPUT_BYTES_MAX {
                    break;
                }
                let Some(bytes) = pipe.read(shared.buffer()) else {
                    break;
                };
                words.push(FromAgent::Output {
                    life: self.life,
                    stream: pipe.stream,
                    bytes,
                });
            }
        }
    }
}

#[cfg(test)]
mod tests;
