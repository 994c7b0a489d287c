//! A rank's process on another host, as the launcher sees it.

use super::message::{Life, Recipient, ToAgent};
use crate::verdict::End;
use rustix::process::Signal;
use std::cell::RefCell;
use std::rc::Rc;

/// The unsent messages to one agent; all clones share them.
#[derive(Clone, Debug, Default)]
pub struct AgentHandle(Rc<RefCell<Vec<ToAgent>>>);

impl AgentHandle {
    /// Whether both handles are of the same agent.
    pub fn is(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }

    /// Adds a message.
    pub fn push(&self, message: ToAgent) {
        self.0.borrow_mut().push(message);
    }

    pub(super) fn take(&self) -> Vec<ToAgent> {
        self.0.take()
    }
}

/// The end of a life, as its agent reports it.
#[derive(Clone, Debug)]
pub struct RemoteEnd {
    /// How the started process ended.
    pub end: End,
    /// How the process behind a wrapper ended.
    pub true_end: End,
    /// Processes that do not end, for people; `None`: the agent has fenced the life. FENCE-1
    pub unfenced: Option<String>,
}

/// See the [module](self).
#[derive(Debug)]
pub struct FarProcess {
    agent: AgentHandle,
    /// Which life it is.
    pub life: Life,
    /// The process id on its host; 0 if it is not known yet.
    pub id: u32,
    /// The end of the life; `None`: it is not known to have ended.
    pub end: Option<RemoteEnd>,
}

impl FarProcess {
    /// Asks the agent to start a life.
    pub(super) fn start(agent: &AgentHandle, life: Life) -> Self {
        agent.push(ToAgent::Start(life));
        Self {
            agent: agent.clone(),
            life,
            id: 0,
            end: None,
        }
    }

    /// As [`RankProcess::signal`](crate::process::RankProcess::signal).
    pub fn signal(&self, recipient: Recipient, signal: Signal) {
        self.agent.push(ToAgent::Signal {
            life: self.life,
            recipient,
            signal: signal.as_raw(),
        });
    }

    /// As [`RankProcess::fence`](crate::process::RankProcess::fence).
    pub fn fence(&self) -> Result<(), String> {
        match &self.end {
            Some(end) => end.unfenced.clone().map_or(Ok(()), Err),
            None => Err("is not known to have ended".into()),
        }
    }
}
