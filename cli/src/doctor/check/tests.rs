//! Made-up findings, and what follows from them.

use super::*;
use crate::providers::tests::provider;

fn gone() -> io::Error {
    io::ErrorKind::PermissionDenied.into()
}

fn disk(free_bytes: u64, is_memory: bool) -> io::Result<Disk> {
    Ok(Disk {
        free_bytes,
        is_memory,
    })
}

#[track_caller]
fn expect(check: &Check, verdict: Verdict, words: &[&str]) {
    assert_eq!(check.verdict, verdict, "{check:?}");
    assert_eq!(
        check.advice.is_some(),
        verdict != Verdict::Well,
        "{check:?}"
    );
    let text = text(std::slice::from_ref(check));
    for word in words {
        assert!(text.contains(word), "{word:?} in {text}");
    }
}

#[test]
fn the_last_line_says_whether_jobs_can_run() {
    let good = || cores(4);
    let last = |checks: &[Check]| text(checks).lines().last().unwrap_or_default().to_owned();
    assert_eq!(last(&[good()]), "jobs can run here");
    assert_eq!(last(&[good(), cores(1)]), "jobs can run here; 1 note");
    let obstacle = open_files(Some(10), 2);
    assert_eq!(
        last(&[cores(1), obstacle]),
        "jobs cannot run here: 1 obstacle"
    );
}

#[test]
fn what_stops_every_job_is_bad() {
    let failed = job(Err("no pipes".into()));
    expect(&failed, Verdict::Bad, &["no pipes"]);
    expect(
        &job(Ok(Duration::from_millis(12))),
        Verdict::Well,
        &["12 ms"],
    );
    let shared = shared_memory(Err(gone()), &disk(1 << 40, true));
    expect(&shared, Verdict::Bad, &["memfd_create", "seccomp"]);
    expect(
        &open_files(Some(64), 1),
        Verdict::Bad,
        &["0 ranks", "ulimit -Hn"],
    );
}

#[test]
fn limits_count_where_they_are_too_low() {
    expect(&open_files(None, 4), Verdict::Well, &["no limit"]);
    expect(&open_files(Some(4096), 4), Verdict::Well, &["704 ranks"]);
    expect(&open_files(Some(256), 64), Verdict::Note, &["27 ranks"]);
    expect(&address_space(None), Verdict::Well, &["no limit"]);
    expect(
        &address_space(Some(4 << 30)),
        Verdict::Note,
        &["4 GiB", "ulimit -v"],
    );
    let lock = MemoryLock::Bytes(8 << 20);
    expect(
        &memory_lock(lock, 1 << 29, false),
        Verdict::Well,
        &["8 MiB"],
    );
    expect(
        &memory_lock(lock, 1 << 29, true),
        Verdict::Note,
        &["512 MiB", "ulimit -l"],
    );
    expect(&memory_lock(lock, 1 << 20, true), Verdict::Well, &["8 MiB"]);
    expect(
        &memory_lock(MemoryLock::Unlimited, 1 << 29, true),
        Verdict::Well,
        &[],
    );
    expect(
        &memory(512 << 20, 4),
        Verdict::Well,
        &["512 MiB", "4 ranks"],
    );
    expect(&memory(1 << 20, 4), Verdict::Note, &["fewer ranks"]);
}

#[test]
fn folders_are_disks_with_room() {
    let at = Path::new("/scratch");
    expect(
        &folder(at, &disk(1 << 40, false)),
        Verdict::Well,
        &["/scratch: 1 TiB"],
    );
    expect(
        &folder(at, &disk(1 << 40, true)),
        Verdict::Note,
        &["tmpfs", "--spill-dir"],
    );
    expect(
        &folder(at, &disk(1 << 20, false)),
        Verdict::Note,
        &["1 MiB", "free space"],
    );
    expect(
        &folder(at, &Err(gone())),
        Verdict::Note,
        &["cannot be written", "--spill-dir"],
    );
    expect(&io_uring(Ok(())), Verdict::Well, &[]);
    expect(
        &io_uring(Err(gone())),
        Verdict::Note,
        &["io_uring_disabled"],
    );
    expect(
        &shared_memory(Ok(()), &disk(1 << 40, true)),
        Verdict::Well,
        &["1 TiB"],
    );
    expect(
        &shared_memory(Ok(()), &disk(64 << 20, true)),
        Verdict::Note,
        &["--shm-size"],
    );
    expect(
        &shared_memory(Ok(()), &Err(gone())),
        Verdict::Note,
        &["tmpfs"],
    );
}

#[test]
fn programs_can_be_the_same_in_each_incarnation() {
    let why = || Err("ptrace fails".to_owned());
    expect(&same_addresses(Ok(()), Ok(())), Verdict::Well, &["yes"]);
    expect(&same_addresses(Ok(()), why()), Verdict::Note, &["ptrace"]);
    expect(
        &same_addresses(why(), Ok(())),
        Verdict::Note,
        &["no: ptrace"],
    );
    let library = || Ok("/lib/librefrain_clocks.so".into());
    expect(&clocks(library(), Some("tsc")), Verdict::Well, &["tsc"]);
    expect(&clocks(library(), None), Verdict::Well, &["recorded"]);
    expect(
        &clocks(library(), Some("hpet")),
        Verdict::Note,
        &["hpet", "clocksource=tsc"],
    );
    expect(
        &clocks(why().map(|()| PathBuf::new()), None),
        Verdict::Note,
        &["ptrace fails"],
    );
}

#[test]
fn mpi_programs_need_a_compiler_a_library_and_the_right_mpiexec() {
    expect(
        &compiler("icx", None),
        Verdict::Note,
        &["no icx", "MPICC_CC"],
    );
    let cc = compiler("cc", Some(Path::new("/usr/bin/cc")));
    expect(&cc, Verdict::Well, &["/usr/bin/cc"]);
    let file = || PathBuf::from("/opt/lib/libmpi_abi.so.1");
    expect(
        &library(&Library::Installed(file())),
        Verdict::Well,
        &["/opt/lib"],
    );
    expect(
        &library(&Library::Built(file())),
        Verdict::Note,
        &["refrain install"],
    );
    expect(&library(&Library::Missing), Verdict::Note, &["cargo build"]);
    let broken = Library::Broken(file(), "GLIBC_2.99 not found".into());
    expect(&library(&broken), Verdict::Note, &["GLIBC_2.99"]);
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let own = folder.join("refrain");
    let beside = folder.join("mpiexec");
    std::fs::write(&beside, "").unwrap();
    expect(&mpiexec(Some(&beside), &own), Verdict::Well, &["mpiexec"]);
    let path = format!("PATH={}:", folder.display());
    let built = Path::new("/no/such/refrain");
    expect(&mpiexec(None, built), Verdict::Note, &["refrain mpiexec"]);
    let other = Path::new("/bin/sh");
    expect(
        &mpiexec(Some(other), &own),
        Verdict::Note,
        &["/bin/sh comes first", &path],
    );
    expect(
        &mpiexec(None, &own),
        Verdict::Note,
        &["none in PATH", &path],
    );
}

#[test]
fn what_is_for_several_hosts_never_stops_jobs() {
    let tcp = [provider("tcp", Ok(()))];
    let broken = [provider("tcp", Err("no network".into()))];
    expect(
        &libfabric(Ok(&tcp), "1.17"),
        Verdict::Well,
        &["1.17", "tcp"],
    );
    expect(
        &libfabric(Ok(&broken), "1.17"),
        Verdict::Note,
        &["--providers"],
    );
    expect(
        &libfabric(Err("install libfabric1"), ""),
        Verdict::Note,
        &["install", "several hosts"],
    );
    expect(&verbs(Ok("rxe0, port 1"), true), Verdict::Well, &["rxe0"]);
    expect(
        &verbs(Err("port 1 is down"), true),
        Verdict::Note,
        &["is down", "--verbs"],
    );
    expect(
        &verbs(Err("no RDMA device"), false),
        Verdict::Well,
        &["none"],
    );
}
