//! The environment of a real server: epoll, files of rings, libfabric, threads that ask
//! other replicas.

use super::catch_up::CatchUps;
use super::host::{Fetched, Host, MadeRing, RankKey, Wanted};
use super::remote::Remote;
use super::ring_file;
use super::ring_name::RingName;
use super::socket::Socket;
use super::waits::{BELL, EDGE, Waits};
use crate::client::ServerAddress;
use crate::message::CommitPath;
use crate::remote::RingKey;
use crate::ring::{RingIdentity, RingMemory};
use core::fmt::{Debug, Display, Formatter};
use core::time::Duration;
use rustix::event::epoll::EventFlags;
use rustix::event::{EventfdFlags, eventfd};
use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

/// Resources of the ring of a connected writer.
pub(super) struct Tie {
    /// Signalled by the client. Never read: the client shares it and could make a read block;
    /// every signal is an edge.
    bell: OwnedFd,
    /// Set if its client writes by RMA.
    remote: Option<RingKey>,
}

/// See the [module](self).
pub(super) struct System {
    /// Folder of the rings.
    pub(super) folder: PathBuf,
    pub(super) peers: Vec<ServerAddress>,
    pub(super) report: Box<dyn FnMut(&str) + Send>,
    pub(super) remote: Remote,
    pub(super) waits: Waits,
    /// Signalled by threads of the server.
    pub(super) wake: Arc<OwnedFd>,
    pub(super) ties: HashMap<RankKey, Tie>,
    pub(super) catch_ups: CatchUps,
}

impl System {
    fn tie(
        &mut self,
        id: u64,
        memory: &RingMemory,
        way: CommitPath,
    ) -> Result<(Tie, MadeRing<[OwnedFd; 2]>), String> {
        let no_bell = |error: rustix::io::Errno| format!("no doorbell: {error}");
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(no_bell)?;
        self.waits.add(&bell, BELL | id, EDGE).map_err(no_bell)?;
        let mut made = MadeRing {
            memory: memory.clone(),
            handle: None,
            remote: None,
        };
        let mut tie = Tie { bell, remote: None };
        // Over libfabric the bell is not used: writes wake the server.
        if way == CommitPath::Libfabric {
            let (key, remote) = self
                .remote
                .register(&self.waits, memory, &mut self.report)?;
            tie.remote = Some(key);
            made.remote = Some(remote);
        }
        Ok((tie, made))
    }
}

impl Host for System {
    type Channel = Socket;
    type Handle = [OwnedFd; 2];
    type Fetch = Receiver<Fetched>;

    fn report(&mut self, text: &str) {
        (self.report)(text);
    }

    fn progress(&mut self) {
        self.remote.progress(&self.waits, &mut self.report);
    }

    fn sleep_max(&mut self) -> Option<Duration> {
        self.remote.sleep_max()
    }

    fn begin_listening(&mut self, socket: &mut Socket, id: u64) -> bool {
        let listened = self.waits.add(&socket.connection, id, EventFlags::empty());
        listened.is_ok()
    }

    fn set_listening(&mut self, socket: &mut Socket, id: u64, listens: bool) -> bool {
        use super::host::Channel;
        let mut wanted = EventFlags::empty();
        wanted.set(EventFlags::IN, listens);
        wanted.set(EventFlags::OUT, socket.unsent_bytes() > 0);
        if wanted == socket.interest {
            return true;
        }
        socket.interest = wanted;
        self.waits
            .set_interest(&socket.connection, id, wanted)
            .is_ok()
    }

    fn is_remote_offered(&self) -> bool {
        self.remote.is_offered()
    }

    fn make_ring(
        &mut self,
        id: u64,
        identity: &RingIdentity,
        way: CommitPath,
    ) -> Result<MadeRing<[OwnedFd; 2]>, String> {
        let no_ring =
            |error: &dyn Display| format!("no ring in {}: {error}", self.folder.display());
        let (file, memory) =
            ring_file::create(&self.folder, identity).map_err(|error| no_ring(&error))?;
        let tied = self.tie(id, &memory, way).and_then(|(tie, mut made)| {
            if way == CommitPath::SharedMemory {
                let theirs = tie.bell.try_clone().map_err(|error| error.to_string())?;
                made.handle = Some([file.into(), theirs]);
            }
            Ok((tie, made))
        });
        let (tie, made) = tied.inspect_err(|_| self.remove_ring(RingName::of(identity)))?;
        self.ties.insert((identity.job, identity.rank), tie);
        Ok(made)
    }

    fn release_ring(&mut self, key: RankKey) {
        let Some(tie) = self.ties.remove(&key) else {
            return;
        };
        // The client also holds the bell: closing it here would not remove it from epoll.
        let _ = self.waits.remove(&tie.bell);
        if let Some(key) = tie.remote {
            self.remote.revoke(&self.waits, key, &mut self.report);
        }
    }

    fn find_rings(&mut self) -> io::Result<Vec<RingName>> {
        ring_file::find(&self.folder)
    }

    fn open_ring(&mut self, name: RingName) -> io::Result<(RingMemory, RingIdentity)> {
        ring_file::open(&self.folder, name)
    }

    fn remove_ring(&mut self, name: RingName) {
        let _ = std::fs::remove_file(self.folder.join(name.to_string()));
    }

    fn set_aside(&mut self, name: RingName, why: &dyn Display) {
        let path = self.folder.join(name.to_string());
        let told = match ring_file::move_aside(&path) {
            Ok(aside) => format!(
                "the ring {} is damaged: {why}; what was placed there and not stored is lost \
                 here, the ring is kept as {}",
                path.display(),
                aside.display()
            ),
            Err(error) => format!(
                "the ring {} is damaged: {why}; it cannot be moved aside: {error}",
                path.display()
            ),
        };
        (self.report)(&told);
    }

    fn fetch(&mut self, wanted: Wanted) -> Result<Receiver<Fetched>, String> {
        let (peers, wake) = (self.peers.clone(), self.wake.clone());
        self.catch_ups.begin(wanted, peers, wake)
    }
}

impl Debug for System {
    fn fmt(&self, f: &mut Formatter<'_>) -> core::fmt::Result {
        let mut told = f.debug_struct("System");
        told.field("folder", &self.folder).finish_non_exhaustive()
    }
}
