//! Jobs as users start them: `refrain` and its programs as processes.
//!
//! One binary: it links once.

mod agent_tree;
mod behind;
mod checkpointd;
mod command_line;
mod dead_rank;
mod doctor;
mod embedded;
mod eventlogger;
mod events;
mod experiments;
mod family;
mod gated_output;
mod hosts;
mod hosts_files;
mod hosts_signals;
mod job_dir;
mod launched;
mod libfabric;
mod log;
mod lost_events;
mod lost_hosts;
mod many_ranks;
mod monitor;
mod mpiexec;
mod output;
mod processes;
mod restarts;
mod rings;
mod same_memory;
mod scripted;
mod service_nodes;
mod spill;
mod spread_loggers;
mod ssh;
mod standard_input;
mod survival;
mod two_hosts;
mod verbs;
mod workloads;
