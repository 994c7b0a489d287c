//! Hosts for the tests: a script in place of ssh; each "host" is this one.

#![allow(dead_code, reason = "each test file uses a part")]

use crate::launched::{Process, job};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

/// A folder with a script `ssh`, which gets a host's name and the command.
pub struct Hosts {
    folder: tempfile::TempDir,
}

impl Hosts {
    /// Creates the folder; `script` runs with the host in `$host` and the command in the
    /// arguments.
    pub fn with(script: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let text = format!(
            "#!/bin/bash\ncd {}\nhost=$1; shift\n{script}\n",
            folder.path().display()
        );
        fs::write(folder.path().join("ssh"), text).unwrap();
        let hosts = Self { folder };
        fs::set_permissions(hosts.file("ssh"), fs::Permissions::from_mode(0o700)).unwrap();
        hosts
    }

    /// Runs the command here.
    pub fn new() -> Self {
        Self::with(r#"echo $$ >"agent-$host"; exec "$@""#)
    }

    /// A file in the folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The content of a file in the folder.
    pub fn text(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap()
    }

    /// `refrain run` of the test program over hosts.
    pub fn job(&self, options: &str, steps: &str) -> Command {
        let ssh = self.file("ssh");
        job(&format!("--ssh {} {options}", ssh.display()), steps)
    }

    /// The agent on a host, after its ranks have printed.
    pub fn agent(&self, host: &str) -> Process {
        Process::of(self.text(&format!("agent-{host}")).trim().parse().unwrap())
    }
}
