//! Where the ranks of a job run: this host, named hosts, or the nodes that Slurm, PBS or Flux has given.

use super::arguments::{Arguments, Launcher};
use miette::{IntoDiagnostic as _, miette};
use refrain_launch::{
    AgentStart, Allocation, HostSlots, HostsSpec, LOCAL_NAME, flux, read_hostfile, without_spares,
};
use std::ffi::OsString;
use std::time::Duration;

/// The words of the remote shell command; empty: ssh.
fn ssh(given: Option<String>) -> Vec<OsString> {
    let given = given.or_else(|| std::env::var("REFRAIN_SSH").ok());
    let words = given.unwrap_or_default();
    words.split_ascii_whitespace().map(Into::into).collect()
}

/// The nodes that Slurm, PBS or Flux has given to this job.
struct ManagedJob {
    /// The manager's name of the job, for people.
    name: String,
    nodes: Vec<HostSlots>,
    /// How agents are started; `None`: by ssh.
    start: Option<AgentStart>,
    /// What to do about too few tasks.
    remedy: &'static str,
}

impl ManagedJob {
    fn by_slurm() -> miette::Result<Option<Self>> {
        let found = Allocation::find(|name| std::env::var(name).ok()).into_diagnostic()?;
        Ok(found.map(|found| Self {
            name: format!("Slurm's job {}", found.job),
            nodes: found.nodes,
            start: Some(AgentStart::Srun),
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
            start: None,
            remedy: "give qsub more chunks or a larger mpiprocs",
        }))
    }

    /// A Flux instance. A job that runs in a part of an instance has a number in it, which the script of
    /// `flux batch` has not.
    fn by_flux() -> miette::Result<Option<Self>> {
        let is_set = |name| std::env::var_os(name).is_some();
        if !is_set("FLUX_URI") || is_set("FLUX_JOB_ID") {
            return Ok(None);
        }
        let [command, arguments @ ..] = &flux::RESOURCES;
        let shown = flux::RESOURCES.join(" ");
        let advice = "--launcher local runs all on this host";
        let output = std::process::Command::new(command).args(arguments).output();
        let output = output.map_err(|error| {
            miette!("FLUX_URI is set, and `{shown}` cannot be run: {error}: {advice}")
        })?;
        if !output.status.success() {
            return Err(miette!(
                "`{shown}` failed ({}): {}: {advice}",
                output.status,
                String::from_utf8_lossy(&output.stderr).trim()
            ));
        }
        let brokers = flux::brokers(&String::from_utf8_lossy(&output.stdout)).into_diagnostic()?;
        Ok(Some(Self {
            name: "the Flux instance".into(),
            start: Some(AgentStart::Flux(brokers.iter().map(|it| it.rank).collect())),
            nodes: brokers.into_iter().map(|it| it.host).collect(),
            remedy: "give flux batch or flux alloc more nodes or cores",
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
        Launcher::Flux if are_named => Err(miette!(
            "--launcher flux takes the nodes of the instance: leave out --host and --hostfile"
        )),
        Launcher::Ssh if !are_named => Err(miette!(
            "--launcher ssh needs hosts: name them with --host or --hostfile"
        )),
        Launcher::Local | Launcher::Ssh => Ok(None),
        Launcher::Auto if are_named => Ok(None),
        Launcher::Auto => match ManagedJob::by_slurm()? {
            Some(job) => Ok(Some(job)),
            // Also in a job of PBS: its nodes may have an instance.
            None => match ManagedJob::by_flux()? {
                Some(job) => Ok(Some(job)),
                None => ManagedJob::by_pbs(),
            },
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
        Launcher::Flux => ManagedJob::by_flux()?.map(Some).ok_or_else(|| {
            miette!(
                "--launcher flux: there is no instance of this job's own (FLUX_URI is not set, or FLUX_JOB_ID is): use flux batch or flux alloc"
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
    let (hosts, start) = match allocation {
        Some(job) => (job.nodes, job.start),
        None => (named.map_or_else(Vec::new, |hosts| hosts.0.clone()), None),
    };
    let lease = lease(arguments)?;
    if spares + services > 0 && hosts.is_empty() {
        let option = match spares {
            0 => format!("--service-nodes {services}"),
            _ => format!("--spare-nodes {spares}"),
        };
        return Err(miette!(
            "{option}: the job runs on this host alone: name hosts with --host or --hostfile, or use an allocation of Slurm, PBS or Flux"
        ));
    }
    Ok(HostsSpec {
        start: start.unwrap_or_else(|| AgentStart::Shell(ssh(placement.ssh.clone()))),
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
