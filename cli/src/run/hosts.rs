//! Where the ranks of a job run: this host, named hosts, or the nodes of a Slurm allocation.

use super::arguments::{Arguments, Launcher};
use miette::{IntoDiagnostic as _, miette};
use refrain_launch::{Allocation, HostsSpec};
use std::ffi::OsString;

/// The words of the remote shell command; empty: ssh.
fn ssh(given: Option<String>) -> Vec<OsString> {
    let given = given.or_else(|| std::env::var("REFRAIN_SSH").ok());
    let words = given.unwrap_or_default();
    words.split_ascii_whitespace().map(Into::into).collect()
}

/// The Slurm allocation whose nodes the job uses.
fn allocation(arguments: &Arguments) -> miette::Result<Option<Allocation>> {
    let placement = &arguments.placement;
    let are_named = arguments.host.is_some() || arguments.hostfile.is_some();
    match placement.launcher {
        Launcher::Local if are_named => Err(miette!(
            "--launcher local runs all ranks on this host: leave out --host and --hostfile"
        )),
        Launcher::Slurm if are_named => Err(miette!(
            "--launcher slurm takes the nodes of the allocation: choose nodes with -w of sbatch or salloc, and leave out --host and --hostfile"
        )),
        Launcher::Ssh if !are_named => Err(miette!(
            "--launcher ssh needs hosts: name them with --host or --hostfile"
        )),
        Launcher::Local | Launcher::Ssh => Ok(None),
        Launcher::Auto if are_named => Ok(None),
        Launcher::Auto | Launcher::Slurm => {
            let found = Allocation::find(|name| std::env::var(name).ok()).into_diagnostic()?;
            match (found, placement.launcher) {
                (None, Launcher::Slurm) => Err(miette!(
                    "--launcher slurm: there is no allocation (SLURM_JOB_ID and SLURM_JOB_NODELIST are not set): use sbatch or salloc"
                )),
                (found, _) => Ok(found),
            }
        }
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

/// Number of tasks of the allocation. `None`: the job uses none.
pub fn tasks(arguments: &Arguments) -> miette::Result<Option<u32>> {
    Ok(allocation(arguments)?.map(|allocation| allocation.tasks()))
}

/// The hosts of a job of `ranks` ranks.
pub fn hosts(arguments: &Arguments, ranks: u32) -> miette::Result<HostsSpec> {
    let placement = &arguments.placement;
    let named = arguments.host.as_ref().or(arguments.hostfile.as_ref());
    let allocation = allocation(arguments)?;
    if let Some(given) = &allocation
        && given.tasks() < ranks
    {
        return Err(miette!(
            "{ranks} ranks are asked for, and Slurm's job {} has {} nodes with {} tasks together: give sbatch or salloc a larger --ntasks, or a smaller -n here; --launcher local runs all on this host",
            given.job,
            given.nodes.len(),
            given.tasks()
        ));
    }
    Ok(HostsSpec {
        by_srun: allocation.is_some(),
        tasks: None,
        hosts: match allocation {
            Some(allocation) => allocation.nodes,
            None => named.map_or_else(Vec::new, |hosts| hosts.0.clone()),
        },
        ssh: ssh(placement.ssh.clone()),
        refrain: placement.remote_refrain.clone(),
    })
}
