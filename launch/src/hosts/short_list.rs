//! Lists of hosts in the short form of Slurm and Flux, such as `a[1-3,07],b`. Pure.

/// Maximum number of names: a list of some bytes can stand for any number.
pub(super) const LENGTH_MAX: usize = 1 << 16;
/// Maximum number of digits of a number in a name.
const DIGITS_MAX: usize = 19;

/// The names that a list stands for. `None`: it is not a list, or has too many names.
pub(super) fn expand(list: &str) -> Option<Vec<String>> {
    let mut found = Vec::new();
    let mut rest = list;
    loop {
        let mut is_inside = false;
        let end = rest.find(|letter| {
            is_inside = (is_inside || letter == '[') && letter != ']';
            letter == ',' && !is_inside
        });
        let (part, more) = rest.split_at(end.unwrap_or(rest.len()));
        names(part, String::new(), &mut found)?;
        match more.strip_prefix(',') {
            Some(more) => rest = more,
            None => return Some(found),
        }
    }
}

/// Adds the names that one part of a list stands for, after `begin`.
fn names(part: &str, begin: String, found: &mut Vec<String>) -> Option<()> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-._".contains(letter);
    let Some((before, rest)) = part.split_once('[') else {
        let name = begin + part;
        let is_name = !name.is_empty() && !name.starts_with('-') && name.chars().all(is_plain);
        found.push(name);
        return (is_name && found.len() <= LENGTH_MAX).then_some(());
    };
    let (numbers, after) = rest.split_once(']')?;
    for range in numbers.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let is_number =
            |it: &str| it.len() <= DIGITS_MAX && it.bytes().all(|it| it.is_ascii_digit());
        if !is_number(first) || !is_number(last) {
            return None;
        }
        let width = first.len();
        for number in first.parse::<u64>().ok()?..=last.parse().ok()? {
            names(after, format!("{begin}{before}{number:0width$}"), found)?;
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// A short list stands for the names that it was made of.
        #[test]
        fn short_lists_stand_for_all_their_names(
            groups in prop::collection::vec(
                ("[a-z][a-z0-9-]{0,4}", 1..5_usize, prop::collection::vec((0..900_u32, 0..20_u32), 0..4), "(-ib)?"),
                1..5,
            ),
        ) {
            let (mut parts, mut names) = (Vec::new(), Vec::new());
            for (begin, width, ranges, end) in groups {
                if ranges.is_empty() {
                    parts.push(format!("{begin}{end}"));
                    names.push(format!("{begin}{end}"));
                    continue;
                }
                let number = |number| format!("{number:0width$}");
                let range = |(first, more): &(u32, u32)| match more {
                    0 => number(*first),
                    _ => format!("{}-{}", number(*first), number(first + more)),
                };
                let shown: Vec<String> = ranges.iter().map(range).collect();
                parts.push(format!("{begin}[{}]{end}", shown.join(",")));
                let all = ranges.iter().flat_map(|(first, more)| *first..=first + more);
                names.extend(all.map(|it| format!("{begin}{}{end}", number(it))));
            }
            prop_assert_eq!(expand(&parts.join(",")), Some(names));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[a1\\[\\],(x)-]{0,20}") {
            let _ = expand(&text);
        }
    }
}
