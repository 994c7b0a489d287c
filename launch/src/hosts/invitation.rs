//! The line with the launcher's addresses and the secret for an agent. It is sent over ssh's
//! standard input, or as a value that only the tasks of the job can read: neither a command line
//! nor an environment shows it.
//!
//! `refrain-agent VERSION JOB HOST SECRET PORT ADDRESS,…`

use super::listing::Tasks;
use refrain_job::JobError;
use refrain_job::control::message::CONTROL_VERSION;
use refrain_pmi::{PmiError, Server, VALUE_BYTES_MAX};
use refrain_wire::Secret;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::PoisonError;
use thiserror::Error;

const NAME: &str = "refrain-agent";
/// Maximum length of the line in bytes.
pub const LINE_BYTES_MAX: u64 = 16 << 10;
/// Maximum number of addresses: a host of many containers may have hundreds, most of them
/// unreachable.
const ADDRESSES_MAX: usize = 64;

/// Key of the line among the values of tasks.
pub const KEY: &str = "refrain-invitation";
/// Its value when no job could be started.
const NO_JOB: &str = "none";
/// Stands for a blank there.
const BLANK: char = '/';

/// Name of this host, which needs no ssh.
pub const LOCAL_NAME: &str = "localhost";

/// See the [module](self).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invitation {
    /// Number of the job.
    pub job: u64,
    /// Number of the agent's host.
    pub host: u32,
    /// Shared secret of the launcher and its agents.
    pub secret: Secret,
    /// Port at which the launcher listens.
    pub port: u16,
    /// Addresses of the launcher, the best first.
    pub addresses: Vec<IpAddr>,
}

/// Tells all tasks that they are not needed: the job could not be started.
///
/// # Errors
/// Of the tasks' server.
pub fn dismiss_tasks(server: &mut Server) -> Result<(), PmiError> {
    server.put(KEY, NO_JOB)?;
    server.fence()
}

/// Why a line is not an invitation. Does not contain the line: that may have a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NotAnInvitation {
    /// The launcher has another version.
    #[error(
        "the launcher has version {0}, this agent version {CONTROL_VERSION}: install the same refrain on all hosts"
    )]
    Version(u8),
    /// No launcher has sent the line.
    #[error("refrain agent needs an invitation on stdin: use refrain run, which starts it")]
    Nothing,
}

impl Invitation {
    /// Gives the line to all tasks; each puts in its own host.
    ///
    /// # Errors
    /// Of the tasks' server.
    pub(super) fn publish(mut self, tasks: &Tasks) -> Result<(), JobError> {
        while self.to_line().len() > VALUE_BYTES_MAX && self.addresses.len() > 1 {
            // The best ones are first.
            self.addresses.pop();
        }
        let value = self.to_line().trim_end().replace(' ', &BLANK.to_string());
        let mut server = tasks.lock().unwrap_or_else(PoisonError::into_inner);
        let published = server.put(KEY, &value).and_then(|()| server.fence());
        published.map_err(|error| JobError::Config(error.to_string()))
    }

    /// Reads the value that task 0, the launcher, has [published](Self::publish), for the agent of
    /// `host`. `None`: the launcher needs no agents.
    ///
    /// # Errors
    /// The value is no invitation.
    pub fn of_value(value: &str, host: u32) -> Result<Option<Self>, NotAnInvitation> {
        if value == NO_JOB {
            return Ok(None);
        }
        let line: Self = value.replace(BLANK, " ").parse()?;
        Ok(Some(Self { host, ..line }))
    }

    /// The line, with its newline. If there are many addresses, it has the first ones.
    pub fn to_line(&self) -> String {
        let addresses = self.addresses.iter().take(ADDRESSES_MAX);
        let addresses: Vec<String> = addresses.map(ToString::to_string).collect();
        format!(
            "{NAME} {CONTROL_VERSION} {} {} {} {} {}\n",
            self.job,
            self.host,
            self.secret.to_text(),
            self.port,
            addresses.join(",")
        )
    }
}

impl FromStr for Invitation {
    type Err = NotAnInvitation;

    fn from_str(line: &str) -> Result<Self, NotAnInvitation> {
        let mut words = line.strip_suffix('\n').unwrap_or(line).split(' ');
        let mut word = || words.next().ok_or(NotAnInvitation::Nothing);
        fn read<T: FromStr>(word: &str) -> Result<T, NotAnInvitation> {
            word.parse().map_err(|_| NotAnInvitation::Nothing)
        }
        if word()? != NAME {
            return Err(NotAnInvitation::Nothing);
        }
        let version: u8 = read(word()?)?;
        if version != CONTROL_VERSION {
            return Err(NotAnInvitation::Version(version));
        }
        let (job, host, secret, port) = (word()?, word()?, word()?, word()?);
        let addresses = word()?.split(',').map(read).collect::<Result<_, _>>()?;
        if words.next().is_some() {
            return Err(NotAnInvitation::Nothing);
        }
        Ok(Self {
            job: read(job)?,
            host: read(host)?,
            secret: read(secret)?,
            port: read(port)?,
            addresses,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn invitation() -> Invitation {
        Invitation {
            job: 7,
            host: 1,
            secret: Secret::from_bytes([0xab; 32]),
            port: 4711,
            addresses: vec!["10.0.0.1".parse().unwrap(), "fe80::1".parse().unwrap()],
        }
    }

    #[test]
    fn an_invitation_is_read_as_it_was_written() {
        let line = invitation().to_line();
        assert_eq!(line.parse(), Ok(invitation()));
        assert!(line.len() < LINE_BYTES_MAX as usize);
    }

    /// The agent reads a whole line, whatever the number of addresses.
    #[test]
    fn a_host_of_many_addresses_fits_a_line() {
        let many = (0..5000_u16).map(|last| {
            std::net::Ipv6Addr::from([0xfd00, 0xabcd, 0xef01, 0x2345, 0x6789, 0xabcd, 0xef01, last])
        });
        let invitation = Invitation {
            addresses: many.map(IpAddr::V6).collect(),
            ..invitation()
        };
        let line = invitation.to_line();
        assert!(line.len() < LINE_BYTES_MAX as usize);
        let read: Invitation = line.parse().unwrap();
        assert_eq!(read.addresses, invitation.addresses[..ADDRESSES_MAX]);
    }

    #[test]
    fn other_lines_are_refused_and_not_repeated() {
        let line = invitation().to_line();
        let next = CONTROL_VERSION + 1;
        let newer = line.replacen(&format!(" {CONTROL_VERSION} "), &format!(" {next} "), 1);
        let error = newer.parse::<Invitation>().unwrap_err();
        assert_eq!(error, NotAnInvitation::Version(next));
        let cut: Vec<String> = (0..line.len() - 9).map(|at| line[..at].into()).collect();
        let others = ["", "\n", "hello", "refrain-agent"].map(String::from);
        let longer = format!("{} more\n", line.trim_end());
        for text in others.into_iter().chain(cut).chain([longer]) {
            let error = text.parse::<Invitation>().unwrap_err();
            assert!(!error.to_string().contains("abab"), "{error}");
        }
    }
}
