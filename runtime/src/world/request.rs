//! Requests: handles to entries of a table, and their results.

#[cfg(test)]
mod tests;

use super::group::Group;
use crate::Error;
use refrain_rank::calls::{Handle, Handles};
use refrain_rank::collective::Plan;
use refrain_transport::engine::{Outcome, ReceiveBuffer, SendBuffer, SendTo, Status};
use refrain_transport::matching::Pattern;
use serde::{Deserialize, Serialize};

/// The result of one of several requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// Index of the request in the call.
    pub index: usize,
    /// The status of the request's message.
    pub status: Status,
    /// `Some(buffer_bytes)` if the message was longer than the receive's buffer of that length: the
    /// rest is lost.
    pub truncated_to: Option<u64>,
}

impl Ended {
    #[inline]
    pub(super) fn new(index: usize, outcome: Outcome) -> Self {
        Self {
            index,
            status: outcome.status,
            truncated_to: outcome.truncated_to,
        }
    }

    /// The status of the message, if it was not truncated.
    ///
    /// # Errors
    /// [`Error::Truncated`] if it was.
    #[inline]
    pub fn status(&self) -> Result<Status, Error> {
        match self.truncated_to {
            None => Ok(self.status),
            Some(buffer_bytes) => Err(Error::Truncated {
                source_rank: self.status.source,
                tag: self.status.tag,
                message_bytes: self.status.bytes,
                buffer_bytes,
            }),
        }
    }
}

/// Identifies an entry of a [`Table`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[repr(C)]
pub struct Key {
    /// Counts all entries of the table, from 1; never reused. 0: null.
    serial: u64,
    slot: u64,
}

/// A request of a [`World`](super::World): a number that the world looks up. It becomes null when
/// its completion is returned; copies of it are then refused. A persistent request stays, inactive,
/// and can be started again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Request(pub(super) Key);

impl Request {
    /// The null request.
    pub const NULL: Self = Self(Key { serial: 0, slot: 0 });

    /// Returns the null request.
    pub fn null() -> Self {
        Self::NULL
    }

    /// Whether this is the null request.
    #[inline]
    pub fn is_null(&self) -> bool {
        *self == Self::NULL
    }
}

/// Values by key. The table detects keys of removed values.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Table<T> {
    slots: Vec<Slot<T>>,
    free: Vec<usize>,
    made: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Slot<T> {
    serial: u64,
    /// `None`: free.
    value: Option<T>,
}

impl<T> Table<T> {
    /// An empty table that continues the count of an earlier life, which made this many keys.
    pub fn after(made: u64) -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            made,
        }
    }

    /// Number of keys made so far.
    pub fn made(&self) -> u64 {
        self.made
    }

    /// Number of values in the table.
    pub fn count(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    #[inline(always)]
    pub fn insert(&mut self, value: T) -> Key {
        self.made += 1;
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                self.slots.push(Slot {
                    serial: 0,
                    value: None,
                });
                self.slots.len() - 1
            }
        };
        let slot = &mut self.slots[index];
        slot.serial = self.made;
        slot.value = Some(value);
        Key {
            serial: self.made,
            slot: index as u64,
        }
    }

    #[inline]
    pub fn get(&self, key: Key) -> Option<&T> {
        let slot = self.slots.get(usize::try_from(key.slot).ok()?)?;
        slot.value.as_ref().filter(|_| slot.serial == key.serial)
    }

    #[inline]
    pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let slot = self.slots.get_mut(usize::try_from(key.slot).ok()?)?;
        slot.value.as_mut().filter(|_| slot.serial == key.serial)
    }

    pub fn remove(&mut self, key: Key) -> Option<T> {
        self.free(key)?.take()
    }

    /// Frees the slot of a value, which the caller takes out.
    #[inline]
    fn free(&mut self, key: Key) -> Option<&mut Option<T>> {
        let index = usize::try_from(key.slot).ok()?;
        let slot = self.slots.get_mut(index)?;
        if slot.value.is_none() || slot.serial != key.serial {
            return None;
        }
        self.free.push(index);
        Some(&mut slot.value)
    }
}

/// An operation that its caller holds. A [`Request`] names one that the world holds.
#[derive(Debug)]
pub struct Operation {
    /// Null for an inactive persistent operation.
    pub(super) handle: Handle,
    /// What a persistent operation starts.
    pub(super) template: Option<Box<Template>>,
}

impl Operation {
    #[inline(always)]
    pub(super) fn once(handle: Handle) -> Self {
        Self {
            handle,
            template: None,
        }
    }

    pub(super) fn persistent(template: Template) -> Self {
        Self {
            handle: Handle::NULL,
            template: Some(Box::new(template)),
        }
    }

    /// What calls wait for; null for an inactive persistent operation.
    #[inline(always)]
    pub fn handle(&self) -> Handle {
        self.handle
    }

    /// Notes that a call has returned the end of a [copy of the handle](Self::handle).
    #[inline]
    pub fn has_ended(&mut self) {
        self.handle = Handle::NULL;
    }
}

/// A request in the table.
#[derive(Debug)]
pub(super) struct Entry {
    pub operation: Operation,
    /// Set while `check` runs: the call names this request.
    is_named: bool,
}

/// What a persistent operation starts.
#[derive(Debug)]
pub(super) enum Template {
    Send { data: SendBuffer, to: SendTo },
    Receive { room: ReceiveBuffer, from: Pattern },
    Collective { plan: Box<Plan>, numbered: Numbered },
}

/// What numbers the starts of a persistent collective. COLL-2
#[derive(Clone, Copy, Debug)]
pub(super) enum Numbered {
    /// The order of starts, as that of non-blocking collectives.
    ByStarts(Group),
    /// The order in which they were prepared: the number of the next start.
    ByPreparation(i32),
}

impl From<Operation> for Entry {
    #[inline]
    fn from(operation: Operation) -> Self {
        Self {
            operation,
            is_named: false,
        }
    }
}

impl Table<Entry> {
    /// The operation of a request; null if the request is null or inactive.
    ///
    /// # Errors
    /// [`Error::Request`].
    #[inline]
    pub fn operation(&self, request: Request) -> Result<Handle, Error> {
        match self.get(request.0) {
            Some(entry) => Ok(entry.operation.handle),
            None if request.is_null() => Ok(Handle::NULL),
            None => Err(Error::Request { index: 0 }),
        }
    }

    /// Whether the request has an operation to wait for.
    #[inline]
    pub fn is_active(&self, request: Request) -> bool {
        let entry = self.get(request.0);
        entry.is_some_and(|entry| !entry.operation.handle.is_null())
    }

    /// Number of requests that have an operation to wait for.
    pub fn active_count(&self) -> usize {
        let entries = self.slots.iter().filter_map(|slot| slot.value.as_ref());
        entries
            .filter(|entry| !entry.operation.handle.is_null())
            .count()
    }

    /// Checks that each request is null or in the table, and named once.
    ///
    /// # Errors
    /// [`Error::Request`].
    pub fn check(&mut self, requests: &[Request]) -> Result<(), Error> {
        let name = |request: &Request| match self.get_mut(request.0) {
            Some(entry) => !core::mem::replace(&mut entry.is_named, true),
            None => request.is_null(),
        };
        let good = requests.iter().map(name).take_while(|is_good| *is_good);
        let good = good.count();
        for request in &requests[..good] {
            if let Some(entry) = self.get_mut(request.0) {
                entry.is_named = false;
            }
        }
        match good == requests.len() {
            true => Ok(()),
            false => Err(Error::Request { index: good }),
        }
    }

    /// Marks a request whose completion is returned: it becomes null, or inactive if persistent.
    #[inline]
    pub fn end(&mut self, request: &mut Request) {
        let Some(slot) = self.slots.get_mut(request.0.slot as usize) else {
            return;
        };
        match &mut slot.value {
            Some(entry) if slot.serial == request.0.serial => match &entry.operation.template {
                Some(_) => entry.operation.has_ended(),
                None => {
                    slot.value = None;
                    self.free.push(request.0.slot as usize);
                    *request = Request::NULL;
                }
            },
            _ => {}
        }
    }
}

/// The operations of one call: named by requests, or held by the caller.
pub(super) trait Several {
    type Handles<'a>: Handles
    where
        Self: 'a;

    /// Their handles.
    fn handles<'a>(&'a mut self, table: &'a mut Table<Entry>) -> Self::Handles<'a>;
}

impl Several for [Request] {
    type Handles<'a> = Chosen<'a>;

    #[inline]
    fn handles<'a>(&'a mut self, table: &'a mut Table<Entry>) -> Chosen<'a> {
        Chosen {
            table,
            requests: self,
        }
    }
}

impl Several for [Handle] {
    type Handles<'a> = &'a mut Self;

    #[inline]
    fn handles<'a>(&'a mut self, _: &'a mut Table<Entry>) -> &'a mut Self {
        self
    }
}

/// The requests of one call.
pub(super) struct Chosen<'a> {
    pub table: &'a mut Table<Entry>,
    pub requests: &'a mut [Request],
}

impl Handles for Chosen<'_> {
    #[inline]
    fn count(&self) -> usize {
        self.requests.len()
    }

    #[inline]
    fn get(&self, index: usize) -> &Handle {
        let entry = self.table.get(self.requests[index].0);
        entry.map_or(&Handle::NULL, |entry| &entry.operation.handle)
    }

    #[inline]
    fn clear(&mut self, index: usize) {
        self.table.end(&mut self.requests[index]);
    }
}
