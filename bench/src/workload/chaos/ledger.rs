//! The messages that a rank has sent, in the order of its calls; they are compared with its
//! payload log. LOG-2

use super::plan::Message;
use crate::workload::error::{WorkloadError, ensure};
use crate::workload::payload;
use refrain::{Ssn, World};

/// The messages sent to each rank.
#[derive(Debug, Default)]
pub struct Ledger {
    /// By receiver; empty when the log is not checked.
    by_receiver: Vec<Vec<Sent>>,
}

/// One message; its bytes follow from the seed.
#[derive(Clone, Copy, Debug)]
struct Sent {
    context: u32,
    tag: i32,
    bytes: usize,
    seed: u64,
}

impl Ledger {
    /// An empty ledger for a job of `ranks` ranks.
    #[must_use]
    pub fn new(ranks: u32) -> Self {
        Self {
            by_receiver: vec![Vec::new(); ranks as usize],
        }
    }

    /// Notes a message before it is sent.
    pub fn note(&mut self, message: &Message) {
        if let Some(sent) = self.by_receiver.get_mut(message.destination as usize) {
            sent.push(Sent {
                context: message.context,
                tag: message.tag,
                bytes: message.bytes,
                seed: message.seed,
            });
        }
    }

    /// Reads this rank's log to every other rank, from the first message on, and
    /// compares it with the messages sent. Returns their number.
    ///
    /// # Errors
    /// Those of the library, and the first difference.
    pub fn check(&self, world: &mut World) -> Result<u64, WorkloadError> {
        let own = world.rank().0;
        let mut checked = 0;
        for (receiver, sent) in (0..).zip(&self.by_receiver) {
            if receiver == own {
                // Messages of a rank to itself are not logged.
                continue;
            }
            check_one(world, receiver, sent)?;
            checked += sent.len() as u64;
        }
        Ok(checked)
    }
}

fn check_one(world: &mut World, receiver: u32, sent: &[Sent]) -> Result<(), WorkloadError> {
    let mut expected = sent.iter();
    let mut difference = None;
    world.read_log(receiver, Ssn(0), |logged| {
        if difference.is_some() {
            return;
        }
        difference = match expected.next() {
            None => Some(format!("message {:?} was never sent", logged.ssn)),
            Some(sent) => {
                let same = (logged.context, logged.tag) == (sent.context, sent.tag)
                    && logged.payload == payload::make(sent.seed, sent.bytes);
                (!same).then(|| format!("message {:?} is not {sent:?}", logged.ssn))
            }
        };
    })?;
    let left = expected.len();
    ensure!(
        difference.is_none() && left == 0,
        "the log to rank {receiver}: {}; {left} of {} messages are missing",
        difference.unwrap_or_default(),
        sent.len()
    );
    Ok(())
}
