//! An engine that moves bytes by plain calls in a thread, where io_uring is not allowed.

use crate::directory::File;
use crate::engine::{Ended, Engine, Memory, Stage, Transfer};
use nix::sys::signal::{SigSet, SigmaskHow};
use rustix::event::{EventfdFlags, eventfd};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// Runs `act` with all signals blocked in this thread. A thread that `act` starts inherits the
/// mask: no signal handler of the program ever runs in it.
///
/// # Errors
/// Errors of the system.
pub fn with_signals_blocked<T>(act: impl FnOnce() -> T) -> io::Result<T> {
    let former = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
    let done = act();
    former.thread_set_mask()?;
    Ok(done)
}

/// The engine; its thread ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Threaded<M> {
    /// `Some` until the engine is dropped.
    begun: Option<Sender<Transfer<M>>>,
    ended: Receiver<Ended<M>>,
    bell: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
    under_way: usize,
    under_way_max: usize,
    /// Memory of transfers that the thread did not take.
    refused: Vec<M>,
    reason: Option<String>,
}

impl<M: Memory + Send> Threaded<M> {
    /// `reason`: why io_uring is not used, if it was wanted.
    pub fn start(under_way_max: usize, reason: Option<String>) -> io::Result<Self> {
        let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let (begun, to_do) = channel::<Transfer<M>>();
        let (report, ended) = channel();
        let ring = bell.clone();
        let body = move || {
            for transfer in to_do {
                transfer.carry_out(File::transfer, |ended| {
                    // The receiver is gone only while the engine is dropped.
                    let _ = report.send(ended);
                    let _ = rustix::io::write(&ring, &1_u64.to_ne_bytes());
                });
            }
        };
        let builder = std::thread::Builder::new().name("refrain-disk".into());
        Ok(Self {
            thread: Some(with_signals_blocked(|| builder.spawn(body))??),
            begun: Some(begun),
            ended,
            bell,
            under_way: 0,
            under_way_max,
            refused: Vec::new(),
            reason,
        })
    }

    fn take(&mut self, news: Ended<M>, ended: &mut Vec<Ended<M>>) {
        self.under_way -= usize::from(matches!(news, Ended::Done { .. }));
        ended.push(news);
    }
}

fn gone() -> io::Error {
    io::Error::other("the thread that writes files is gone")
}

impl<M: Memory + fmt::Debug + Send> Engine<M> for Threaded<M> {
    fn room(&self) -> usize {
        self.under_way_max.saturating_sub(self.under_way)
    }

    fn begin(&mut self, transfer: Transfer<M>) {
        self.under_way += 1;
        if let Some(begun) = &self.begun
            && let Err(unsent) = begun.send(transfer)
        {
            self.refused.push(unsent.0.memory);
        }
    }

    fn collect(&mut self, wait: bool, ended: &mut Vec<Ended<M>>) -> io::Result<()> {
        // Clear the eventfd before looking, so that no signal is lost.
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
        let before = ended.len();
        while let Ok(news) = self.ended.try_recv() {
            self.take(news, ended);
        }
        while let Some(memory) = self.refused.pop() {
            let result = Err((Stage::Transfer, gone()));
            self.take(Ended::Done { memory, result }, ended);
        }
        if wait && ended.len() == before && self.under_way > 0 {
            let news = self.ended.recv().map_err(|_| gone())?;
            self.take(news, ended);
        }
        Ok(())
    }

    fn under_way(&self) -> usize {
        self.under_way
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.bell.as_fd())
    }

    fn name(&self) -> String {
        match &self.reason {
            Some(reason) => format!("plain writes in a thread ({reason})"),
            None => "plain writes in a thread".into(),
        }
    }
}

impl<M> Drop for Threaded<M> {
    fn drop(&mut self) {
        self.begun = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
