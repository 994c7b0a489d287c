//! Processes that the kernel has killed for lack of memory, as counted by the control group
//! of this process. The kernel does not say which process has sent a SIGKILL: this count is
//! the only hint.

use std::fs;
use std::path::{Path, PathBuf};

/// What was counted when the job began.
#[derive(Debug)]
pub struct OutOfMemory {
    /// `None`: there is no such group (version 2), or no limit of memory in it.
    events: Option<PathBuf>,
    before: u64,
}

impl OutOfMemory {
    /// From now on.
    pub fn new() -> Self {
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        Self::counted_in(events_of(&groups))
    }

    fn counted_in(events: Option<PathBuf>) -> Self {
        let before = events.as_deref().and_then(kills).unwrap_or(0);
        Self { events, before }
    }

    /// A hint for a SIGKILL; `None`: the kernel has killed no process of the group.
    pub fn hint(&self) -> Option<String> {
        let since = kills(self.events.as_deref()?)?.saturating_sub(self.before);
        (since > 0).then(|| {
            format!(
                "the kernel killed {since} process(es) of the job's control group for lack of memory: raise the group's memory limit, or lower --log-memory"
            )
        })
    }
}

/// The file of the group that a process is in.
fn events_of(groups: &str) -> Option<PathBuf> {
    let path = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let file = Path::new("/sys/fs/cgroup").join(path).join("memory.events");
    file.is_file().then_some(file)
}

fn kills(events: &Path) -> Option<u64> {
    let text = fs::read_to_string(events).ok()?;
    let count = text
        .lines()
        .find_map(|line| line.strip_prefix("oom_kill "))?;
    count.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_group_has_counted_since_is_a_hint() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("memory.events");
        fs::write(&file, "low 0\noom 3\noom_kill 2\noom_group_kill 0\n").unwrap();
        let counted = OutOfMemory::counted_in(Some(file.clone()));
        assert_eq!(counted.hint(), None);
        fs::write(&file, "low 0\noom 3\noom_kill 3\n").unwrap();
        assert!(counted.hint().unwrap().contains("killed 1 process(es)"));
        assert_eq!(OutOfMemory::counted_in(None).hint(), None);
        assert_eq!(events_of("1:cpu:/x\n0::/no/such/group\n"), None);
    }
}
