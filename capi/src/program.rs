//! A program in C: its world, and the state that the C interface adds.

use super::failure::{Code, Failure};
use super::memory::Protected;
use super::protected::{Sections, load};
use core::time::Duration;
use refrain::{Ended, Error, Message, MessageHandle, Restored, World};

/// The object that `refrain_init` makes.
#[derive(Debug)]
pub struct Program {
    world: World,
    protected: Sections,
    /// The checkpoint that this life continues from, until the program has loaded it.
    restored: Option<Restored>,
    /// Results of the requests of one call; the memory is reused.
    ended: Vec<Ended>,
}

impl Program {
    pub fn new(world: World) -> Self {
        Self {
            world,
            protected: Sections::default(),
            restored: None,
            ended: Vec::new(),
        }
    }

    /// The world, for questions that are no operations.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// The world, for operations. Fails while a checkpoint is to be loaded.
    pub fn ready(&mut self) -> Result<&mut World, Failure> {
        match &self.restored {
            None => Ok(&mut self.world),
            Some(restored) => Err(Failure::new(
                Code::Checkpoint,
                format_args!(
                    "this process continues from checkpoint {}: call refrain_restored before any other operation",
                    restored.number()
                ),
            )),
        }
    }

    /// The time since the job began. It is no operation until the program has loaded its
    /// checkpoint.
    pub fn time(&mut self) -> Result<Duration, Failure> {
        match self.restored {
            None => Ok(self.world.time()?),
            Some(_) => Ok(self.world.unrecorded_time()),
        }
    }

    /// As `World::answer_number`. It is no operation until the program has loaded its checkpoint.
    pub fn answer_number(&mut self, series: u8, fresh: i64) -> Result<i64, Error> {
        match self.restored {
            None => self.world.answer_number(series, fresh),
            Some(_) => Ok(fresh),
        }
    }

    /// As [`Program::answer_number`], for bytes.
    pub fn answer_bytes(&mut self, fresh: &mut [u8]) -> Result<(), Error> {
        match self.restored {
            None => self.world.answer_bytes(fresh),
            Some(_) => Ok(()),
        }
    }

    /// The world for operations on several requests, with room for `count` results.
    pub fn ready_for(&mut self, count: usize) -> Result<(&mut World, &mut [Ended]), Failure> {
        self.ready()?;
        if self.ended.len() < count {
            self.ended.resize(count, Ended::default());
        }
        Ok((&mut self.world, &mut self.ended[..count]))
    }

    /// Fails if requests or messages are open.
    pub fn check_finalize(&mut self) -> Result<(), Failure> {
        self.nothing_is_open("refrain_finalize")
    }

    pub fn finalize(self) -> Result<(), Failure> {
        Ok(self.world.finalize()?)
    }

    fn nothing_is_open(&self, call: &str) -> Result<(), Failure> {
        let requests = self.world.active_request_count();
        let messages = self.world.message_count();
        if requests == 0 && messages == 0 {
            return Ok(());
        }
        Err(Failure::new(
            Code::Open,
            format_args!(
                "{call}: {requests} requests were not waited for and {messages} messages of matched probes not received: end them before"
            ),
        ))
    }

    // ---- messages of matched probes ----

    /// Removes a kept message so that it can be received.
    pub fn take(&mut self, handle: MessageHandle) -> Result<Message, Failure> {
        self.ready()?.take(handle).ok_or_else(|| {
            Failure::new(
                Code::Request,
                "the message is null, was received already, or is of another world",
            )
        })
    }

    // ---- checkpoints ----

    pub fn protect(&mut self, id: u64, memory: Protected) {
        self.protected.protect(id, memory);
    }

    pub fn unprotect(&mut self, id: u64) -> Result<(), Failure> {
        self.protected.unprotect(id)
    }

    /// Takes a checkpoint and returns its number; 0 if none was taken.
    pub fn checkpoint(&mut self) -> Result<u64, Failure> {
        self.ready()?;
        // Checked also when no checkpoint is taken: the result must not depend on that. REC-4
        self.nothing_is_open("refrain_checkpoint")?;
        let protected = &self.protected;
        let taken = self.world.checkpoint(|image| protected.save(image));
        let taken = taken.map_err(checkpoint_failed)?;
        Ok(taken.map_or(0, |taken| taken.number))
    }

    /// The checkpoint that this life continues from, until it is loaded.
    pub fn restored(&mut self) -> Result<Option<&Restored>, Failure> {
        if self.restored.is_none() {
            self.restored = self.world.restored()?;
        }
        Ok(self.restored.as_ref())
    }

    /// Loads the checkpoint and returns its number; 0 if there is none.
    pub fn restore(&mut self) -> Result<u64, Failure> {
        self.restored()?;
        let Some(restored) = &mut self.restored else {
            return Ok(0);
        };
        load(restored, &self.protected)?;
        let number = restored.number();
        self.restored = None;
        Ok(number)
    }
}

/// Converts an error of `World::checkpoint`: a failing store is no wrong setting.
fn checkpoint_failed(error: Error) -> Failure {
    match error {
        Error::Config(text) => Failure::new(Code::Checkpoint, text),
        other => other.into(),
    }
}
