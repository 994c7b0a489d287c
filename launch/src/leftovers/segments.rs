//! Segments that libfabric's shm provider leaves in `/dev/shm` when its process
//! is killed.
//!
//! Seen with libfabric 1.17 and 2.5: `PROCESS:USER:ENDPOINT`, like `6512:0:0`;
//! older versions use `PROCESS:USER:DOMAIN:ENDPOINT`. A long message that can neither be read
//! across processes (CMA) nor copied in parts gets its own segment, with `_NUMBER` appended. Only
//! the process id names the owner: if containers share `/dev/shm` but not process ids, a running
//! owner in another container looks dead, and `refrain` has to run outside of them.
//!
//! The provider sm2 keeps one file for all processes of a host, `fi_sm2_mmaps`, and frees the
//! entries of dead processes itself; the file belongs to no job and stays.

use crate::fencing::is_alive;
use rustix::process::geteuid;
use std::path::Path;

/// The folder that the provider uses; it cannot be changed.
pub(super) const FOLDER: &str = "/dev/shm";

/// Whether a file in `folder` is a segment whose owner was a process of this user and has ended.
pub(super) fn is_leftover(folder: &Path, name: &str) -> bool {
    folder == Path::new(FOLDER)
        && owner_of(name)
            .is_some_and(|(process, user)| user == geteuid().as_raw() && !is_alive(process))
}

/// Process and user in a segment's name.
pub(super) fn owner_of(name: &str) -> Option<(u32, u32)> {
    let (name, message) = match name.split_once('_') {
        Some((name, message)) => (name, Some(message)),
        None => (name, None),
    };
    let mut numbers = name.split(':');
    let (process, user) = (number(numbers.next()?)?, number(numbers.next()?)?);
    let endpoint: Vec<&str> = numbers.collect();
    let is_segment = matches!(endpoint.len(), 1 | 2)
        && endpoint.into_iter().all(|part| number(part).is_some())
        && message.is_none_or(|message| number(message).is_some());
    (is_segment && process > 0).then_some((process, user))
}

/// A number as the provider writes it: digits only.
fn number(text: &str) -> Option<u32> {
    let is_plain = text.bytes().all(|digit| digit.is_ascii_digit());
    is_plain.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_the_provider_writes_have_an_owner() {
        for (name, owner) in [
            ("6512:0:0", (6512, 0)),
            ("17:1000:3", (17, 1000)),
            ("17:1000:0:3", (17, 1000)),
            ("17:1000:3_42", (17, 1000)),
        ] {
            assert_eq!(owner_of(name), Some(owner), "{name}");
        }
        for name in [
            "",
            "17",
            "17:0",
            "17:0:",
            "17:0:x",
            ":0:0",
            "0:0:0",
            "-1:0:0",
            "+7:0:0",
            "17:0:0:0:0",
            "17:0:0_",
            "17:0:0_x",
            "17:0:0.txt",
            " 17:0:0",
            "99999999999:0:0",
            "fi_sm2_mmaps",
            "sem.17:0:0",
        ] {
            assert_eq!(owner_of(name), None, "{name}");
        }
    }

    #[test]
    fn a_segment_of_a_living_process_or_another_user_is_none() {
        let folder = Path::new(FOLDER);
        let (own, dead) = (std::process::id(), 4_194_999); // above the largest id
        let user = geteuid().as_raw();
        assert!(is_leftover(folder, &format!("{dead}:{user}:0")));
        assert!(!is_leftover(folder, &format!("{own}:{user}:0")));
        assert!(!is_leftover(folder, &format!("{dead}:{}:0", user + 1)));
        assert!(!is_leftover(Path::new("/tmp"), &format!("{dead}:{user}:0")));
    }
}
