//! Results that this rank gives to those that ask. WHOLE-5

use super::group::{Name, names};
use super::{Asked, Key, Sent, Whole};
use crate::collective::CollectiveError;
use refrain_ring::{Rank, RecordKind, Ssn};
use refrain_transport::control::Report;
use refrain_transport::engine::{Engine, Progress, ReadBack, ResultName};
use refrain_transport::protocol::Protocol;
use std::collections::VecDeque;

/// Results that are read for another rank and sent to it: those that it has asked for, and those
/// that it is about to ask for.
#[derive(Debug)]
pub(super) struct Giving {
    pub to: Rank,
    /// In the order of the log.
    wanted: VecDeque<(Ssn, Key)>,
    /// `None`: all are read.
    reader: Option<ReadBack>,
    /// What is read of the first wanted one, and the bytes of all of it.
    data: Vec<u8>,
    message_bytes: u64,
    read: VecDeque<(Key, Vec<u8>)>,
    /// Bytes of the first one that was read that are given, plus one: a result may have none.
    given: usize,
}

/// Results, and their bytes, that are given beyond those that were asked for.
const AHEAD_RESULTS_MAX: usize = 256;
const AHEAD_BYTES_MAX: u64 = 64 << 10;

impl Whole {
    /// Begins to read the results that others have asked for, of collectives that are closed.
    pub(super) fn begin_to_give(&mut self, engine: &mut Engine<impl Protocol>) {
        if self.asked.is_empty() {
            return;
        }
        let index = self.index.get_or_insert_with(|| {
            let kept = self.kept.iter();
            kept.map(|(key, ssn, bytes)| (*key, (*ssn, *bytes)))
                .collect()
        });
        let (groups, giving, own) = (&self.groups, &mut self.giving, self.rank);
        let all_are_closed = self.all_are_closed;
        let sent = &self.sent;
        let mut asked = core::mem::take(&mut self.asked);
        asked.retain_mut(|it| {
            let Asked {
                by: to,
                context,
                name,
                knows_behind,
            } = it;
            let Some(group) = groups.get(context) else {
                return true;
            };
            let is_closed = |name: Name| all_are_closed || name.is_before(&group.known_closed);
            if !is_closed(*name) {
                return true;
            }
            // A later life gives the results when it has them itself.
            if !group.has_finished(*name) {
                if !core::mem::replace(knows_behind, true) {
                    engine.report(*to, Report::Behind, (*context, name.0));
                }
                return true;
            }
            // Also where there is no result to give.
            for closed in names(group.known_closed) {
                engine.report(*to, Report::Closed, (*context, closed.0));
            }
            let first = Key {
                context: *context,
                name: *name,
                owner: None,
            };
            let (mut wanted, mut ahead_bytes) = (Vec::new(), 0);
            let its = index.range(first..);
            for (key, (ssn, bytes)) in its.take_while(|(key, _)| key.context == *context) {
                if key.name != *name {
                    ahead_bytes += bytes;
                    let is_full =
                        wanted.len() >= AHEAD_RESULTS_MAX || ahead_bytes > AHEAD_BYTES_MAX;
                    if is_full || !is_closed(key.name) {
                        break;
                    }
                }
                wanted.push((*ssn, *key));
            }
            let is_its = |sent: &Sent| (sent.context, sent.name) == (*context, Some(*name));
            if !sent.values().flatten().any(is_its) {
                engine.report(*to, Report::Past, (*context, name.0));
            }
            wanted.sort_unstable();
            if let Some((begin, _)) = wanted.first() {
                giving.push(Giving {
                    to: *to,
                    reader: Some(engine.read_back(own, *begin)),
                    wanted: wanted.into(),
                    data: Vec::new(),
                    message_bytes: 0,
                    read: VecDeque::new(),
                    given: 0,
                });
            }
            false
        });
        self.asked = asked;
    }

    /// Reads and sends what others have asked for.
    pub(super) fn give(
        &mut self,
        engine: &mut Engine<impl Protocol>,
    ) -> Result<(), CollectiveError> {
        for giving in &mut self.giving {
            giving.step(engine)?;
        }
        self.giving.retain(|giving| !giving.is_over());
        Ok(())
    }
}

impl Giving {
    fn step(&mut self, engine: &mut Engine<impl Protocol>) -> Result<(), CollectiveError> {
        self.read(engine)?;
        while let Some((key, message)) = self.read.front() {
            let Key {
                context,
                name,
                owner,
            } = *key;
            let result = message.get(ResultName::BYTES..).unwrap_or_default();
            let from = self.given.saturating_sub(1);
            let name = name.of_result(context, owner);
            let Some(bytes) = engine.give_result(self.to, name, result, from)? else {
                return Ok(());
            };
            self.given = from + bytes + 1;
            if self.given > result.len() {
                self.given = 0;
                self.read.pop_front();
            }
        }
        Ok(())
    }

    /// Reads the next wanted results.
    fn read(&mut self, engine: &mut Engine<impl Protocol>) -> Result<(), CollectiveError> {
        let Some(reader) = &mut self.reader else {
            return Ok(());
        };
        let (wanted, data, read) = (&mut self.wanted, &mut self.data, &mut self.read);
        let message_bytes = &mut self.message_bytes;
        let progress = engine.read_on(reader, &mut |header, payload| {
            let Some((ssn, key)) = wanted.front().copied() else {
                return;
            };
            if header.ssn != ssn {
                return;
            }
            if header.kind == RecordKind::Eager {
                *message_bytes = header.extent;
                *data = Vec::with_capacity(header.extent as usize);
            }
            data.extend_from_slice(payload);
            if data.len() as u64 >= *message_bytes {
                read.push_back((key, core::mem::take(data)));
                wanted.pop_front();
            }
        })?;
        if let Progress::Passed(_) = progress {
            // Checkpoints cover the first ones meanwhile.
            wanted.retain(|(ssn, _)| !reader.from().is_beyond(*ssn));
        }
        if wanted.is_empty() || matches!(progress, Progress::End) {
            self.reader = None;
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.reader.is_none() && self.read.is_empty()
    }
}
