//! Collects the state of earlier lives for a later life: their events from the loggers or other ranks, and their
//! messages from the memory and files that they left. REC-2, REC-8

use super::Membership;
use super::events::{Connected, Earlier};
use crate::Error;
use refrain_job::config::JobConfig;
use refrain_job::control::{ControlPlane, News};
use refrain_job::stderr::report;
use refrain_logging::LeftInLogs;
use refrain_logging::determinant::recorded::recorded_events;
use refrain_logging::determinant::row::determinants;
use refrain_rank::dead_rank::{add_carried, open_log};
use refrain_rank::previous_logs::PreviousLogs;
use refrain_ring::Clock;
use refrain_ring::recorded::RecordedEvents;
use refrain_transport::recorded::PreviousSends;
use std::path::Path;

/// A life that connects to where its events become stable, and a later one that collects.
#[derive(Clone, Copy)]
pub(super) struct Collecting<'a> {
    pub(super) config: &'a JobConfig,
    pub(super) membership: &'a Membership,
    /// The clock of the checkpoint with which the life begins.
    pub(super) after: Option<Clock>,
}

impl Collecting<'_> {
    /// All events after the checkpoint, in order, or an error. REC-2, EL-5
    pub(super) fn records(&self, connected: &Connected) -> Result<RecordedEvents, Error> {
        let (rank, job) = (self.membership.rank, self.membership.job);
        let broken = |error: &dyn core::fmt::Display| {
            Error::Config(format!(
                "rank {rank} cannot replay, its events cannot be read: {error}"
            ))
        };
        let Earlier { logged, held } = &connected.earlier;
        let held = held.iter().map(Vec::as_slice);
        let batches = logged.whole_batches().chain(held);
        let events = determinants(rank, job, batches, self.after);
        let events = events.map_err(|error| broken(&error))?;
        recorded_events(&events).map_err(|error| broken(&error))
    }

    /// The messages of earlier lives that still exist. Messages that cannot be read are not
    /// compared, and are sent as this life makes them.
    pub(super) fn sends(
        &self,
        control: &mut ControlPlane,
    ) -> Option<Box<dyn PreviousSends + Send>> {
        // They arrived directly after the welcome, before any other news.
        let is_remains = |news: &News| matches!(news, News::Remains { .. });
        let mut sends = PreviousLogs::new(self.membership.job, self.membership.rank);
        while let Some(News::Remains {
            incarnation,
            memory,
        }) = control.next_news_if(is_remains)
        {
            let folder = self.config.spill_dir.as_ref().map(Path::new);
            match open_log(memory, folder, None) {
                Ok(image) => sends.add_life(image, incarnation),
                Err(error) => {
                    let rank = self.membership.rank;
                    report(format_args!(
                        "rank {rank}: what its life {incarnation} sent is not compared: {error}"
                    ));
                }
            }
        }
        (!sends.is_empty()).then(|| -> Box<dyn PreviousSends + Send> { Box::new(sends) })
    }
}

/// The events that earlier lives of this rank had carried to others, from the logs that they left: what
/// is there may have left the rank, and the program has to do it again. CAUSAL-4
pub(super) fn carried_events(control: &ControlPlane, config: &JobConfig) -> Result<Vec<u8>, Error> {
    let rank = control.rank();
    let mut events = LeftInLogs::default();
    for (incarnation, memory) in control.all_remains()? {
        let broken = |error: &dyn core::fmt::Display| {
            Error::Config(format!(
                "rank {rank} cannot replay, the log of its life {incarnation} cannot be read: {error}"
            ))
        };
        let folder = config.spill_dir.as_ref().map(Path::new);
        let image = open_log(memory, folder, None).map_err(|error| broken(&error))?;
        add_carried(&image, &mut events).map_err(|error| broken(&error))?;
    }
    Ok(events.answer())
}
