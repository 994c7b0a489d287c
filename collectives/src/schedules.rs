//! The schedules of calls: chosen and made once for calls that are made again and again.

use crate::algorithms::Algorithm;
use crate::blocks::Blocks;
use crate::call::{Arguments, Call, Results};
use crate::choice::Table;
use crate::hosts::Hosts;
use crate::schedule::{Buffer, Schedule};
use crate::wrong_call::WrongCall;
use std::sync::Arc;

/// The schedule of a call, and what it needs.
#[derive(Debug)]
pub struct Chosen {
    /// The algorithm that wrote it.
    pub algorithm: Algorithm,
    /// The steps.
    pub schedule: Schedule,
    /// Elements that the input must have.
    pub input_elements: u64,
    /// Elements that the output must have.
    pub output_elements: u64,
    /// What stands for the messages.
    pub results: Option<Results>,
}

/// Makes schedules by a table of choice, and keeps the last ones. The result is that of the table,
/// whatever is kept. COLL-1
#[derive(Debug, Default)]
pub struct Schedules {
    table: Table,
    /// By call, those that were used last more or less in front.
    kept: Vec<Kept>,
    /// Of the last call with lists.
    listed: Option<Arc<Chosen>>,
}

/// What was chosen for a call without lists.
#[derive(Debug)]
struct Kept {
    /// Without its hosts.
    call: Call<'static>,
    hosts: Box<[u32]>,
    chosen: Arc<Chosen>,
}

/// Schedules that are kept: a broadcast has one for each root.
const KEPT_MAX: usize = 16;

impl Schedules {
    /// Schedules by `table`.
    pub fn new(table: Table) -> Self {
        Self {
            table,
            kept: Vec::new(),
            listed: None,
        }
    }

    /// The schedule of `call`.
    ///
    /// # Errors
    /// [`WrongCall`], as far as this place sees it.
    #[inline]
    pub fn of(&mut self, call: &Call) -> Result<&Arc<Chosen>, WrongCall> {
        let index = self.kept.iter().position(|kept| kept.is_of(call));
        let Some(index) = index else {
            return self.make(call);
        };
        let before = index.saturating_sub(1);
        if index != before {
            self.kept.swap(index, before);
        }
        Ok(&self.kept[before].chosen)
    }

    #[cold]
    fn make(&mut self, call: &Call) -> Result<&Arc<Chosen>, WrongCall> {
        call.check()?;
        let algorithm = self.table.choose(call);
        let mut schedule = Schedule::default();
        self.table.schedule(algorithm, call, &mut schedule);
        let chosen = Arc::new(Chosen {
            algorithm,
            input_elements: schedule.extent(Buffer::Input),
            output_elements: schedule.extent(Buffer::Output),
            results: algorithm.results(call),
            schedule,
        });
        let hosts = call.hosts.starts().into();
        let Some(call) = without_lists(call) else {
            return Ok(self.listed.insert(chosen));
        };
        self.kept.truncate(KEPT_MAX - 1);
        self.kept.push(Kept {
            call,
            hosts,
            chosen,
        });
        let last = self.kept.last().map(|kept| &kept.chosen);
        Ok(last.expect("it was just added"))
    }
}

impl Kept {
    fn is_of(&self, call: &Call) -> bool {
        self.call.group == call.group
            && self.call.arguments == call.arguments
            && (self.call.in_place, self.call.element_bytes) == (call.in_place, call.element_bytes)
            && *self.hosts == *call.hosts.starts()
    }
}

/// The call, if its arguments have no lists.
fn without_lists(call: &Call) -> Option<Call<'static>> {
    let own = |blocks: Blocks| match blocks {
        Blocks::Even(count) => Some(Blocks::Even(count)),
        Blocks::Split { total, parts } => Some(Blocks::Split { total, parts }),
        Blocks::Listed { .. } => None,
    };
    let arguments = match call.arguments {
        Arguments::Barrier => Arguments::Barrier,
        Arguments::Bcast { root, count } => Arguments::Bcast { root, count },
        Arguments::Gather {
            root,
            count,
            blocks,
        } => Arguments::Gather {
            root,
            count,
            blocks: own(blocks)?,
        },
        Arguments::Scatter {
            root,
            count,
            blocks,
        } => Arguments::Scatter {
            root,
            count,
            blocks: own(blocks)?,
        },
        Arguments::Allgather { blocks } => Arguments::Allgather {
            blocks: own(blocks)?,
        },
        Arguments::Alltoall { send, receive } => Arguments::Alltoall {
            send: own(send)?,
            receive: own(receive)?,
        },
        Arguments::Reduce { root, count } => Arguments::Reduce { root, count },
        Arguments::Allreduce { count, commutative } => Arguments::Allreduce { count, commutative },
        Arguments::ReduceScatter { blocks } => Arguments::ReduceScatter {
            blocks: own(blocks)?,
        },
        Arguments::Scan { count, prefix } => Arguments::Scan { count, prefix },
        Arguments::NeighbourAllgather { .. } | Arguments::NeighbourAlltoall { .. } => return None,
    };
    Some(Call {
        group: call.group,
        hosts: Hosts::APART,
        arguments,
        in_place: call.in_place,
        element_bytes: call.element_bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::Group;

    fn call(root: u32, count: u64) -> Call<'static> {
        Call {
            group: Group { size: 40, me: 3 },
            hosts: Hosts::APART,
            arguments: Arguments::Bcast { root, count },
            in_place: false,
            element_bytes: 8,
        }
    }

    // COLL-1
    #[test]
    fn what_is_kept_changes_no_schedule() {
        let mut schedules = Schedules::default();
        for round in 0..3 {
            for root in 0..40 {
                for count in [1, 1 << 20] {
                    let call = call(root, count + round);
                    let chosen = schedules.of(&call).expect("a call that can be done");
                    let chosen = Arc::clone(chosen);
                    let mut anew = Schedules::default();
                    let anew = anew.of(&call).expect("likewise");
                    assert_eq!(chosen.schedule, anew.schedule);
                    assert_eq!(chosen.output_elements, count + round);
                    let again = schedules.of(&call).expect("likewise");
                    assert!(Arc::ptr_eq(&chosen, again), "it is kept");
                }
            }
        }
        assert_eq!(schedules.kept.len(), KEPT_MAX);
    }

    #[test]
    fn a_wrong_call_is_found_each_time() {
        let mut schedules = Schedules::default();
        for _ in 0..2 {
            assert!(schedules.of(&call(40, 1)).is_err());
        }
    }
}
