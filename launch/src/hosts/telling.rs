//! Whether and how hosts can be told what they are to do. Pure.

use super::message::{MessageError, Setup, ToAgent, encode};
use refrain_job::JobError;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;

/// What every agent is told can be said in a message.
///
/// # Errors
/// [`JobError::Config`]: why not, and what to do.
pub(super) fn check_setup(setup: &Setup) -> Result<(), JobError> {
    let ranks = (0..setup.size).collect();
    let setup = ToAgent::Setup(Box::new(Setup {
        ranks,
        ..setup.clone()
    }));
    let why = match encode(&setup) {
        Ok(_) => return Ok(()),
        Err(error @ MessageError::TooLong(_)) => format!(
            "the program's arguments and environment are too long for other hosts: {error}: put them into a file"
        ),
        Err(MessageError::Body) => {
            "a path of the program, its folder or the settings is not UTF-8 and cannot be sent to other hosts: rename it".to_owned()
        }
    };
    Err(JobError::Config(why))
}

/// ssh gives the command to a shell.
pub(super) fn quoted(path: &Path) -> OsString {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-+".contains(byte);
    let bytes = path.as_os_str().as_bytes();
    if bytes.iter().all(is_plain) {
        return path.into();
    }
    // Of bytes: a path need not be text.
    let parts: Vec<&[u8]> = bytes.split(|byte| *byte == b'\'').collect();
    let quoted = parts.join(&br"'\''"[..]);
    OsString::from_vec([b"'", &quoted[..], b"'"].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;
    use std::process::Command;

    /// A shell on the other side finds the very path, whatever bytes it has.
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

    /// What no message holds is refused before any host is called.
    #[test]
    fn what_other_hosts_cannot_be_told_is_refused_with_the_remedy() {
        let setup = |argument_bytes| Setup {
            job: 1,
            size: 100_000,
            ranks: Vec::new(),
            program: "/bin/true".into(),
            arguments: vec!["x".repeat(argument_bytes).into()],
            environment: Vec::new(),
            folder: None,
            pin: false,
            config: Box::default(),
        };
        check_setup(&setup(100_000)).expect("it fits");
        let error = check_setup(&setup(2 << 20)).expect_err("it does not");
        assert!(error.to_string().contains("into a file"), "{error}");
        let latin = OsString::from_vec(b"/home/andr\xe9".to_vec());
        let no_text = Setup {
            folder: Some(latin.clone().into()),
            ..setup(1)
        };
        let error = check_setup(&no_text).expect_err("it is no text");
        assert!(error.to_string().contains("rename it"), "{error}");
        // Arguments need not be text.
        let arguments = Setup {
            arguments: vec![latin],
            ..setup(1)
        };
        check_setup(&arguments).expect("bytes can be told");
    }
}
