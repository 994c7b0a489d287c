//! Results of neighbours that arrive when the call of their collective is over. WHOLE-2

use super::leaving::Leaving;
use super::whole::{Name, Taking, Whole};
use super::{Collective, CollectiveError, UnderWay};
use refrain_transport::engine::Engine;
use refrain_transport::protocol::Protocol;

/// Most collectives of which a rank waits for neighbours' results; then its calls wait.
const SHARING_MAX: usize = 64;

/// A collective whose call is over at this rank. It is finished once the results of
/// neighbours are kept: a rank that only gives to others, as in a reduction, does not wait for them.
#[derive(Debug)]
pub(super) struct Sharing {
    pub context: u32,
    pub name: Name,
    pub number: i32,
    result_bytes: u64,
    pub taking: Option<Box<Taking>>,
    leaving: Box<Leaving>,
}

impl Sharing {
    /// The rest of a collective whose call is over, if neighbours' results are to arrive.
    pub fn of(ended: &mut Collective) -> Option<Self> {
        let leaving = ended.leaving.take_if(|it| !it.incoming.is_empty());
        let (leaving, name) = leaving.zip(ended.name)?;
        Some(Self {
            context: ended.plan.context,
            name,
            number: ended.number,
            result_bytes: ended.plan.result_bytes(),
            taking: ended.taking.take(),
            leaving,
        })
    }

    /// Keeps what has arrived. Returns whether that is all.
    fn keeps_all(
        &mut self,
        whole: &mut Whole,
        engine: &mut Engine<impl Protocol>,
    ) -> Result<bool, CollectiveError> {
        let leaving = &mut self.leaving;
        while let Some(first) = leaving.incoming.front()
            && engine.end_step(first.request).is_some()
            && let Some(first) = leaving.incoming.pop_front()
        {
            leaving.keep_own(Some(first.owner), first.bytes);
        }
        let is_kept = leaving.keep((self.context, self.name), whole, engine)?;
        Ok(is_kept && leaving.incoming.is_empty())
    }

    /// Ends the steps if all results were given to this rank. WHOLE-5
    pub fn take_results_if_whole(&mut self, whole: &Whole, engine: &mut Engine<impl Protocol>) {
        let has_all = (self.taking.as_ref()).is_some_and(|taking| taking.is_whole());
        let ends = has_all && whole.is_closed((self.context, self.name));
        let mut steps = self.leaving.requests();
        if !ends || steps.any(|step| engine.is_landing(*step)) {
            return;
        }
        drop(steps);
        let results = self.taking.take().into_iter();
        for (owner, result) in results.flat_map(|taking| taking.into_results()) {
            let mut incoming = self.leaving.incoming.iter();
            let Some(at) = incoming.position(|it| Some(it.owner) == owner) else {
                continue;
            };
            if let Some(incoming) = self.leaving.incoming.remove(at) {
                engine.drop_step(incoming.request);
                self.leaving.keep_own(owner, result);
            }
        }
    }
}

impl UnderWay {
    /// Whether results of neighbours are still to be kept: a checkpoint waits for them, and a rank
    /// that leaves.
    pub fn is_sharing(&self) -> bool {
        !self.sharing.is_empty()
    }

    /// Whether calls have to wait for neighbours' results.
    pub(super) fn shares_most(&self) -> bool {
        self.sharing.len() >= SHARING_MAX
    }

    /// Keeps results of neighbours that have arrived. They come in order, as a rule: all are looked
    /// at now and then.
    pub(super) fn share<P: Protocol>(
        &mut self,
        engine: &mut Engine<P>,
    ) -> Result<(), CollectiveError> {
        let Some(whole) = &mut self.whole else {
            return Ok(());
        };
        let looks_at_all = whole.has_waited();
        let mut index = 0;
        while let Some(sharing) = self.sharing.get_mut(index) {
            if sharing.keeps_all(whole, engine)? {
                whole.finish(
                    (sharing.context, sharing.name),
                    sharing.result_bytes,
                    engine,
                );
                self.sharing.remove(index);
            } else if looks_at_all {
                index += 1;
            } else {
                break;
            }
        }
        Ok(())
    }
}
