//! The nodes of a Slurm allocation, from the variables that `salloc` and `sbatch` set. Pure.

use super::listing::{HostSlots, NotAHost};
use super::short_list::{LENGTH_MAX, expand};

/// The command that starts an agent in an allocation; the node's name and the agent's command are
/// appended. A step has one node, so that the loss of a node ends no other step. The invitation goes
/// over srun's standard input.
pub const SRUN: [&str; 11] = [
    "srun",
    "--overlap",
    "--no-kill",
    "--kill-on-bad-exit=0",
    "--wait=0",
    "--mpi=none",
    "--cpu-bind=none",
    "--ntasks-per-node=1",
    "-N1",
    "-n1",
    "-w",
];

/// What Slurm has given to this job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// Slurm's number of the job.
    pub job: String,
    /// The nodes, with their numbers of tasks.
    pub nodes: Vec<HostSlots>,
}

impl Allocation {
    /// The allocation of these environment variables; `None`: they have none.
    ///
    /// # Errors
    /// A variable cannot be understood, or srun has started several launchers.
    pub fn find(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Self>, NotAHost> {
        let (Some(job), Some(list)) = (variable("SLURM_JOB_ID"), variable("SLURM_JOB_NODELIST"))
        else {
            return Ok(None);
        };
        if let Some(tasks) = variable("SLURM_STEP_NUM_TASKS").filter(|tasks| tasks != "1") {
            return Err(NotAHost::new(format!(
                "srun has started {tasks} launchers (SLURM_STEP_NUM_TASKS): call refrain or mpiexec in the script of sbatch, or in salloc, without srun"
            )));
        }
        let wrong = |name: &str, value: &str| {
            NotAHost::new(format!(
                "{name}={value:?} cannot be understood: name the hosts with --host, or set --launcher local"
            ))
        };
        let names = expand(&list).ok_or_else(|| wrong("SLURM_JOB_NODELIST", &list))?;
        let tasks = variable("SLURM_TASKS_PER_NODE").unwrap_or_default();
        let slots = tasks_per_node(&tasks).filter(|slots| slots.len() == names.len());
        let slots = slots.ok_or_else(|| wrong("SLURM_TASKS_PER_NODE", &tasks))?;
        let host = |(name, slots)| HostSlots { name, slots };
        let nodes = names.into_iter().zip(slots).map(host).collect();
        Ok(Some(Self { job, nodes }))
    }
}

/// The numbers of a list such as `2(x3),1`.
fn tasks_per_node(list: &str) -> Option<Vec<u32>> {
    let mut all = Vec::new();
    for part in list.split(',') {
        let (tasks, times) = match part.strip_suffix(')') {
            Some(part) => part.split_once("(x")?,
            None => (part, "1"),
        };
        let tasks: u32 = tasks.parse().ok().filter(|tasks| *tasks > 0)?;
        let times: usize = times.parse().ok()?;
        if times > LENGTH_MAX - all.len() {
            return None;
        }
        all.extend(std::iter::repeat_n(tasks, times));
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn find(variables: &[(&str, &str)]) -> Result<Option<Allocation>, String> {
        let value = |name: &str| {
            let mut found = variables.iter().filter(|(known, _)| *known == name);
            found.next().map(|(_, value)| (*value).to_owned())
        };
        Allocation::find(value).map_err(|error| error.to_string())
    }

    #[test]
    fn an_allocation_has_nodes_with_their_tasks() {
        assert_eq!(find(&[("SLURM_JOB_ID", "7")]), Ok(None));
        let mut variables = vec![
            ("SLURM_JOB_ID", "7"),
            ("SLURM_JOB_NODELIST", "n[09-11],r1c[2-3]-ib,login"),
            ("SLURM_TASKS_PER_NODE", "2(x3),1,4(x2)"),
        ];
        let found = find(&variables).unwrap().unwrap();
        let nodes = found.nodes.iter().map(|it| (it.name.as_str(), it.slots));
        let expected = [
            ("n09", 2),
            ("n10", 2),
            ("n11", 2),
            ("r1c2-ib", 1),
            ("r1c3-ib", 4),
            ("login", 4),
        ];
        assert_eq!(nodes.collect::<Vec<_>>(), expected);
        assert_eq!(found.job, "7");
        variables.push(("SLURM_STEP_NUM_TASKS", "15"));
        let error = find(&variables).unwrap_err();
        assert!(error.contains("srun has started 15 launchers"), "{error}");
    }

    #[test]
    fn lists_that_are_wrong_are_refused_with_their_variable() {
        let with = |nodes, tasks| {
            find(&[
                ("SLURM_JOB_ID", "7"),
                ("SLURM_JOB_NODELIST", nodes),
                ("SLURM_TASKS_PER_NODE", tasks),
            ])
        };
        let long = format!("a[{}1]", "0".repeat(100_000));
        for nodes in [
            "",
            "a[",
            "a[1",
            "a[1-]",
            "a[x]",
            "a]",
            "a,,b",
            "-a",
            "a[+1]",
            "a;b",
            "a[0-99999999]",
            &long,
        ] {
            let error = with(nodes, "1").unwrap_err();
            assert!(error.contains("SLURM_JOB_NODELIST"), "{nodes}: {error}");
        }
        for tasks in ["", "0", "1,1,1", "1(x2", "1(3)", "x", "1(x4000000000)"] {
            let error = with("a,b", tasks).unwrap_err();
            assert!(error.contains("SLURM_TASKS_PER_NODE"), "{tasks}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[a1\\[\\],(x)-]{0,20}") {
            let _ = tasks_per_node(&text);
        }
    }
}
