//! The collectives of one program on a real engine: the real executor, with the program's memory.

#![allow(
    unsafe_code,
    reason = "lends the program's memory to collectives that are under way"
)]

use super::rank::SimEngine;
use super::room::Room;
use crate::collective::{Collective, ELEMENT_BYTES};
use crate::planted::Planted;
use refrain_rank::calls::Handle;
use refrain_rank::collective::{CollectiveError, Memory, Name, Number, Plan, UnderWay, Whole};
use refrain_ring::Clock;
use refrain_transport::engine::EngineError;
use std::sync::Arc;

/// The collectives that are under way at a rank.
#[derive(Debug)]
pub struct Collectives {
    under_way: UnderWay,
    /// The planted bug, if any.
    pub planted: Option<Planted>,
    /// What is wrong with a collective, if anything.
    pub complaint: Option<String>,
}

/// The memory of a collective.
#[derive(Debug)]
pub struct Lent {
    /// Clock of the call.
    pub begun_at: Clock,
    _input: Room,
    /// The result, after the end of the collective.
    pub output: Room,
}

impl Collectives {
    /// No collective is under way.
    pub fn new(planted: Option<Planted>, whole: Option<Whole>) -> Self {
        let under_way = UnderWay::default();
        Self {
            under_way: match whole {
                Some(whole) => under_way.with_whole(whole),
                None => under_way,
            },
            planted,
            complaint: None,
        }
    }

    /// Whether results of neighbours are still to be kept.
    pub fn is_sharing(&self) -> bool {
        self.under_way.is_sharing()
    }

    /// What is known of results that are kept, if they are.
    pub fn whole(&mut self) -> Option<&mut Whole> {
        self.under_way.whole()
    }

    /// Begins a collective. The caller keeps the memory until its request has ended or the engine is
    /// gone.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn begin(
        &mut self,
        engine: &mut SimEngine,
        call: &Collective,
    ) -> Result<(Handle, Lent), EngineError> {
        let (input, output) = call.part.buffers(&call.input);
        let arrived = engine.statistics().unexpected % 2 == 1;
        let bent = |planted| arrived && self.planted == Some(planted);
        let chosen = call.part.schedule(bent(Planted::AlgorithmByArrival));
        let has = |bytes: &[u8], needed| bytes.len() as u64 >= needed * ELEMENT_BYTES as u64;
        assert!(has(&input, chosen.input_elements) && has(&output, chosen.output_elements));
        let [input, output] = [input, output].map(|bytes| Room::holding(&bytes));
        let plan = Plan {
            members: Arc::clone(&call.members),
            me: call.part.me,
            context: call.context,
            chosen: Arc::new(chosen),
            memory: Memory {
                input: input.base(),
                output: output.base(),
                element_bytes: ELEMENT_BYTES as u64,
            },
            layouts: None,
            reduction: Some(call.part.reduction(bent(Planted::OperandsByArrival))),
            check: None,
        };
        let number = match self.planted {
            Some(Planted::CollectiveNumberForgotten) => 0,
            _ => call.number,
        };
        let number = Number {
            tag: number,
            name: Some(Name::new(call.number as u64, false)),
        };
        // SAFETY: the rooms have all elements that the schedule uses, and the caller keeps them.
        // They consist of cells, and the simulation does not access them before the request ends.
        let begun = unsafe { self.under_way.begin(Box::new(plan), number, engine) };
        let lent = Lent {
            begun_at: engine.now(),
            _input: input,
            output,
        };
        match begun {
            Ok(handle) => Ok((handle, lent)),
            Err(error) => {
                self.failed(error)?;
                Ok((Handle::NULL, lent))
            }
        }
    }

    /// Begins the steps that can begin.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn advance(&mut self, engine: &mut SimEngine) -> Result<(), EngineError> {
        let before = engine.statistics().messages_sent;
        let advanced = self.under_way.advance(engine);
        let sent = engine.statistics().messages_sent - before;
        if self.planted == Some(Planted::StepsTick) {
            for _ in 0..sent {
                engine.tick();
            }
        }
        advanced.or_else(|error| self.failed(error))
    }

    fn failed(&mut self, error: CollectiveError) -> Result<(), EngineError> {
        match error {
            CollectiveError::Engine(error) => Err(error),
            error => {
                self.complaint.get_or_insert_with(|| error.to_string());
                Ok(())
            }
        }
    }
}
