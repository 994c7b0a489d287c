//! The results of collectives that a rank kept which has left the job. WHOLE-2

use crate::Error;
use refrain_logging::image::{LogImage, LogKey, ReadFailure};
use refrain_rank::dead_rank::open_log;
use refrain_ring::{Position, Ssn, Stream};
use refrain_transport::engine::ResultName;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::Path;

/// The results of collectives that a peer kept in its log to itself. All collectives are closed:
/// every rank has finished them. WHOLE-5
#[derive(Debug)]
pub(super) struct KeptResults {
    image: LogImage,
    key: LogKey,
    /// By context and collective, once the log was read: where the results are.
    places: Option<Places>,
}

/// By context and collective.
type Places = BTreeMap<(u32, u64), Vec<(Ssn, Position)>>;

impl KeptResults {
    /// Opens the log to itself of a rank, by its memory and the files that it spilled.
    pub(super) fn open(
        memory: &OwnedFd,
        spill_dir: Option<&Path>,
        key: LogKey,
    ) -> Result<Self, Error> {
        let rank = key.channel.source;
        let memory = memory.try_clone().map_err(|error| {
            Error::Config(format!("the log of rank {rank}, which has left: {error}"))
        })?;
        Ok(Self {
            image: open_log(memory, spill_dir, Some(rank))?,
            key,
            places: None,
        })
    }

    /// The results of a collective, each in one part, with their owners.
    pub(super) fn of(
        &mut self,
        context: u32,
        collective: u64,
    ) -> Result<Vec<(i32, Vec<u8>)>, ReadFailure> {
        let first = Ssn::first(Stream::RESULTS);
        if self.places.is_none() {
            let mut places = Places::new();
            match self.image.messages(&self.key, first) {
                Err(ReadFailure::NoLog(_)) => {}
                Err(error) => return Err(error),
                Ok(mut messages) => {
                    while let Some(message) = messages.next()? {
                        let (context, tag) = (message.context, message.tag);
                        if let Some((name, _)) = ResultName::split(context, tag, &message.bytes) {
                            let its = places.entry((name.context, name.collective)).or_default();
                            its.push((message.ssn, message.position));
                        }
                    }
                }
            }
            self.places = Some(places);
        }
        let places = self
            .places
            .iter()
            .flat_map(|it| it.get(&(context, collective)));
        let mut parts = Vec::new();
        for (ssn, position) in places.flatten().copied() {
            let mut messages = self.image.messages_behind(&self.key, ssn, position)?;
            if let Some(message) = messages.next()?
                && let Some((name, result)) =
                    ResultName::split(context, message.tag, &message.bytes)
            {
                parts.push((name.owner, name.part(result, 0, usize::MAX / 2)));
            }
        }
        Ok(parts)
    }
}
