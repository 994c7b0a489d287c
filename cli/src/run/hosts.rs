//! Where the ranks of a job run: this host, named hosts, or the nodes that Slurm or PBS has given.

use super::arguments::{Arguments, Launcher};
use miette::{IntoDiagnostic as _, miette};
use refrain_launch::{
    AgentStart, Allocation, HostSlots, HostsSpec, LOCAL_NAME, read_hostfile, without_spares,
};
use std::ffi::OsString;
use std::time::Duration;

/// The words of the remote shell command; empty: ssh.
fn ssh(given: Option<String>) -> Vec<OsString> {
    let given = given.or_else(|| std::env::var("REFRAIN_SSH").ok());
    let words = given.unwrap_or_default();
    words.split_ascii_whitespace().map(Into::into).collect()
}

/// The nodes that Slurm or PBS has given to this job.
struct ManagedJob {
    /// The manager's name of the job, for people.
    name: String,
    nodes: Vec<HostSlots>,
    /// Agents are started by srun, else by ssh.
    is_by_srun: bool,
    /// What to do about too few tasks.
    remedy: &'static str,
}

impl ManagedJob {
    fn by_slurm() -> miette::Result<Option<Self>> {
        let found = Allocation::find(|name| std::env::var(name).ok()).into_diagnostic()?;
        Ok(found.map(|found| Self {
            name: format!("Slurm's job {}", found.job),
            nodes: found.nodes,
            is_by_srun: true,
            remedy: "give sbatch or salloc a larger --ntasks",
        }))
    }

    /// A job of PBS (OpenPBS, Torque): its file has a line for each task. This host needs no ssh.
    fn by_pbs() -> miette::Result<Option<Self>> {
        let (Ok(job), Some(file)) = (std::env::var("PBS_JOBID"), std::env::var_os("PBS_NODEFILE"))
        else {
            return Ok(None);
        };
        let mut nodes: Vec<HostSlots> = Vec::new();
        let nodename = rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .into_owned();
        for mut line in read_hostfile(file.as_ref()).into_diagnostic()? {
            if without_domain(&line.name) == without_domain(&nodename) {
                line.name = LOCAL_NAME.into();
            }
            match nodes.iter_mut().find(|node| node.name == line.name) {
                Some(node) => node.slots += line.slots,
                None => nodes.push(line),
            }
        }
        Ok(Some(Self {
            name: format!("the job {job} of PBS"),
            nodes,
            is_by_srun: false,
            remedy: "give qsub more chunks or a larger mpiprocs",
        }))
    }
}

fn without_domain(host: &str) -> &str {
    host.split('.').next().unwrap_or(host)
}

/// The allocation whose nodes the job uses.
fn allocation(arguments: &Arguments) -> miette::Result<Option<ManagedJob>> {
    let launcher = arguments.placement.launcher;
    let are_named = arguments.host.is_some() || arguments.hostfile.is_some();
    match launcher {
        Launcher::Local if are_named => Err(miette!(
            "--launcher local runs all ranks on this host: leave out --host and --hostfile"
        )),
        Launcher::Slurm if are_named => Err(miette!(
            "--launcher slurm takes the nodes of the allocation: choose nodes with -w of sbatch or salloc, and leave out --host and --hostfile"
        )),
        Launcher::Pbs if are_named => Err(miette!(
            "--launcher pbs takes the nodes of the job: choose them with -l of qsub, and leave out --host and --hostfile"
        )),
        Launcher::Ssh if !are_named => Err(miette!(
            "--launcher ssh needs hosts: name them with --host or --hostfile"
        )),
        Launcher::Local | Launcher::Ssh => Ok(None),
        Launcher::Auto if are_named => Ok(None),
        Launcher::Auto => match ManagedJob::by_slurm()? {
            Some(job) => Ok(Some(job)),
            None => ManagedJob::by_pbs(),
        },
        Launcher::Slurm => ManagedJob::by_slurm()?.map(Some).ok_or_else(|| {
            miette!(
                "--launcher slurm: there is no allocation (SLURM_JOB_ID and SLURM_JOB_NODELIST are not set): use sbatch or salloc"
            )
        }),
        Launcher::Pbs => ManagedJob::by_pbs()?.map(Some).ok_or_else(|| {
            miette!(
                "--launcher pbs: there is no job (PBS_JOBID and PBS_NODEFILE are not set): use qsub"
            )
        }),
    }
}

/// Number of ranks of a job of one program.
pub fn ranks(arguments: &Arguments) -> miette::Result<u32> {
    match arguments.ranks {
        Some(ranks) => Ok(ranks),
        None => {
            tasks(arguments)?.ok_or_else(|| miette!("the number of ranks is missing: give -n N"))
        }
    }
}

fn slots(hosts: &[HostSlots]) -> u32 {
    let slots = hosts.iter().map(|host| host.slots);
    slots.fold(0, u32::saturating_add)
}

/// Number of tasks on the nodes of the allocation that are not spare. `None`: the job uses none.
pub fn tasks(arguments: &Arguments) -> miette::Result<Option<u32>> {
    let Some(allocation) = allocation(arguments)? else {
        return Ok(None);
    };
    let placement = &arguments.placement;
    let (spares, services) = (placement.spare_nodes, placement.service_nodes);
    let nodes = without_spares(&allocation.nodes, spares, services).into_diagnostic()?;
    Ok(Some(slots(nodes)))
}

/// The hosts of a job of `ranks` ranks.
pub fn hosts(arguments: &Arguments, ranks: u32) -> miette::Result<HostsSpec> {
    let placement = &arguments.placement;
    let named = arguments.host.as_ref().or(arguments.hostfile.as_ref());
    let allocation = allocation(arguments)?;
    let (spares, services) = (placement.spare_nodes, placement.service_nodes);
    if let Some(job) = &allocation {
        let nodes = without_spares(&job.nodes, spares, services).into_diagnostic()?;
        let tasks = slots(nodes);
        if tasks < ranks {
            let mut beside = match spares {
                0 => String::new(),
                spares => format!(" beside {spares} spare ones"),
            };
            if services > 0 {
                beside += &format!(" beside {services} service nodes");
            }
            return Err(miette!(
                "{ranks} ranks are asked for, and {} has {} nodes with {tasks} tasks together{beside}: {}, or a smaller -n here; --launcher local runs all on this host",
                job.name,
                nodes.len(),
                job.remedy,
            ));
        }
    }
    let (hosts, is_by_srun) = match allocation {
        Some(job) => (job.nodes, job.is_by_srun),
        None => (named.map_or_else(Vec::new, |hosts| hosts.0.clone()), false),
    };
    let lease = lease(arguments)?;
    if spares + services > 0 && hosts.is_empty() {
        let option = match spares {
            0 => format!("--service-nodes {services}"),
            _ => format!("--spare-nodes {spares}"),
        };
        return Err(miette!(
            "{option}: the job runs on this host alone: name hosts with --host or --hostfile, or use an allocation of Slurm or PBS"
        ));
    }
    Ok(HostsSpec {
        start: match is_by_srun {
            true => AgentStart::Srun,
            false => AgentStart::Shell(ssh(placement.ssh.clone())),
        },
        hosts,
        spares,
        services,
        lease,
        fan_out: Some(placement.fan_out),
        refrain: placement.remote_refrain.clone(),
    })
}

/// The time for which a host may be silent.
pub fn lease(arguments: &Arguments) -> miette::Result<Option<Duration>> {
    match arguments.placement.host_lease {
        Some(lease @ ..1000) => Err(miette!(
            "--host-lease {}: ranks would be stopped by every delay: use 1 or more",
            lease as f64 / 1000.0
        )),
        lease => Ok(lease.map(Duration::from_millis)),
    }
}
