//! A program whose environment is wrong gets one clear error and does not hang.

use std::process::Command;

/// Starts the test program from a shell that has prepared descriptors, and returns its messages.
fn joining(prepared: &str) -> String {
    let mut program = std::env::current_exe().unwrap();
    program.pop();
    program.set_file_name("examples");
    program.push("refrain-test-rank");
    let line = format!("{prepared} exec {} hello", program.display());
    let output = Command::new("sh").args(["-c", &line]).output().unwrap();
    assert_eq!(output.status.code(), Some(9), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_variable_that_leads_nowhere_is_explained() {
    for (prepared, words) in [
        (
            "REFRAIN_CONTROL_FD=frog REFRAIN_CONTROL_GREETING=hello",
            "no launcher has set them",
        ),
        (
            "REFRAIN_CONTROL_FD=1 REFRAIN_CONTROL_GREETING=hello",
            "no launcher has set them",
        ),
        ("REFRAIN_CONTROL_FD=9", "REFRAIN_CONTROL_GREETING"),
        (
            "exec 9>&-; REFRAIN_CONTROL_FD=9 REFRAIN_CONTROL_GREETING=hello",
            "is not open",
        ),
        (
            "exec 9</dev/null; REFRAIN_CONTROL_FD=9 REFRAIN_CONTROL_GREETING=hello",
            "is not a socket",
        ),
    ] {
        let said = joining(prepared);
        assert!(
            said.contains(words) && said.contains("refrain run"),
            "{prepared}: {said}"
        );
    }
}

#[test]
fn another_programs_socket_is_not_touched() {
    use std::io::Read;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;
    use std::process::Stdio;

    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let mut program = std::env::current_exe().unwrap();
    program.pop();
    program.set_file_name("examples");
    program.push("refrain-test-rank");
    let line = format!(
        "exec 9<&0; REFRAIN_CONTROL_FD=9 REFRAIN_CONTROL_GREETING=hello exec {} hello",
        program.display()
    );
    let mut command = Command::new("sh");
    command
        .args(["-c", &line])
        .stdin(Stdio::from(OwnedFd::from(theirs)));
    let output = command.output().unwrap();
    drop(command);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("which is another socket"), "{said}");
    let mut heard = Vec::new();
    ours.read_to_end(&mut heard).unwrap();
    assert!(heard.is_empty(), "not a byte was written to it");
}
