//! Starts the agent of one host, by srun, `flux exec`, ssh or the command of `--ssh`; checks that the setup of
//! the job fits a message.

use super::flux::EXEC;
use super::invitation::{Invitation, LOCAL_NAME};
use super::listing::{AgentStart, HostsSpec};
use super::message::{AGENT, Setup, ToAgent};
use super::slurm::SRUN;
use crate::error::LaunchError;
use crate::program;
use crate::service_process::ServiceProcess;
use crate::verdict::End;
use bytes::BytesMut;
use refrain_job::JobError;
use refrain_wire::FrameError;
use std::ffi::{OsStr, OsString};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Instant;

/// Default remote shell command.
const SSH: [&str; 2] = ["ssh", "-oBatchMode=yes"];

/// The process that has started the agent of a host: ssh, or the agent itself.
#[derive(Debug)]
pub struct AgentProcess {
    /// The started process. The agent ends when its stdin is closed. `None`: another launcher has
    /// started the agent.
    process: Option<ServiceProcess>,
    /// Its end was handled.
    pub(super) has_ended: bool,
    /// The remote shell command with the host's name; `None`: the agent is on this host.
    remote_shell: Option<String>,
}

impl AgentProcess {
    /// Starts the agent on one host.
    ///
    /// # Errors
    /// [`LaunchError::Program`] if ssh is missing here, [`JobError::Control`] of the system.
    pub(super) fn start(
        spec: &HostsSpec,
        name: &str,
        invitation: &Invitation,
    ) -> Result<Self, LaunchError> {
        let refrain = match &spec.refrain {
            Some(path) => path.clone(),
            None => program::refrain("an agent on each host")?,
        };
        let of = |command: &[&str]| command.iter().map(OsString::from).collect();
        let remote_shell: Option<Vec<OsString>> = match &spec.start {
            AgentStart::Srun => Some(of(&SRUN)),
            AgentStart::Flux(_) => Some(of(&EXEC)),
            _ if name == LOCAL_NAME => None,
            AgentStart::Shell(words) if words.is_empty() => Some(of(&SSH)),
            AgentStart::Shell(words) => Some(words.clone()),
            AgentStart::Tasks(_) => {
                return Ok(Self {
                    process: None,
                    has_ended: false,
                    remote_shell: None,
                });
            }
        };
        let remote_shell = remote_shell.map(|mut words| {
            words.push(match &spec.start {
                AgentStart::Flux(brokers) => {
                    let mut of_hosts = spec.hosts.iter().zip(brokers);
                    let broker = of_hosts.find(|(host, _)| host.name == name);
                    broker.map_or(name.into(), |(_, rank)| rank.to_string().into())
                }
                _ => name.into(),
            });
            words
        });
        let (command, arguments) = match &remote_shell {
            None => (refrain, vec!["agent".into()]),
            Some(words) => {
                let mut words = words.iter().cloned();
                // ssh passes the command to a shell, the others do not.
                let refrain = match &spec.start {
                    AgentStart::Shell(_) => quoted(&refrain),
                    _ => refrain.into_os_string(),
                };
                let command = PathBuf::from(words.next().unwrap_or_default());
                let rest = words.chain([refrain, "agent".into()]);
                (program::resolve(&command)?, rest.collect())
            }
        };
        let line = invitation.to_line();
        let process = ServiceProcess::start(&command, &arguments, &[], Some(&line));
        Ok(Self {
            process: Some(process.map_err(|error| {
                JobError::control(format!("starting an agent on {name}"), error)
            })?),
            has_ended: false,
            remote_shell: remote_shell
                .map(|words| words.join(OsStr::new(" ")).to_string_lossy().into_owned()),
        })
    }

    /// Readable when the process has ended. `None`: there is none, or its end was handled.
    pub(super) fn end_descriptor(&self) -> Option<BorrowedFd<'_>> {
        let process = self.process.as_ref().filter(|_| !self.has_ended);
        process.map(ServiceProcess::end_descriptor)
    }

    /// How the process has ended; `None`: it runs, or there is none.
    pub(super) fn status(&mut self) -> Option<ExitStatus> {
        self.process.as_mut()?.status()
    }

    /// Closes the agent's stdin.
    pub(super) fn close_stdin(&mut self) {
        if let Some(process) = &mut self.process {
            process.close_stdin();
        }
    }

    /// Waits for the end of the process until `give_up_at`, then kills it.
    pub(super) fn end(&mut self, give_up_at: Instant) {
        if let Some(process) = &mut self.process {
            process.end(give_up_at);
        }
    }

    /// The error for a process that has ended before the agent was ready.
    pub(super) fn gone(&self, name: &str, end: End) -> LaunchError {
        let advice = match (&self.remote_shell, end) {
            (Some(command), End::Exited(255)) => {
                format!("the host is unreachable or refuses the login: try `{command} true`")
            }
            (Some(_), End::Exited(126 | 127)) => {
                "refrain is missing at this path: install it there, or set --remote-refrain"
                    .to_owned()
            }
            _ => "see its output".to_owned(),
        };
        JobError::Config(format!(
            "host {name}: the remote shell command {end} before the agent was ready: {advice}"
        ))
        .into()
    }
}

/// Checks that the setup fits a message.
///
/// # Errors
/// [`JobError::Config`]: the reason why not, and what to do.
pub(super) fn check_setup(setup: &Setup) -> Result<(), JobError> {
    let ranks = (0..setup.size).collect();
    let setup = ToAgent::Setup(Box::new(Setup {
        ranks,
        ..setup.clone()
    }));
    let why = match AGENT.encode(&setup, &mut BytesMut::new()) {
        Ok(()) => return Ok(()),
        Err(FrameError::Unencodable) => {
            "a path of the program, its folder or the settings is not UTF-8 and cannot be sent to other hosts: rename it".to_owned()
        }
        Err(error) => format!(
            "the program's arguments and environment are too long for other hosts: {error}: put them into a file"
        ),
    };
    Err(JobError::Config(why))
}

/// Quotes a path: ssh passes the command to a shell.
pub(super) fn quoted(path: &Path) -> OsString {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-+".contains(byte);
    let bytes = path.as_os_str().as_bytes();
    if bytes.iter().all(is_plain) {
        return path.into();
    }
    // Bytes, not text: a path need not be UTF-8.
    let parts: Vec<&[u8]> = bytes.split(|byte| *byte == b'\'').collect();
    let quoted = parts.join(&br"'\''"[..]);
    OsString::from_vec([b"'", &quoted[..], b"'"].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Program;
    use std::process::Command;

    /// The shell on the other host sees exactly these bytes.
    #[test]
    fn a_shell_reads_a_quoted_path_as_it_is() {
        let paths: [&[u8]; 7] = [
            b"/usr/bin/refrain",
            b"/a b/refrain",
            b"/it's/'twice'/refrain",
            b"/$HOME/`x`/refrain;exit 3",
            b"/line\nbreak/refrain",
            b"/latin1-\xe9 ;exit 3",
            b"~/refrain",
        ];
        for path in paths {
            let path = PathBuf::from(OsString::from_vec(path.to_vec()));
            let mut script = OsString::from("printf %s ");
            script.push(quoted(&path));
            let said = Command::new("sh").arg("-c").arg(script).output();
            let said = said.expect("there is a shell");
            assert!(said.status.success(), "{path:?}");
            assert_eq!(OsString::from_vec(said.stdout), path.as_os_str());
        }
    }

    /// A setup that does not fit a message is refused before any host is contacted.
    #[test]
    fn a_setup_that_fits_no_message_is_refused_with_the_remedy() {
        let setup = |argument_bytes| Setup {
            job: 1,
            size: 100_000,
            ranks: Vec::new(),
            programs: vec![Program {
                path: "/bin/true".into(),
                arguments: vec!["x".repeat(argument_bytes).into()],
                ranks: 100_000,
                ..Program::default()
            }],
            environment: Vec::new(),
            folder: None,
            pin: false,
            lease: None,
            branch: None,
            services: None,
            config: Box::default(),
        };
        check_setup(&setup(100_000)).expect("it fits");
        let error = check_setup(&setup(2 << 20)).expect_err("it is too long");
        assert!(error.to_string().contains("into a file"), "{error}");
        let latin = OsString::from_vec(b"/home/andr\xe9".to_vec());
        let no_text = Setup {
            folder: Some(latin.clone().into()),
            ..setup(1)
        };
        let error = check_setup(&no_text).expect_err("it is not UTF-8");
        assert!(error.to_string().contains("rename it"), "{error}");
        // Arguments need not be UTF-8.
        let mut arguments = setup(1);
        arguments.programs[0].arguments = vec![latin];
        check_setup(&arguments).expect("bytes can be sent");
    }
}
