//! A program in C: its world, and what it holds of it.

use super::failure::{Code, Failure};
use super::memory::Protected;
use super::protected::{Sections, load};
use core::time::Duration;
use refrain::{Ended, Error, Message, MessageHandle, Restored, World};

/// What `refrain_init` makes.
#[derive(Debug)]
pub struct Program {
    world: World,
    protected: Sections,
    /// The checkpoint that this life continues from, while the program has not loaded it.
    restored: Option<Restored>,
    /// How requests of one call ended: memory that is used again.
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

    /// For questions that are no operations.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// For operations.
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

    /// The time since the job began. Before the program has loaded its checkpoint it is no
    /// operation.
    pub fn time(&mut self) -> Result<Duration, Failure> {
        match self.restored {
            None => Ok(self.world.time()?),
            Some(_) => Ok(self.world.unrecorded_time()),
        }
    }

    /// A number from outside. Before the program has loaded its checkpoint it is no operation.
    pub fn answer_number(&mut self, series: u8, fresh: i64) -> Result<i64, Error> {
        match self.restored {
            None => self.world.answer_number(series, fresh),
            Some(_) => Ok(fresh),
        }
    }

    /// The same for bytes.
    pub fn answer_bytes(&mut self, fresh: &mut [u8]) -> Result<(), Error> {
        match self.restored {
            None => self.world.answer_bytes(fresh),
            Some(_) => Ok(()),
        }
    }

    /// For operations on several requests: with a place for the end of each.
    pub fn ready_for(&mut self, count: usize) -> Result<(&mut World, &mut [Ended]), Failure> {
        self.ready()?;
        if self.ended.len() < count {
            self.ended.resize(count, Ended::default());
        }
        Ok((&mut self.world, &mut self.ended[..count]))
    }

    /// Ends the job's part that is C's: nothing may be open.
    pub fn end_is_near(&mut self) -> Result<(), Failure> {
        self.nothing_is_open("refrain_finalize")
    }

    pub fn finalize(self) -> Result<(), Failure> {
        Ok(self.world.finalize()?)
    }

    fn nothing_is_open(&self, call: &str) -> Result<(), Failure> {
        let requests = self.world.request_count();
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

    /// Takes a message for its receive.
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

    /// The number of the checkpoint; 0 for none.
    pub fn checkpoint(&mut self) -> Result<u64, Failure> {
        self.ready()?;
        // Also where none is taken: it must not depend on that. REC-4
        self.nothing_is_open("refrain_checkpoint")?;
        let protected = &self.protected;
        let taken = self.world.checkpoint(|image| protected.save(image));
        let taken = taken.map_err(checkpoint_failed)?;
        Ok(taken.map_or(0, |taken| taken.number))
    }

    /// The checkpoint that this life continues from, before it is loaded.
    pub fn restored(&mut self) -> Result<Option<&Restored>, Failure> {
        if self.restored.is_none() {
            self.restored = self.world.restored()?;
        }
        Ok(self.restored.as_ref())
    }

    /// Loads the checkpoint: its number, 0 for none.
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

/// A store that fails is not a wrong setting.
fn checkpoint_failed(error: Error) -> Failure {
    match error {
        Error::Config(text) => Failure::new(Code::Checkpoint, text),
        other => other.into(),
    }
}
