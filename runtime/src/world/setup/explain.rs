//! The line of `refrain run --verbose` about the fabric.

/// Describes the choice for `fabric`. `pairs`: number of pairs on one host and on two hosts; `far`:
/// the fabric between hosts and the reason for it.
pub(super) fn explain(fabric: &str, pairs: (u64, u64), far: Option<(&str, &str)>) -> String {
    let (near, between) = pairs;
    let here = count(near);
    match (fabric, far) {
        ("auto", Some((fabric, reason))) => format!(
            "fabric auto: {here} on one host by shm, {} between hosts by {fabric} ({reason})",
            count(between)
        ),
        ("auto", None) => format!("fabric auto: {here}, all on this host, by shm"),
        _ => format!("fabric {fabric} (requested): {}", count(near + between)),
    }
}

fn count(pairs: u64) -> String {
    match pairs {
        1 => "1 pair".into(),
        pairs => format!("{pairs} pairs"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_what_and_why() {
        assert_eq!(
            explain("auto", (6, 9), Some(("ofi:tcp", "best of tcp, sockets"))),
            "fabric auto: 6 pairs on one host by shm, 9 pairs between hosts by ofi:tcp (best of tcp, sockets)"
        );
        assert_eq!(
            explain("auto", (1, 0), None),
            "fabric auto: 1 pair, all on this host, by shm"
        );
        assert_eq!(
            explain("ofi:tcp", (2, 1), None),
            "fabric ofi:tcp (requested): 3 pairs"
        );
    }
}
