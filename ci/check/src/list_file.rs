//! Lists for the checks: one entry on each line, `name  reason`; `#` begins a comment.

/// One line of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The listed item.
    pub name: &'a str,
    /// The reason; empty if the line has none.
    pub reason: &'a str,
}

/// The entries of a list.
pub fn entries(text: &str) -> impl Iterator<Item = Entry<'_>> {
    text.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| {
            let (name, reason) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
            Entry {
                name,
                reason: reason.trim(),
            }
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_empty_lines_are_no_entries() {
        let found: Vec<_> = entries("# why\n\n a/b.rs   shared memory\nlonely\n").collect();
        let first = Entry {
            name: "a/b.rs",
            reason: "shared memory",
        };
        assert_eq!(
            found,
            [
                first,
                Entry {
                    name: "lonely",
                    reason: ""
                }
            ]
        );
    }
}
