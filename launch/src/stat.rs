//! What `/proc/ID/stat` says of a process.

use std::fs;

/// A process as the kernel sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// One letter: `R` runs, `S` sleeps, `T` is stopped, `Z` has ended …
    state: u8,
    /// Its process group.
    pub group: i32,
}

impl Stat {
    /// Of a process; `None`: there is none.
    pub fn of(process: u32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        // The command is in parentheses and may hold anything.
        let (_, fields) = text.rsplit_once(')')?;
        let mut fields = fields.split_whitespace();
        let state = *fields.next()?.as_bytes().first()?;
        let group = fields.nth(1)?.parse().ok()?;
        Some(Self { state, group })
    }

    /// It runs no more.
    pub fn has_ended(self) -> bool {
        matches!(self.state, b'Z' | b'X')
    }

    /// By a signal, or by a debugger.
    pub fn is_stopped(self) -> bool {
        matches!(self.state, b'T' | b't')
    }
}

/// All processes that this one may see.
pub fn all() -> impl Iterator<Item = Stat> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.filter_map(|process| Stat::of(process.file_name().to_str()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_understood() {
        let stat = Stat::parse("5 (a) Z b) S 1 77 78 0").unwrap();
        assert_eq!(stat.group, 77);
        assert!(!stat.has_ended() && !stat.is_stopped());
        assert!(Stat::parse("5 (a) Z 1 77 77 0").unwrap().has_ended());
        for state in ["T", "t"] {
            let line = format!("5 (a) {state} 1 77 77 0");
            assert!(Stat::parse(&line).unwrap().is_stopped());
        }
        for line in ["", "5 (a", "5 (a) S", "5 (a) S 1 x"] {
            assert_eq!(Stat::parse(line), None, "{line}");
        }
    }

    #[test]
    fn this_process_is_among_all() {
        let own = Stat::of(std::process::id()).unwrap();
        assert!(!own.has_ended());
        assert!(all().any(|stat| stat.group == own.group));
    }
}
