//! The hosts of a job: `--host a,b:4`, `--hostfile FILE`, and which rank runs where.
//! Pure.
//!
//! A line of a hostfile, as in Open MPI: `NAME [slots=N]`; a `#` begins a comment.

use crate::size::count;
use refrain_pmi::Server;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use thiserror::Error;

/// A host, and its number of ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostSlots {
    /// Name for ssh; `localhost` is this host, without ssh.
    pub name: String,
    /// Maximum number of ranks on the host; at least 1.
    pub slots: u32,
}

/// The server of tasks that another launcher has started.
pub type Tasks = Arc<Mutex<Server>>;

/// How the agents of a job are started. The agent on `localhost` is a child of the launcher, except
/// with srun and flux.
#[derive(Clone, Debug)]
pub enum AgentStart {
    /// By this remote shell command; host name and command are appended. Empty:
    /// `ssh -oBatchMode=yes`.
    Shell(Vec<OsString>),
    /// By srun, in this job's Slurm allocation.
    Srun,
    /// By `flux exec`, in this job's Flux instance: the rank of the broker on each host.
    Flux(Vec<u32>),
    /// Another launcher has started a task on each host. The number of the task is that of the
    /// host's first rank.
    Tasks(Tasks),
}

impl Default for AgentStart {
    fn default() -> Self {
        Self::Shell(Vec::new())
    }
}

/// Placement of the ranks of a job.
#[derive(Clone, Debug, Default)]
pub struct HostsSpec {
    /// Hosts in the order in which ranks are placed. Empty: this host alone, without agents.
    pub hosts: Vec<HostSlots>,
    /// How agents are started.
    pub start: AgentStart,
    /// Path of `refrain` on the hosts. `None`: the path on this host.
    pub refrain: Option<PathBuf>,
    /// Number of hosts at the end of the list that get no ranks at the start. They take the ranks of
    /// lost hosts.
    pub spares: usize,
    /// Number of hosts behind these that get event loggers and checkpoint servers, and no ranks.
    pub services: usize,
    /// Time without an answer after which a host counts as lost, if ranks may be restarted.
    pub lease: Option<Duration>,
    /// Number of agents that are connected with the launcher, and with each agent. `None`: the default.
    pub fan_out: Option<u32>,
}

impl HostsSpec {
    /// The default of [`lease`](Self::lease).
    pub const LEASE: Duration = Duration::from_secs(15);

    /// The host of each rank at the start.
    ///
    /// # Errors
    /// The hosts have too few slots, or all are spare.
    pub fn place(&self, ranks: u32) -> Result<Vec<usize>, NotAHost> {
        place(
            ranks,
            without_spares(&self.hosts, self.spares, self.services)?,
        )
    }
}

/// The hosts that get ranks at the start.
///
/// # Errors
/// No host is left, or one is listed for two uses.
pub fn without_spares(
    hosts: &[HostSlots],
    spares: usize,
    services: usize,
) -> Result<&[HostSlots], NotAHost> {
    let options = match (spares, services) {
        (_, 0) => format!("--spare-nodes {spares}"),
        (0, _) => format!("--service-nodes {services}"),
        _ => format!("--spare-nodes {spares} and --service-nodes {services}"),
    };
    let kept = spares.saturating_add(services);
    let begun = hosts.len().checked_sub(kept).filter(|left| *left > 0);
    let begun = begun.ok_or_else(|| {
        let of_services = if services > 0 { " and service" } else { "" };
        NotAHost(format!(
            "{options}: the job has {}: it needs more hosts than spare{of_services} ones",
            count(hosts.len() as u64, "host")
        ))
    })?;
    let is_again = |at: &usize| {
        let is_in = |part: &[HostSlots]| part.iter().any(|it| it.name == hosts[*at].name);
        is_in(&hosts[..begun]) || *at >= begun + spares && is_in(&hosts[begun..begun + spares])
    };
    match (begun..hosts.len()).find(is_again) {
        Some(both) => Err(NotAHost(format!(
            "{options}: host {} is listed twice, for different uses: list it once",
            hosts[both].name
        ))),
        None => Ok(&hosts[..begun]),
    }
}

/// Why hosts cannot be used, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct NotAHost(String);

impl NotAHost {
    pub(super) fn new(why: String) -> Self {
        Self(why)
    }
}

/// The hosts of `--host`.
///
/// # Errors
/// The invalid entry, and the reason.
pub fn parse_hosts(text: &str) -> Result<Vec<HostSlots>, NotAHost> {
    let entry = |entry: &str| {
        let (name, slots) = name_and_slots(entry);
        let form = "use NAME or NAME:SLOTS, separated by commas";
        host(name, slots).map_err(|why| NotAHost(format!("--host: {entry:?}: {why}: {form}")))
    };
    text.split(',').map(entry).collect()
}

/// IPv6 addresses contain colons: their slots follow the bracket.
fn name_and_slots(entry: &str) -> (&str, Option<&str>) {
    match entry.rsplit_once(':') {
        Some((name, slots)) if !name.contains(':') || name.ends_with(']') => (name, Some(slots)),
        _ => (entry, None),
    }
}

/// The hosts of a file.
///
/// # Errors
/// The file, the line, and what is wrong there.
pub fn read_hostfile(path: &Path) -> Result<Vec<HostSlots>, NotAHost> {
    let file = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| NotAHost(format!("--hostfile {file}: {error}")))?;
    let hosts = parse_hostfile(&text).map_err(|(line, why)| {
        NotAHost(format!("{file}:{line}: {why}: use NAME or NAME slots=N"))
    })?;
    match hosts.is_empty() {
        true => Err(NotAHost(format!("--hostfile {file}: names no host"))),
        false => Ok(hosts),
    }
}

fn parse_hostfile(text: &str) -> Result<Vec<HostSlots>, (usize, String)> {
    let mut hosts = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let entry = line.split('#').next().unwrap_or_default();
        let mut words = entry.split_ascii_whitespace();
        let Some(name) = words.next() else { continue };
        let mut slots = None;
        for word in words {
            let value = word.strip_prefix("slots=");
            let value = value.ok_or_else(|| (number, format!("{word:?} is unknown")))?;
            if slots.replace(value).is_some() {
                return Err((number, "slots= is given twice".into()));
            }
        }
        hosts.push(host(name, slots).map_err(|why| (number, why))?);
    }
    Ok(hosts)
}

fn host(name: &str, slots: Option<&str>) -> Result<HostSlots, String> {
    let is_word = |letter: char| letter.is_ascii_alphanumeric() || "-._@:%".contains(letter);
    let known = as_ssh_has_it(name);
    if known.is_empty() || known.starts_with('-') || !known.chars().all(is_word) {
        return Err(format!("{name:?} is not a host name"));
    }
    let slots = match slots {
        None => 1,
        Some(text) => match text.parse() {
            Ok(slots @ 1..) => slots,
            _ => return Err(format!("{text:?} is not a number of slots (1 or more)")),
        },
    };
    Ok(HostSlots { name: known, slots })
}

/// The name without brackets, as ssh takes it: `user@[fe80::1]` becomes `user@fe80::1`.
fn as_ssh_has_it(name: &str) -> String {
    match name.strip_suffix(']').and_then(|it| it.split_once('[')) {
        Some((user, address)) if user.is_empty() || user.ends_with('@') => {
            format!("{user}{address}")
        }
        _ => name.into(),
    }
}

/// The host of each rank: slot by slot, in the order of the list. A host that is listed again is
/// the same host as the first of its name.
///
/// # Errors
/// The hosts have too few slots.
fn place(ranks: u32, hosts: &[HostSlots]) -> Result<Vec<usize>, NotAHost> {
    let first = |name: &str| hosts.iter().position(|host| host.name == name);
    let slots = hosts.iter().flat_map(|host| {
        let index = first(&host.name).into_iter();
        index.flat_map(|index| (0..host.slots).map(move |_| index))
    });
    let placed: Vec<usize> = slots.take(ranks as usize).collect();
    if placed.len() == ranks as usize {
        return Ok(placed);
    }
    let slots = hosts.iter().map(|host| u64::from(host.slots)).sum();
    Err(NotAHost(format!(
        "{} do not fit on {} with {}: name more hosts, or more slots",
        count(u64::from(ranks), "rank"),
        count(hosts.len() as u64, "host"),
        count(slots, "slot")
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(name: &str, slots: u32) -> HostSlots {
        HostSlots {
            name: name.into(),
            slots,
        }
    }

    #[test]
    fn lists_and_files_name_hosts_and_slots() {
        let listed = parse_hosts("a,user@b.c:4,a:2").unwrap();
        assert_eq!(listed, [on("a", 1), on("user@b.c", 4), on("a", 2)]);
        let text = "# ours\n\na slots=2 # fast\n  b\nc\tslots=1\n";
        let read = parse_hostfile(text).unwrap();
        assert_eq!(read, [on("a", 2), on("b", 1), on("c", 1)]);
    }

    #[test]
    fn addresses_have_colons_of_their_own() {
        let listed = parse_hosts("fe80::1%eth0,[fe80::2]:4,me@[::1]:2,[fe80::3],10.0.0.1:3");
        let expected = [
            on("fe80::1%eth0", 1),
            on("fe80::2", 4),
            on("me@::1", 2),
            on("fe80::3", 1),
            on("10.0.0.1", 3),
        ];
        assert_eq!(listed.unwrap(), expected);
        let read = parse_hostfile("fe80::1 slots=2\n[fe80::1]").unwrap();
        assert_eq!(read, [on("fe80::1", 2), on("fe80::1", 1)], "one host");
    }

    #[test]
    fn errors_name_their_place() {
        for (text, words) in [
            ("", "\"\" is not a host name"),
            ("a,,b", "\"\" is not a host name"),
            ("a:0", "not a number of slots"),
            ("a:x", "not a number of slots"),
            ("-oProxyCommand=x", "not a host name"),
            ("a;reboot", "not a host name"),
            ("[fe80::1", "not a host name"),
            ("[]:2", "not a host name"),
            ("a[fe80::1]", "not a host name"),
            ("[fe80::1]:x", "not a number of slots"),
        ] {
            let error = parse_hosts(text).unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hosts");
        let refusal = |text: &str| {
            std::fs::write(&path, text).unwrap();
            read_hostfile(&path).unwrap_err().to_string()
        };
        assert!(refusal("a\nb slot=2\n").contains("hosts:2: \"slot=2\" is unknown"));
        assert!(refusal("a slots=\n").contains("hosts:1: \"\" is not a number"));
        assert!(refusal("a slots=1 slots=2").contains("twice"));
        assert!(refusal("# no host\n").contains("names no host"));
        let absent = read_hostfile(&folder.path().join("absent")).unwrap_err();
        assert!(absent.to_string().contains("absent"), "{absent}");
    }

    #[test]
    fn spare_hosts_get_no_ranks() {
        let spec = |hosts: &[HostSlots], spares| HostsSpec {
            hosts: hosts.to_vec(),
            spares,
            ..HostsSpec::default()
        };
        let hosts = [on("a", 1), on("b", 2), on("c", 1)];
        assert_eq!(spec(&hosts, 1).place(3).unwrap(), [0, 1, 1]);
        let refused = |spec: HostsSpec, ranks, words: &str| {
            let error = spec.place(ranks).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        };
        refused(spec(&hosts, 1), 4, "4 ranks do not fit on 2 hosts");
        refused(spec(&hosts, 3), 1, "the job has 3 hosts");
        refused(spec(&hosts, 4), 1, "--spare-nodes 4");
        let with_services = |spares, services| HostsSpec {
            services,
            ..spec(&hosts, spares)
        };
        assert_eq!(with_services(1, 1).place(1).unwrap(), [0]);
        refused(with_services(1, 1), 2, "2 ranks do not fit on 1 host");
        refused(with_services(0, 3), 1, "--service-nodes 3: the job has 3");
        refused(
            with_services(1, 2),
            1,
            "--spare-nodes 1 and --service-nodes 2",
        );
        refused(with_services(1, usize::MAX), 1, "the job has 3 hosts");
        let twice = [on("a", 1), on("b", 1), on("a", 1)];
        refused(spec(&twice, 1), 1, "host a is listed");
    }

    #[test]
    fn ranks_take_slots_in_order() {
        let hosts = [on("a", 2), on("b", 1), on("a", 1)];
        assert_eq!(place(4, &hosts).unwrap(), [0, 0, 1, 0]);
        assert_eq!(place(1, &hosts).unwrap(), [0]);
        let error = place(5, &hosts).unwrap_err().to_string();
        assert!(error.contains("5 ranks do not fit on 3 hosts with 4 slots"));
    }
}
