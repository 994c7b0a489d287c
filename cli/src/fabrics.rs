//! Fabrics that can be used on this machine, and those that `auto` chooses.

use refrain_job::choice::{Provider, provider};

/// The fabrics that `auto` chooses on this host, and the reason. `verbs` is the RDMA port that
/// would be used, or the reason why there is none; `providers` are those of libfabric, or the
/// reason why there are none.
pub fn auto_fabric(
    verbs: Result<&str, &str>,
    providers: Result<&[Provider], &str>,
) -> (String, String) {
    let inside = "nothing is faster between ranks of one host than shm";
    if let Ok(port) = verbs {
        return (
            "shm, verbs between hosts".into(),
            format!("{inside}; there is an RDMA port ({port})"),
        );
    }
    match providers.map(provider::best) {
        Ok(Some(best)) => (
            format!("shm, ofi:{} between hosts", best.provider.name),
            format!("{inside}; {}", best.reason),
        ),
        Ok(None) => (
            "shm".into(),
            format!("{inside}; no provider of libfabric can be used between hosts"),
        ),
        Err(why) => (
            "shm".into(),
            format!("{inside}; between hosts nothing is available: {why}"),
        ),
    }
}

/// A fabric as found on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Availability {
    /// The fabric, or the library it will use.
    pub name: &'static str,
    /// The fabric can be used now.
    pub usable: bool,
    /// What was found, and why the fabric can or cannot be used.
    pub reason: String,
}

/// All fabrics, with their state on this machine; arguments as of [`auto_fabric`].
pub fn fabrics(
    verbs: Result<&str, &str>,
    providers: Result<&[Provider], &str>,
) -> Vec<Availability> {
    let (ofi_usable, ofi) = match providers {
        Err(why) => (false, why.to_owned()),
        Ok(found) => match provider::usable_names(found) {
            names if names.is_empty() => (false, "no provider of libfabric can be used".into()),
            names => (
                true,
                format!("{} (refrain info --providers)", names.join(", ")),
            ),
        },
    };
    vec![
        Availability {
            name: "shm",
            usable: true,
            reason: "built in, needs nothing".into(),
        },
        Availability {
            name: "verbs",
            usable: verbs.is_ok(),
            reason: verbs.map_or_else(str::to_owned, |port| {
                format!("{port} (refrain info --verbs)")
            }),
        },
        Availability {
            name: "ofi",
            usable: ofi_usable,
            reason: ofi,
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::providers::tests::provider;

    fn broken(name: &str) -> Provider {
        provider(name, Err(format!("no {name} today")))
    }

    #[test]
    fn auto_names_its_fabric_between_hosts_or_the_obstacle() {
        let found = [
            provider("tcp", Ok(())),
            provider("net", Ok(())),
            broken("verbs"),
        ];
        let none = Err("no device");
        let (stands_for, why) = auto_fabric(none, Ok(&found));
        assert_eq!(stands_for, "shm, ofi:tcp between hosts");
        assert!(why.contains("best of tcp, net"), "{why}");
        let (stands_for, _) = auto_fabric(none, Ok(&[broken("verbs")]));
        assert_eq!(stands_for, "shm");
        let (stands_for, why) = auto_fabric(none, Err("libfabric.so.1 is missing: install it"));
        assert_eq!(stands_for, "shm");
        assert!(why.contains("install it"), "{why}");
        let (stands_for, why) = auto_fabric(Ok("rxe0:1"), Ok(&found));
        assert_eq!(stands_for, "shm, verbs between hosts");
        assert!(why.contains("rxe0:1"), "{why}");
    }

    #[test]
    fn what_is_found_is_listed_with_the_reason() {
        let state = |providers: Result<&[Provider], &str>| {
            let mut found = fabrics(Err("no device"), providers);
            assert_eq!(found.remove(0).name, "shm");
            let verbs = found.remove(0);
            assert_eq!((verbs.usable, &*verbs.reason), (false, "no device"));
            let ofi = found.remove(0);
            (ofi.usable, ofi.reason)
        };
        let (usable, reason) = state(Ok(&[provider("tcp", Ok(())), broken("udp")]));
        assert!(usable && reason.starts_with("tcp ("), "{reason}");
        assert!(!state(Ok(&[broken("udp")])).0);
        assert_eq!(state(Err("no library")), (false, "no library".into()));
    }

    #[test]
    fn verbs_are_listed_with_the_reason() {
        let state = |port| fabrics(port, Err("no library")).remove(1);
        let (without, with) = (state(Err("install it")), state(Ok("rxe0, port 1")));
        assert_eq!((without.name, with.name), ("verbs", "verbs"));
        assert_eq!((without.usable, &*without.reason), (false, "install it"));
        assert!(with.usable && with.reason.starts_with("rxe0, port 1"));
    }
}
