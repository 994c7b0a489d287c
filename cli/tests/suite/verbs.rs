//! Report of `refrain info` on RDMA devices, on this machine and in the guest of `ci/softroce`.

use crate::launched::{refrain, run};
use std::env;

fn info(arguments: &[&str]) -> String {
    run(refrain().arg("info").args(arguments)).expect(0).out
}

/// The line of the fabric in the list of fabrics.
fn verbs_line(info: &str) -> &str {
    info.lines()
        .find(|line| line.starts_with("  verbs "))
        .unwrap_or_else(|| panic!("no verbs in {info}"))
}

#[test]
fn without_devices_one_line_names_what_is_missing() {
    let (short, long) = (info(&[]), info(&["--verbs"]));
    if long.starts_with("libibverbs  ") {
        return println!("skipped what is said without RDMA: this machine has devices");
    }
    assert_eq!(long.lines().count(), 1, "{long}");
    assert!(long.contains("libibverbs"), "{long}");
    let line = verbs_line(&short);
    assert!(line.contains("not available"), "{short}");
    assert!(line.ends_with(long.trim_end()), "{line} and {long}");
    assert!(!short.contains("verbs ports"), "{short}");
}

#[test]
fn soft_roce_is_shown_with_what_would_be_used() {
    if env::var_os("SOFTROCE_DEV0").is_none() {
        return println!("skipped soft-RoCE in info: not in the guest of ci/softroce");
    }
    let (short, long) = (info(&[]), info(&["--verbs"]));
    let line = verbs_line(&short);
    assert!(
        line.contains(" available") && line.contains("rxe0:1"),
        "{short}"
    );
    assert!(!line.contains("not available"), "{short}");
    assert!(
        long.contains("verbs takes   rxe0:1, Ethernet, GID "),
        "{long}"
    );
    let variable = |name: &str| env::var(name).unwrap();
    // In separate namespaces the other end's address is not of this host.
    let ends = if env::var_os("SOFTROCE_NS1").is_none() {
        2
    } else {
        1
    };
    for end in 0..ends {
        let name = format!("{}:1 ", variable(&format!("SOFTROCE_DEV{end}")));
        let address = format!(
            "{} (GID {}, RoCE v2)",
            variable(&format!("SOFTROCE_IP{end}")),
            variable("SOFTROCE_GID")
        );
        for text in [&short, &long] {
            let row = text
                .lines()
                .find(|line| line.trim_start().starts_with(&name));
            let row = row.unwrap_or_else(|| panic!("no {name} in {text}"));
            assert!(
                row.contains("ACTIVE") && row.trim_end().ends_with(&address),
                "{row}"
            );
        }
    }
    assert!(long.contains(" bytes in a work request"), "{long}");
}
