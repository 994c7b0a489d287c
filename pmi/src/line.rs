//! PMI-1: lines `cmd=NAME KEY=VALUE …` over a socket that the task inherits. Each request has one
//! answer.

#![allow(
    unsafe_code,
    reason = "a descriptor inherited by number can only be taken over with from_raw_fd"
)]

use crate::error::PmiError;
use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};
use std::env;
use std::io::{Read as _, Write as _};
use std::os::fd::{BorrowedFd, FromRawFd as _, RawFd};
use std::os::unix::net::UnixStream;

const DESCRIPTOR: &str = "PMI_FD";
const RANK: &str = "PMI_RANK";
const SIZE: &str = "PMI_SIZE";
/// Maximum length of an answer: values of other clients have 1 KiB.
const LINE_BYTES_MAX: usize = 16 << 10;

pub fn is_named() -> bool {
    [DESCRIPTOR, RANK, SIZE]
        .iter()
        .all(|name| env::var_os(name).is_some())
}

#[derive(Debug)]
pub struct Client {
    socket: UnixStream,
    pub rank: u32,
    pub size: u32,
    /// Name of the space of keys.
    space: String,
    /// Received bytes of the next answers.
    received: Vec<u8>,
}

fn unusable(why: impl ToString) -> PmiError {
    PmiError::Unusable {
        interface: "PMI-1",
        why: why.to_string(),
    }
}

fn number<T: std::str::FromStr>(name: &str) -> Result<T, PmiError> {
    let value = env::var(name).unwrap_or_default();
    value
        .parse()
        .map_err(|_| unusable(format_args!("{name} is {value:?}, and not a number")))
}

impl Client {
    /// Takes over the descriptor that the environment names.
    pub fn begin() -> Result<Self, PmiError> {
        let descriptor: RawFd = number(DESCRIPTOR)?;
        let closed = || {
            unusable(format_args!(
                "{DESCRIPTOR} is {descriptor}, which is not open"
            ))
        };
        if descriptor < 3 {
            return Err(closed());
        }
        // SAFETY: only asks whether the number is an open descriptor, and changes its flag.
        let inherited = unsafe { BorrowedFd::borrow_raw(descriptor) };
        // Processes that are started here are no tasks.
        fcntl_getfd(inherited)
            .and_then(|flags| fcntl_setfd(inherited, flags | FdFlags::CLOEXEC))
            .map_err(|_| closed())?;
        // SAFETY: it is open, and the server has left it to this process, which calls this once.
        let socket = unsafe { UnixStream::from_raw_fd(descriptor) };
        let mut client = Self {
            socket,
            rank: number(RANK)?,
            size: number(SIZE)?,
            space: String::new(),
            received: Vec::new(),
        };
        if client.rank >= client.size {
            let (rank, size) = (client.rank, client.size);
            return Err(unusable(format_args!("{RANK} is {rank} of {SIZE} {size}")));
        }
        client.ask(
            "cmd=init pmi_version=1 pmi_subversion=1",
            "response_to_init",
        )?;
        let answer = client.ask("cmd=get_my_kvsname", "my_kvsname")?;
        client.space = value_of(&answer, "kvsname")
            .ok_or_else(|| unusable(format_args!("no name in {answer:?}")))?
            .to_owned();
        Ok(client)
    }

    /// The next answer, which has this name.
    fn hear(&mut self, name: &str) -> Result<String, PmiError> {
        let end = loop {
            if let Some(end) = self.received.iter().position(|byte| *byte == b'\n') {
                break end;
            }
            if self.received.len() > LINE_BYTES_MAX {
                return Err(unusable("an answer has no end"));
            }
            let mut bytes = [0; 4096];
            match self.socket.read(&mut bytes) {
                Ok(0) => return Err(unusable("the server has closed the connection")),
                Ok(count) => self.received.extend_from_slice(&bytes[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(unusable(error)),
            }
        };
        let line: Vec<u8> = self.received.drain(..=end).collect();
        let line = String::from_utf8_lossy(&line).trim_end().to_owned();
        let is_good = value_of(&line, "cmd") == Some(name)
            && matches!(value_of(&line, "rc"), None | Some("0"));
        match is_good {
            true => Ok(line),
            false => Err(unusable(format_args!(
                "the server answered {line:?} instead of {name}"
            ))),
        }
    }

    fn ask(&mut self, line: &str, answer: &str) -> Result<String, PmiError> {
        self.socket
            .write_all(format!("{line}\n").as_bytes())
            .map_err(unusable)?;
        self.hear(answer)
    }

    pub fn put(&mut self, key: &str, value: &str) -> Result<(), PmiError> {
        let (space, rank) = (&self.space, self.rank);
        let line = format!("cmd=put kvsname={space} key={key}-{rank} value={value}");
        self.ask(&line, "put_result").map(drop)
    }

    pub fn get(&mut self, rank: u32, key: &str) -> Result<String, PmiError> {
        let line = format!("cmd=get kvsname={} key={key}-{rank}", self.space);
        let answer = self.ask(&line, "get_result")?;
        let value = value_of(&answer, "value");
        value
            .map(str::to_owned)
            .ok_or_else(|| unusable(format_args!("no value in {answer:?}")))
    }

    pub fn fence(&mut self) -> Result<(), PmiError> {
        self.ask("cmd=barrier_in", "barrier_out").map(drop)
    }

    pub fn finish(mut self) -> Result<(), PmiError> {
        self.ask("cmd=finalize", "finalize_ack").map(drop)
    }
}

/// The value of a key in a line; the last one may have blanks.
fn value_of<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let mut words = line.split(' ');
    words.find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead as _, BufReader};

    /// A client, and a server that gives these answers in turn and returns what was asked.
    fn with_answers(
        answers: &'static [&'static str],
    ) -> (Client, std::thread::JoinHandle<Vec<String>>) {
        let (socket, server) = UnixStream::pair().unwrap();
        let client = Client {
            socket,
            rank: 1,
            size: 2,
            space: "here".into(),
            received: Vec::new(),
        };
        let server = std::thread::spawn(move || {
            let mut lines = BufReader::new(server);
            let mut asked = Vec::new();
            for answer in answers {
                let mut line = String::new();
                lines.read_line(&mut line).unwrap();
                asked.push(line.trim_end().to_owned());
                lines.get_mut().write_all(answer.as_bytes()).unwrap();
            }
            asked
        });
        (client, server)
    }

    #[test]
    fn values_are_written_and_read() {
        let (mut client, server) = with_answers(&[
            "cmd=put_result rc=0 msg=success\n",
            "cmd=barrier_out rc=0\n",
            "cmd=get_result rc=0 msg=success value=a/b=c\n",
            "cmd=finalize_ack rc=0\n",
        ]);
        client.put("host", "n1").unwrap();
        client.fence().unwrap();
        assert_eq!(client.get(0, "host").unwrap(), "a/b=c");
        client.finish().unwrap();
        let asked = [
            "cmd=put kvsname=here key=host-1 value=n1",
            "cmd=barrier_in",
            "cmd=get kvsname=here key=host-0",
            "cmd=finalize",
        ];
        assert_eq!(server.join().unwrap(), asked);
    }

    #[test]
    fn what_the_server_refuses_is_an_error_with_its_words() {
        for (answer, words) in [
            ("cmd=get_result rc=-1 msg=key_not_found\n", "key_not_found"),
            ("cmd=put_result rc=0\n", "instead of get_result"),
            ("cmd=get_result rc=0\n", "no value"),
        ] {
            let answers: &'static [&'static str] = Box::leak(Box::new([answer]));
            let (mut client, _server) = with_answers(answers);
            let error = client.get(0, "host").unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
        let (mut client, server) = with_answers(&[]);
        server.join().unwrap();
        let error = client.get(0, "host").unwrap_err().to_string();
        assert!(error.starts_with("PMI-1: "), "{error}");
    }
}
