//! A rank's process on another host, as the launcher has it.

use super::message::{ToAgent, Whom};
use crate::link::Link;
use crate::memory::Memory;
use crate::output::Output;
use crate::process::RankProcess;
use crate::verdict::End;
use refrain_job::control::message::ToRank;
use rustix::process::Signal;
use std::cell::RefCell;
use std::rc::Rc;

/// What is to be said to one agent, by all that have something to say.
#[derive(Clone, Debug, Default)]
pub struct Arm(Rc<RefCell<Vec<ToAgent>>>);

impl Arm {
    /// Whether both lead to one agent.
    pub fn is(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }

    pub(super) fn push(&self, message: ToAgent) {
        self.0.borrow_mut().push(message);
    }

    pub(super) fn take(&self) -> Vec<ToAgent> {
        self.0.take()
    }

    /// A message for this life (rank, incarnation); memory that is on its host goes
    /// with it.
    pub fn say(&self, life: (u32, u32), message: &ToRank, memory: Option<&Memory>) {
        self.push(ToAgent::Say {
            life,
            message: Box::new(message.clone()),
            memory: memory.and_then(|memory| memory.number_at(self)),
        });
    }

    /// Nobody needs this memory any more.
    pub fn let_go(&self, number: u64) {
        self.push(ToAgent::LetGo { number });
    }
}

/// Tells the agent to start a life.
pub(super) fn start(arm: &Arm, life: (u32, u32), outputs: Vec<Output>) -> RankProcess {
    arm.push(ToAgent::Start { life });
    let process = FarProcess {
        arm: arm.clone(),
        life,
        id: 0,
        told: None,
    };
    RankProcess::far(process, Link::far(arm.clone(), life), outputs)
}

/// The end of a life, as its agent tells it.
#[derive(Clone, Debug)]
struct Told {
    end: End,
    true_end: End,
    /// What does not end. FENCE-1
    unfenced: Option<String>,
}

/// See the [module](self).
#[derive(Debug)]
pub struct FarProcess {
    arm: Arm,
    /// The rank, and which life of it.
    life: (u32, u32),
    id: u32,
    told: Option<Told>,
}

impl FarProcess {
    /// Which life it is.
    pub fn life(&self) -> (u32, u32) {
        self.life
    }

    /// The process id on its host; 0: not known yet.
    pub fn id(&self) -> u32 {
        self.id
    }

    pub(super) fn started(&mut self, id: u32) {
        self.id = id;
    }

    /// The agent says that it has ended, seen from outside and behind a wrapper, and
    /// what of it does not end.
    pub(super) fn ended(&mut self, end: End, true_end: End, unfenced: Option<String>) {
        let told = Told {
            end,
            true_end,
            unfenced,
        };
        self.told.get_or_insert(told);
    }

    /// How it ended, if it has.
    pub fn end(&self) -> Option<End> {
        self.told.as_ref().map(|told| told.end)
    }

    /// How it ended behind a wrapper.
    pub fn true_end(&self, end: End) -> End {
        self.told.as_ref().map_or(end, |told| told.true_end)
    }

    fn send(&self, whom: Whom, signal: Signal) {
        self.arm.push(ToAgent::Signal {
            life: self.life,
            whom,
            signal: signal.as_raw(),
        });
    }

    /// As [`RankProcess::signal_own`].
    pub fn signal_own(&self, signal: Signal) {
        self.send(Whom::Own, signal);
    }

    /// As [`RankProcess::signal`].
    pub fn signal(&self, signal: Signal) {
        self.send(Whom::Group, signal);
    }

    /// As [`RankProcess::kill_group`].
    pub fn kill_group(&self) {
        self.send(Whom::Rest, Signal::KILL);
    }

    /// The agent has fenced a life that was killed before it said that it has
    /// ended. FENCE-1
    ///
    /// # Errors
    /// It could not, or has not said so.
    pub fn fence(&self) -> Result<(), String> {
        match &self.told {
            Some(told) => told.unfenced.clone().map_or(Ok(()), Err),
            None => Err("is not known to have ended".into()),
        }
    }
}
