//! `refrain doctor`, on the machine as it is.

use crate::launched::{refrain, run};

#[test]
fn the_report_ends_with_what_its_status_says() {
    let folder = tempfile::tempdir().unwrap();
    let ended = run(refrain().arg("doctor").arg(folder.path()));
    let last = ended.out.lines().last().unwrap_or_default();
    match ended.status {
        Some(0) => assert!(last.starts_with("jobs can run here"), "{ended:?}"),
        status => {
            assert_eq!(status, Some(1), "{ended:?}");
            assert!(last.starts_with("jobs cannot run here"), "{ended:?}");
        }
    }
    let path = folder.path().display().to_string();
    for subject in ["a job", "cores", "open files", "MPI library", &path] {
        assert!(ended.out.contains(subject), "{subject} in {}", ended.out);
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_folder_that_is_not_there_is_named_with_what_to_do() {
    let ended = run(refrain().args(["doctor", "/no/such/folder"]));
    let line = ended
        .out
        .lines()
        .find(|line| line.contains("/no/such/folder"));
    assert!(
        line.is_some_and(|line| line.starts_with("note")),
        "{ended:?}"
    );
    assert!(ended.out.contains("--spill-dir"), "{ended:?}");
}
