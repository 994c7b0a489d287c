//! The agents with which a job begins: one on each host that has ranks.

use super::agent_process::check_setup;
use super::gathering::{Gathering, Placed};
use super::invitation::LOCAL_NAME;
use super::listing::{AgentStart, HostsSpec};
use super::message::{Setup, ToAgent};
use super::passing::Branches;
use super::tree::{FAN_OUT, Tree};
use super::{Host, Hosts};
use crate::error::LaunchError;
use crate::signals::Signals;
use refrain_job::JobError;
use std::time::Instant;

/// Starts an agent on each host that has ranks; `setup` is sent to each with its own ranks filled
/// in.
///
/// # Errors
/// [`JobError::Config`] and [`LaunchError::Program`] when a host cannot be reached or its agent
/// cannot start ranks, with the host; [`LaunchError::Interrupted`] when a signal that ends the job
/// has arrived. No process is left running then.
pub fn gather(
    spec: &HostsSpec,
    setup: Setup,
    signals: Option<&mut Signals>,
) -> Result<Hosts, LaunchError> {
    let wrong = |error: super::listing::NotAHost| JobError::Config(error.to_string());
    let place_of_rank = spec.place(setup.size).map_err(wrong)?;
    check_setup(&setup)?;
    // Loggers that are spread are on all hosts with ranks.
    let is_spread = setup.services.is_some() && spec.services == 0;
    let placed = |place| {
        let ranks = (0..setup.size).filter(|rank| place_of_rank[*rank as usize] == place);
        let ranks: Vec<u32> = ranks.collect();
        let is_for_services = place + spec.services >= spec.hosts.len();
        (is_for_services || !ranks.is_empty()).then_some(Placed {
            place,
            number: place as u32,
            ranks,
            is_for_services: is_for_services || is_spread,
        })
    };
    let placed: Vec<Placed> = (0..spec.hosts.len()).filter_map(placed).collect();
    let tree = Tree::of(placed.len() as u32, spec.fan_out.unwrap_or(FAN_OUT).max(1));
    let mut gathering = Gathering::start(spec, setup.clone(), placed, tree)?;
    if let AgentStart::Tasks(tasks) = &spec.start {
        gathering.publish(tasks)?;
    }
    gathering.wait(signals)?;
    let (mut hosts, callers) = gathering.finish()?;
    share_cores(&mut hosts);
    let mut of_rank = vec![0; setup.size as usize];
    for (index, host) in hosts.iter().enumerate() {
        for rank in &host.placed.ranks {
            of_rank[*rank as usize] = index;
        }
    }
    let mut spec = spec.clone();
    // These never get ranks.
    let mut lost_places: Vec<usize> =
        (spec.hosts.len() - spec.services..spec.hosts.len()).collect();
    if let AgentStart::Tasks(_) = spec.start {
        // A task becomes an agent once. Later agents can be started on this host only.
        spec.start = AgentStart::default();
        let is_far = |place: &usize| spec.hosts[*place].name != LOCAL_NAME;
        lost_places.extend((0..spec.hosts.len()).filter(is_far));
    }
    let mut hosts = Hosts {
        cut_off_looks: vec![0; hosts.len()],
        hosts,
        of_rank,
        spec,
        setup,
        next_look: Instant::now(),
        moves: Vec::new(),
        lost_places,
        branches: tree.map(|tree| Branches::new(tree, callers)),
        lost: Vec::new(),
    };
    // Frames of agents that have attached meanwhile come again.
    hosts.resume_all();
    Ok(hosts)
}

/// Agents on one machine (containers, network namespaces) do not see each other's ranks: each
/// agent is informed of the number of ranks that use the same cores. Lost hosts do not count.
pub(super) fn share_cores(hosts: &mut [Host]) {
    let cores: Vec<Vec<u32>> = hosts.iter().map(|host| host.config.cores.clone()).collect();
    let own = |host: &Host| match host.is_lost() {
        true => 0,
        false => host.placed.ranks.len(),
    };
    let own: Vec<usize> = hosts.iter().map(own).collect();
    let boots: Vec<u128> = hosts.iter().map(|host| host.boot).collect();
    for (number, host) in hosts.iter_mut().enumerate() {
        let shares = |other: &usize| {
            let meet = cores[*other]
                .iter()
                .any(|core| cores[number].contains(core));
            boots[*other] == boots[number] && (meet || *other == number)
        };
        let ranks: usize = (0..own.len()).filter(shares).map(|other| own[other]).sum();
        if ranks > own[number] {
            host.config.ranks_on_host = ranks as u32;
            host.agent.push(ToAgent::Unpin);
        }
    }
}
