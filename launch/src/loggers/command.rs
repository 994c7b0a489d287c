//! The command line and environment of each event logger of a job.

use refrain_eventlog::Level;
use refrain_eventlog::remote::VERBS;
use refrain_job::JobError;
use refrain_job::choice::events::{CommitPathChoice, commit_path};
use refrain_job::choice::library::{LIBFABRIC, LIBIBVERBS};
use refrain_job::config::{JobConfig, VerbsConfig};
use std::ffi::OsString;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::path::Path;

/// One event logger of the job.
pub struct Logger<'a> {
    pub id: u32,
    /// Folder of its files.
    pub folder: &'a Path,
    /// Folder of its rings; `None`: the rings are with the files.
    pub rings: Option<&'a Path>,
    /// Address at which it listens for ranks of this host. `None`: ranks are on other hosts.
    pub address: Option<&'a str>,
    /// Address at which it listens for ranks of other hosts.
    pub port: Option<SocketAddr>,
    /// Addresses of the other replicas of its shard.
    pub peers: Vec<&'a str>,
}

impl Logger<'_> {
    /// The arguments of `refrain eventlogger`.
    pub fn arguments(&self, config: &JobConfig) -> Result<Vec<OsString>, JobError> {
        let level = Level::ALL
            .iter()
            .find(|(_, level)| *level == config.events.level);
        let mut arguments: Vec<OsString> = vec![
            "eventlogger".into(),
            self.folder.into(),
            "--continue".into(),
        ];
        let mut option = |name: &str, value: OsString| arguments.extend([name.into(), value]);
        if let Some(address) = self.address {
            option("--listen", address.into());
        }
        option("--logger", self.id.to_string().into());
        option("--level", level.map_or("placed", |(name, _)| name).into());
        if let Some(rings) = self.rings {
            option("--rings", rings.into());
        }
        if let Some(port) = self.port {
            option("--listen", format!("tcp:{port}").into());
            option("--secret", "-".into());
        }
        for peer in &self.peers {
            option("--peer", peer.into());
        }
        match commit_path(&config.events.way)? {
            CommitPathChoice::Provider(provider) if provider == VERBS => {
                option("--provider", provider.into());
                if let Some(library) = &config.verbs.library {
                    option(LIBIBVERBS.option, library.into());
                }
                port_options(&config.verbs, &mut option);
            }
            CommitPathChoice::Provider(provider) => {
                option("--provider", provider.into());
                if let Some(library) = &config.libfabric {
                    option(LIBFABRIC.option, library.into());
                }
            }
            CommitPathChoice::Auto | CommitPathChoice::Fixed(_) => {}
        }
        Ok(arguments)
    }
}

/// Options for the verbs port: the port that the ranks of the launcher's host use.
fn port_options(config: &VerbsConfig, option: &mut impl FnMut(&str, OsString)) {
    let number = |number: Option<u8>| number.map(|number| number.to_string());
    let all = [
        ("--verbs-device", config.device.clone()),
        ("--verbs-port", number(config.port)),
        ("--verbs-gid-index", number(config.gid_index)),
        ("--verbs-mtu", config.mtu_bytes.map(|mtu| mtu.to_string())),
    ];
    for (name, value) in all {
        if let Some(value) = value {
            option(name, value.into());
        }
    }
}

/// Chooses free ports: for each shard, the ports of its replicas. The launcher chooses, since a
/// restarted logger listens at the same port; if another process takes a port meanwhile, the
/// logger reports it and the job ends. Loggers listen at all addresses of this host: ranks get the
/// address by which their agent has reached it.
pub fn free_ports(shards: u32, replicas: u32) -> Result<Vec<Vec<SocketAddr>>, JobError> {
    let mut held = Vec::new();
    let mut choose = || -> io::Result<SocketAddr> {
        // The socket also accepts IPv4, on hosts that have IPv6.
        let both = TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0));
        let listener = both.or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)))?;
        let port = listener.local_addr()?;
        // The sockets stay open until all ports are chosen, so that no two ports are the same.
        held.push(listener);
        Ok(port)
    };
    let mut shard = || (0..replicas).map(|_| choose()).collect();
    let ports = (0..shards).map(|_| shard()).collect::<io::Result<_>>();
    ports.map_err(|error| JobError::control("choosing ports for event loggers", error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(config: &JobConfig) -> String {
        let logger = Logger {
            id: 3,
            folder: Path::new("/f/3"),
            rings: Some(Path::new("/dev/shm/r/3")),
            address: Some("unix:/f/3.sock"),
            port: Some((Ipv6Addr::UNSPECIFIED, 77).into()),
            peers: vec!["unix:/f/2.sock"],
        };
        let arguments = logger.arguments(config).expect("a way");
        let words: Vec<_> = arguments
            .iter()
            .map(|word| word.to_string_lossy())
            .collect();
        words.join(" ")
    }

    #[test]
    fn a_logger_that_offers_verbs_gets_the_port() {
        let mut config = JobConfig {
            libfabric: Some("/lib".into()),
            verbs: VerbsConfig {
                library: None,
                device: Some("mlx5_0".into()),
                port: Some(2),
                gid_index: Some(0),
                mtu_bytes: Some(4096),
            },
            ..JobConfig::default()
        };
        let always = "eventlogger /f/3 --continue --listen unix:/f/3.sock --logger 3 --level placed \
                      --rings /dev/shm/r/3 --listen tcp:[::]:77 --secret - --peer unix:/f/2.sock";
        assert_eq!(told(&config), always);
        config.events.way = "verbs".into();
        let port = "--verbs-device mlx5_0 --verbs-port 2 --verbs-gid-index 0 --verbs-mtu 4096";
        assert_eq!(told(&config), format!("{always} --provider verbs {port}"));
        config.verbs = VerbsConfig {
            library: Some("/v".into()),
            ..VerbsConfig::default()
        };
        let expected = format!("{always} --provider verbs --libibverbs /v");
        assert_eq!(told(&config), expected);
        config.events.way = "ofi:tcp".into();
        let expected = format!("{always} --provider tcp --libfabric /lib");
        assert_eq!(told(&config), expected);
    }
}
