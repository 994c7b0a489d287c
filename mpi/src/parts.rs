//! Partitioned communication (MPI-5.0, section 4.2): a message that is sent in parts, as the program
//! makes them ready.
//!
//! The sender takes a context for each pair of requests, and sends it, with the number and length
//! of its partitions, when it prepares its request: these messages match in the order of the
//! requests. Each partition is a message with its number as tag, so those of different starts match
//! in order, and the receiver may cut the data in another way.

#![allow(unsafe_code, reason = "lends the program's buffers to the library")]

use super::abi::Status;
use super::exports as abi;
use super::failure::{Failure, Result};
use core::ops::Range;
use refrain::{Ended, Handle, ReceiveBuffer, SendBuffer, SendTo, Source, World, from};
use std::sync::Arc;

/// Messages that describe a sender are in the context in which members of a communicator agree. Their
/// tag is the complement of the program's, which no agreement has.
pub const fn greeting_context(context: u32) -> u32 {
    context & 0x7fff_ffff
}

/// A partitioned operation.
pub struct Parts {
    pub side: Side,
    /// Partitions of this side.
    pub partitions: u64,
    /// Bytes of each of them.
    pub partition_bytes: u64,
    /// The status of a start that has ended.
    pub status: Status,
    /// The messages that are under way, with their partitions of the sender.
    pub under_way: Vec<(u64, Handle)>,
}

/// Makes the buffer of a partition.
pub type Outgoing = Box<dyn Fn(u64) -> Result<SendBuffer>>;
/// Makes the room for a part of the message.
pub type Incoming = Box<dyn Fn(Range<u64>) -> Result<ReceiveBuffer>>;

pub enum Side {
    Send {
        data: Outgoing,
        to: SendTo,
        /// The program has made these partitions ready since the start.
        is_ready: Vec<bool>,
    },
    Receive {
        room: Incoming,
        sender: Sender,
        /// Which partitions of the sender have arrived since the start.
        has_arrived: Vec<bool>,
        /// The receives of this start are begun.
        is_posted: bool,
    },
    /// From or to `MPI_PROC_NULL`.
    ProcNull,
}

/// What a receiver knows of its sender.
pub enum Sender {
    /// The message that describes it has not arrived.
    Unknown {
        greeting: Handle,
        into: Arc<Greeting>,
    },
    Known {
        partitions: u64,
        partition_bytes: u64,
        from: Source,
    },
}

/// The message that describes a sender: context, partitions, bytes of each.
#[repr(transparent)]
pub struct Greeting(core::cell::UnsafeCell<[u64; 3]>);

// SAFETY: written by the receive, and read after its end, by calls that take turns.
unsafe impl Sync for Greeting {}
// SAFETY: as above.
unsafe impl Send for Greeting {}

impl Greeting {
    pub const BYTES: usize = 24;

    pub fn encode(context: u32, partitions: u64, partition_bytes: u64) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let words = [u64::from(context), partitions, partition_bytes];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }
}

impl Parts {
    pub fn new(side: Side, partitions: u64, partition_bytes: u64, status: Status) -> Self {
        Self {
            side,
            partitions,
            partition_bytes,
            status,
            under_way: Vec::new(),
        }
    }

    /// Begins to wait for the message that describes the sender.
    pub fn expect(world: &mut World, greeting: Source) -> Result<Sender> {
        let into = Arc::new(Greeting(core::cell::UnsafeCell::new([0; 3])));
        // SAFETY: the place lives as long as `Sender`, which outlives the receive.
        let room = unsafe { ReceiveBuffer::bytes(into.0.get().cast(), Greeting::BYTES) };
        let greeting = world.begin_receive(room, greeting)?.handle();
        Ok(Sender::Unknown { greeting, into })
    }

    /// The request is started.
    pub fn start(&mut self, world: &mut World) -> Result {
        match &mut self.side {
            Side::Send { is_ready, .. } => is_ready.fill(false),
            Side::Receive {
                has_arrived,
                is_posted,
                ..
            } => {
                has_arrived.fill(false);
                *is_posted = false;
            }
            Side::ProcNull => {}
        }
        self.post(world)
    }

    /// Begins the receives, if the sender is known and they are not begun.
    fn post(&mut self, world: &mut World) -> Result {
        let Side::Receive {
            room,
            sender:
                Sender::Known {
                    partitions,
                    partition_bytes,
                    from,
                },
            has_arrived,
            is_posted: is_posted @ false,
        } = &mut self.side
        else {
            return Ok(());
        };
        *is_posted = true;
        has_arrived.resize(*partitions as usize, false);
        for partition in 0..*partitions {
            let start = partition * *partition_bytes;
            let room = room(start..start + *partition_bytes)?;
            let receive = world.begin_receive(room, from.tag(partition as i32))?;
            self.under_way.push((partition, receive.handle()));
        }
        Ok(())
    }

    /// What the operation waits for: messages with their numbers for [`Parts::note`].
    pub fn awaited(&self) -> Vec<(u64, Handle)> {
        match &self.side {
            Side::Receive {
                sender: Sender::Unknown { greeting, .. },
                ..
            } => vec![(0, *greeting)],
            _ => self.under_way.clone(),
        }
    }

    /// The request is freed: its receive of the greeting is cancelled, as the memory of that goes
    /// too. Returns the messages that are under way, which go on.
    pub fn abandon(&mut self, world: &mut World) -> Vec<Handle> {
        if let Side::Receive {
            sender: Sender::Unknown { greeting, .. },
            ..
        } = &mut self.side
        {
            world.free_held(*greeting);
        }
        let under_way = self.under_way.drain(..);
        under_way.map(|(_, handle)| handle).collect()
    }

    /// Notes the end of an awaited message.
    pub fn note(&mut self, number: u64, ended: &Ended, world: &mut World) -> Result {
        let total = self.partitions * self.partition_bytes;
        if let Side::Receive { sender, .. } = &mut self.side
            && let Sender::Unknown { into, .. } = sender
        {
            // SAFETY: the receive has ended.
            let [context, partitions, partition_bytes] = unsafe { into.0.get().read() };
            if partitions * partition_bytes > total {
                return Err(Failure::new(
                    abi::ERR_TRUNCATE,
                    format_args!(
                        "the sender's {partitions} partitions of {partition_bytes} bytes are longer than the {total} bytes of the receiver"
                    ),
                ));
            }
            self.status.set_bytes(partitions * partition_bytes);
            let of = from(ended.status.source.0).context(context as u32);
            *sender = Sender::Known {
                partitions,
                partition_bytes,
                from: of,
            };
            return self.post(world);
        }
        self.under_way.retain(|(of, _)| *of != number);
        if let Side::Receive { has_arrived, .. } = &mut self.side {
            has_arrived[number as usize] = true;
        }
        Ok(())
    }

    /// Whether all messages of this start have ended.
    pub fn is_over(&self) -> bool {
        self.under_way.is_empty()
            && match &self.side {
                Side::Send { is_ready, .. } => !is_ready.contains(&false),
                Side::Receive { is_posted, .. } => *is_posted,
                Side::ProcNull => true,
            }
    }

    /// The program has filled a partition.
    pub fn make_ready(&mut self, partition: u64, world: &mut World) -> Result {
        let Side::Send { data, to, is_ready } = &mut self.side else {
            return match self.side {
                Side::ProcNull => Ok(()),
                _ => Err(Failure::new(
                    abi::ERR_REQUEST,
                    "the request is no partitioned send",
                )),
            };
        };
        let Some(ready) = is_ready.get_mut(partition as usize) else {
            return Err(no_partition(partition, self.partitions));
        };
        if core::mem::replace(ready, true) {
            return Err(Failure::argument(format_args!(
                "partition {partition} is ready already since the start"
            )));
        }
        let send = world.begin_send(data(partition)?, to.tag(partition as i32))?;
        self.under_way.push((partition, send.handle()));
        Ok(())
    }

    /// Whether a partition of the receiver has arrived.
    pub fn has_arrived(&self, partition: u64) -> Result<bool> {
        if partition >= self.partitions {
            return Err(no_partition(partition, self.partitions));
        }
        let Side::Receive {
            sender,
            has_arrived,
            is_posted,
            ..
        } = &self.side
        else {
            return match self.side {
                Side::ProcNull => Ok(true),
                _ => Err(Failure::new(
                    abi::ERR_REQUEST,
                    "the request is no partitioned receive",
                )),
            };
        };
        let Sender::Known {
            partitions,
            partition_bytes: theirs,
            ..
        } = sender
        else {
            return Ok(false);
        };
        let own = self.partition_bytes;
        let (first, end) = match *theirs {
            0 => (0, *partitions),
            theirs => (
                partition * own / theirs,
                ((partition + 1) * own).div_ceil(theirs).min(*partitions),
            ),
        };
        let parts = has_arrived.get(first as usize..end.max(first) as usize);
        Ok(*is_posted && parts.is_some_and(|parts| !parts.contains(&false)))
    }
}

fn no_partition(partition: u64, partitions: u64) -> Failure {
    Failure::argument(format_args!(
        "partition {partition} does not exist: there are {partitions}, from 0 on"
    ))
}
