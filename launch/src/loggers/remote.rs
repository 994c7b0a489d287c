//! Services on hosts of their own (`--service-nodes`), or on those of ranks: their agents start event loggers and checkpoint
//! servers, and the launcher decides which, restarts those that are killed, and tells ranks their
//! addresses.

use crate::hosts::far::AgentHandle;
use crate::hosts::message::{ServicesReady, ToAgent};
use refrain_checkpoint::ServerAddress;
use refrain_wire::Secret;
use rustix::process::Signal;
use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A killed service is restarted, unless this is its number of consecutive quick deaths.
const QUICK_DEATHS_MAX: u32 = 10;
/// A service that ends sooner after its start has died quickly.
const QUICK_DEATH: Duration = Duration::from_secs(1);

/// A host of services whose agent is ready.
#[derive(Clone, Debug)]
pub struct ServiceHost {
    /// Its index among the hosts of the job.
    pub host: usize,
    /// Its index in the list of hosts.
    pub place: usize,
    /// Its name, for people.
    pub name: String,
    /// Its agent.
    pub agent: AgentHandle,
    /// Its address, as the launcher's host reaches it.
    pub address: IpAddr,
    /// The launcher's address, as it reaches that.
    pub launcher: IpAddr,
    /// Folders and ports.
    pub ready: ServicesReady,
}

impl ServiceHost {
    /// The address of this host for a process that reaches the launcher at `launcher`. An agent on the
    /// launcher's host has come by the loopback.
    fn at(&self, launcher: IpAddr) -> IpAddr {
        match self.address.is_loopback() {
            true => launcher,
            false => self.address,
        }
    }
}

/// A service on such a host.
#[derive(Debug)]
pub struct RemoteService {
    pub on: ServiceHost,
    number: u32,
    port: SocketAddr,
    arguments: Vec<OsString>,
    secret: Secret,
    /// The folder of a logger before its first start; `true`: it is new. EL-3
    folder: Option<(PathBuf, bool)>,
    pub runs: bool,
}

impl RemoteService {
    /// A service with this number in the job that listens at one of the host's ports; it is not started yet.
    pub fn new(on: &ServiceHost, number: u32, port: SocketAddr, secret: &Secret) -> Self {
        Self {
            on: on.clone(),
            number,
            port,
            arguments: Vec::new(),
            secret: secret.clone(),
            folder: None,
            runs: false,
        }
    }

    /// Sets what is started; with the folder of a logger. `true`: the folder is new.
    pub fn prepare(&mut self, arguments: Vec<OsString>, folder: Option<(PathBuf, bool)>) {
        (self.arguments, self.folder) = (arguments, folder);
    }

    /// Asks the agent to start it.
    pub fn start(&mut self) {
        self.runs = true;
        self.on.agent.push(ToAgent::StartService {
            number: self.number,
            folder: self.folder.take(),
            arguments: self.arguments.clone(),
            secret: self.secret.to_text(),
        });
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        self.on.agent.push(ToAgent::SignalService {
            number: self.number,
            signal: signal.as_raw(),
        });
    }

    /// Where it listens, on its host.
    pub fn listens(&self) -> SocketAddr {
        self.port
    }

    /// Its address for the launcher.
    pub fn near(&self) -> SocketAddr {
        SocketAddr::new(self.on.address, self.port.port())
    }

    /// Its address for a process that reaches the launcher at `launcher`, without the secret.
    pub fn plain_address(&self, launcher: IpAddr) -> ServerAddress {
        let address = SocketAddr::new(self.on.at(launcher), self.port.port());
        ServerAddress::Tcp(address.to_string())
    }

    /// The same with the secret.
    pub fn address(&self, launcher: IpAddr) -> String {
        let address = self.plain_address(launcher);
        address.sealed(&self.secret).to_secret_text()
    }
}

/// Consecutive quick deaths of a service.
#[derive(Debug)]
pub struct Deaths {
    started: Instant,
    quick: u32,
}

impl Deaths {
    /// Of a service that is started now.
    pub fn none() -> Self {
        Self {
            started: Instant::now(),
            quick: 0,
        }
    }

    /// The service is started again.
    pub fn restart(&mut self) {
        self.started = Instant::now();
    }

    /// It has died. Whether it may be started again.
    pub fn count(&mut self) -> bool {
        self.quick = match self.started.elapsed() < QUICK_DEATH {
            true => self.quick + 1,
            false => 0,
        };
        self.quick < QUICK_DEATHS_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    #[test]
    fn ranks_reach_a_service_where_its_agent_came_from() {
        let launcher = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
        let secret = Secret::random().expect("of the system");
        let at = |address: IpAddr| {
            let on = ServiceHost {
                host: 3,
                place: 3,
                name: "c".into(),
                agent: AgentHandle::default(),
                address,
                launcher: address,
                ready: ServicesReady {
                    ports: Vec::new(),
                    events: PathBuf::new(),
                    rings: None,
                    checkpoints: None,
                },
            };
            let port = (Ipv6Addr::UNSPECIFIED, 77).into();
            let service = RemoteService::new(&on, 0, port, &secret);
            service.plain_address(launcher).to_string()
        };
        let far = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 9));
        assert_eq!(at(far), "tcp:10.0.0.9:77");
        assert_eq!(at(Ipv6Addr::LOCALHOST.into()), "tcp:10.0.0.1:77");
    }
}
