//! What ranks ask of the launcher over their control sockets.

use super::Job;
use super::board::Entry;
use super::verdict::Membership;
use crate::control::message::{ToLauncher, ToRank};
use crate::output_gate::{self, OutputGate};
use std::os::fd::OwnedFd;
use std::sync::Arc;

impl Job {
    /// Hears all that `rank` has said, and answers.
    pub(super) fn hear(&mut self, rank: usize) {
        loop {
            match self.ranks[rank].link.receive() {
                Ok(Some((message, memory))) => self.request(rank, message, memory),
                Ok(None) => return,
                Err(error) => {
                    self.ranks[rank].link.close();
                    return self.fail(1, format!("rank {rank} cannot be understood: {error}"));
                }
            }
        }
    }

    fn request(&mut self, rank: usize, message: ToLauncher, memory: Option<OwnedFd>) {
        if !self.is_running() {
            // It has been told to stop, which is the answer to everything.
            return self.note_leaving(rank, &message);
        }
        if let Err(wrong) = self
            .check_turn(rank, &message)
            .and_then(|()| self.serve_request(rank, message, memory))
        {
            self.fail(1, format!("rank {rank} {wrong}"));
        }
    }

    fn note_leaving(&mut self, rank: usize, message: &ToLauncher) {
        if *message == ToLauncher::Finalize {
            self.ranks[rank].membership = Membership::Left;
        }
    }

    /// Refuses what cannot be said now.
    fn check_turn(&self, rank: usize, message: &ToLauncher) -> Result<(), String> {
        match (message, self.ranks[rank].membership) {
            (ToLauncher::Hello { .. }, Membership::Stranger) => Ok(()),
            (ToLauncher::Hello { process }, _) => Err(format!(
                "joined the job a second time (process {process}): a wrapper may start one program that joins, once"
            )),
            (_, Membership::Stranger) => Err("speaks before it has joined the job".into()),
            (ToLauncher::Abort { .. }, _) | (_, Membership::Member) => Ok(()),
            (_, Membership::Left) => Err("speaks after it has left the job".into()),
        }
    }

    fn serve_request(
        &mut self,
        rank: usize,
        message: ToLauncher,
        memory: Option<OwnedFd>,
    ) -> Result<(), String> {
        match message {
            ToLauncher::Hello { process } => {
                self.ranks[rank].join(process);
                self.answer(rank, &self.welcome(rank), None)
            }
            ToLauncher::Put {
                key, memory: true, ..
            } if key == output_gate::key(rank as u32) => {
                let file = memory.ok_or("sent no page with its key")?;
                let gate = OutputGate::open(&file)
                    .map_err(|error| format!("has a page that cannot be used: {error}"))?;
                self.ranks[rank].gate = Some(gate);
                Ok(())
            }
            ToLauncher::Put { key, value, .. } => {
                let memory = memory.map(Arc::new);
                let waiters = self.board.put(&key, Entry { value, memory });
                waiters
                    .into_iter()
                    .try_for_each(|waiter| self.answer_value(waiter, &key))
            }
            ToLauncher::Get { key } => match self.board.get(rank, &key)?.is_some() {
                true => self.answer_value(rank, &key),
                false => Ok(()),
            },
            ToLauncher::Fence { generation } => match self.board.fence(rank, generation)? {
                Some(generation) => (0..self.ranks.len()).try_for_each(|rank| {
                    self.answer(rank, &ToRank::FenceDone { generation }, None)
                }),
                None => Ok(()),
            },
            ToLauncher::Statistics { figures } => {
                self.statistics.resize(self.ranks.len(), None);
                self.statistics[rank] = Some(*figures);
                Ok(())
            }
            ToLauncher::Finalize => {
                self.ranks[rank].membership = Membership::Left;
                Ok(())
            }
            ToLauncher::Abort { message } => {
                self.abort(rank, &message);
                Ok(())
            }
        }
    }

    fn welcome(&self, rank: usize) -> ToRank {
        ToRank::Welcome {
            job: self.id,
            rank: rank as u32,
            size: self.ranks.len() as u32,
            incarnation: 0, // until recovery exists
            config: Box::new(self.config.clone()),
        }
    }

    fn answer_value(&mut self, rank: usize, key: &str) -> Result<(), String> {
        let Some(Entry { value, memory }) = self.board.entry(key).cloned() else {
            return Ok(());
        };
        let answer = ToRank::Value {
            key: key.to_owned(),
            value,
            memory: memory.is_some(),
        };
        self.answer(rank, &answer, memory)
    }

    fn answer(
        &mut self,
        rank: usize,
        answer: &ToRank,
        memory: Option<Arc<OwnedFd>>,
    ) -> Result<(), String> {
        self.ranks[rank]
            .link
            .send(answer, memory)
            .map_err(|error| format!("cannot be answered: {error}"))
    }
}
