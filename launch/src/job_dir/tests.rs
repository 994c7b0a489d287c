use super::*;
use crate::Program;

fn spec(path: &Path) -> JobSpec {
    let mut spec = JobSpec {
        programs: vec![Program {
            path: "true".into(),
            ranks: 2,
            ..Program::default()
        }],
        job_dir: Some(path.to_owned()),
        ..JobSpec::default()
    };
    spec.config.protocol = "pessimist".into();
    spec.config.recovery.max_restarts = 1;
    spec
}

pub(super) fn open(path: &Path, job: u64) -> JobDir {
    let opened = JobDir::open(&mut spec(path), job).expect("it fits");
    opened.expect("it was asked for")
}

#[track_caller]
fn refused(path: &Path) -> String {
    JobDir::open(&mut spec(path), 9)
        .expect_err("refused")
        .to_string()
}

pub(super) fn begin(dir: &mut JobDir) -> GoingOn {
    dir.begin_run(&JobConfig::default()).expect("written")
}

// JOB-2
#[test]
fn each_run_begins_above_all_earlier_lives() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("job");
    let mut dir = open(&path, 7);
    let first = begin(&mut dir);
    assert_eq!((dir.job(), first.run, first.incarnation), (7, 1, 0));
    dir.will_start(1).expect("written");
    dir.will_start(3).expect("written");
    dir.will_start(2).expect("not needed");
    drop(dir);
    let mut dir = open(&path, 8);
    let second = begin(&mut dir);
    assert_eq!((dir.job(), second.run, second.incarnation), (7, 2, 4));
    drop(dir);
    assert_eq!(begin(&mut open(&path, 8)).incarnation, 5);
}

// JOB-1
#[test]
fn a_folder_in_use_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = open(folder.path(), 7);
    let message = refused(folder.path());
    let holder = format!("process {} on ", std::process::id());
    assert!(message.contains("is in use"), "{message}");
    assert!(message.contains(&holder), "{message}");
    drop(dir);
    open(folder.path(), 8);
}

/// A run that ends before its first rank was started leaves nothing that counts.
// JOB-4
#[test]
fn a_run_that_has_not_begun_is_none() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("job");
    let dir = open(&path, 7);
    let stray = path.join(EVENTS).join("stray");
    fs::write(&stray, "").expect("a file");
    drop(dir);
    // The launcher was killed while it wrote the state.
    fs::write(path.join(NEW_STATE), "{").expect("a file");
    let dir = open(&path, 8);
    assert!(!dir.goes_on() && dir.job() == 8);
    assert!(!stray.exists());
    fs::remove_file(path.join(STATE)).expect("it is there");
    drop(dir);
    let message = refused(&path);
    assert!(message.contains("is not empty"), "{message}");
}

// JOB-7
#[test]
fn a_job_that_has_ended_well_is_over() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut dir = open(folder.path(), 7);
    begin(&mut dir);
    dir.save_output(1, Vec::new()).expect("written");
    drop(dir);
    let mut dir = open(folder.path(), 8);
    begin(&mut dir);
    assert!(folder.path().join(OUTPUT).join("rank-1.json").exists());
    dir.end().expect("written");
    // A launcher that is killed here leaves files, and no job that goes on.
    let message = fs::read_to_string(folder.path().join(STATE)).expect("it is there");
    assert!(message.contains("\"ended\""), "{message}");
    drop(dir);
    let message = refused(folder.path());
    assert!(
        message.contains("has ended well, in its run 2"),
        "{message}"
    );
    assert!(!folder.path().join(OUTPUT).exists());
}

/// The disk is full: a later run goes on, and ends the job once more.
// JOB-7
#[test]
fn an_end_that_is_not_stored_removes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut dir = open(folder.path(), 7);
    begin(&mut dir);
    let in_the_way = folder.path().join(NEW_STATE);
    fs::create_dir(&in_the_way).expect("a new folder");
    let error = dir.end().expect_err("it cannot be written");
    assert!(error.to_string().contains(STATE), "{error}");
    drop(dir);
    assert!(folder.path().join(CHECKPOINTS).exists());
    fs::remove_dir(&in_the_way).expect("it is there");
    assert!(open(folder.path(), 8).goes_on());
}

// JOB-6
#[test]
fn a_job_that_lacks_messages_does_not_go_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut dir = open(folder.path(), 7);
    begin(&mut dir);
    dir.lose("rank 1 had no room").expect("written");
    dir.lose("another reason").expect("not needed");
    assert!(dir.is_lost());
    drop(dir);
    let message = refused(folder.path());
    assert!(
        message.contains("cannot go on: rank 1 had no room"),
        "{message}"
    );
}

/// The settings of a later run are those that the first has found. COLL-1
#[test]
fn the_hosts_at_the_begin_are_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut dir = open(folder.path(), 7);
    let mut config = JobConfig::default();
    config.collectives.host_of_rank = vec![0, 1];
    dir.begin_run(&config).expect("written");
    assert_eq!(dir.began_unix_ns(5), 0, "it began before");
    drop(dir);
    let mut later = spec(folder.path());
    let dir = JobDir::open(&mut later, 8)
        .expect("it fits")
        .expect("asked");
    assert!(dir.goes_on());
    assert_eq!(later.config.collectives.host_of_rank, [0, 1]);
    assert!(later.event_loggers.continues);
    let prefix = format!("job-{:016x}-", 7);
    assert_eq!(later.config.recovery.checkpoint_prefix, prefix);
}
