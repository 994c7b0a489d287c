//! Files and processes that jobs leave, and stacks of processes that do not end.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Debuggers that print the stacks of a running process, with their arguments before the process
/// id.
const DEBUGGERS: [(&str, &[&str]); 2] = [
    ("eu-stack", &["-p"]),
    ("gdb", &["-batch", "-ex", "thread apply all bt", "-p"]),
];

/// Names of the files in a folder.
pub fn files(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

/// Command lines of the processes with this variable in their environment.
pub fn processes(variable: &str) -> Vec<String> {
    let folders = folders_of(variable);
    folders.iter().filter_map(|it| command_line(it)).collect()
}

/// State, wait channel and system call of each thread of the processes with this variable in their
/// environment, and their stacks if a debugger is installed.
pub fn stacks(variable: &str) -> String {
    let mut text = String::new();
    for process in folders_of(variable) {
        let line = command_line(&process).unwrap_or_default();
        let _ = writeln!(text, "{}: {line}", process.display());
        threads(&process, &mut text);
        text.push_str(&debugged(&process));
        text.push('\n');
    }
    text
}

/// Folders in `/proc` of the processes with this variable in their environment.
fn folders_of(variable: &str) -> Vec<PathBuf> {
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    all.map(|process| process.path())
        .filter(|process| {
            // Cannot be read if the process has ended or belongs to another user.
            let environment = fs::read(process.join("environ")).unwrap_or_default();
            let mut variables = environment.split(|byte| *byte == 0);
            variables.any(|it| it == variable.as_bytes())
        })
        .collect()
}

fn command_line(process: &Path) -> Option<String> {
    let line = fs::read(process.join("cmdline")).ok()?;
    Some(String::from_utf8_lossy(&line).replace('\0', " "))
}

fn threads(process: &Path, text: &mut String) {
    let all = fs::read_dir(process.join("task")).into_iter().flatten();
    for thread in all.flatten().map(|thread| thread.path()) {
        let read = |name| fs::read_to_string(thread.join(name)).unwrap_or_default();
        let status = read("status");
        let states = status.lines().filter(|line| {
            let names = ["Name:", "State:", "SigPnd:", "SigBlk:", "voluntary_ctxt"];
            names.iter().any(|name| line.starts_with(name))
        });
        let states: Vec<&str> = states.collect();
        let _ = writeln!(
            text,
            "  {}: {}; waits in {:?}, system call {}",
            thread.display(),
            states.join(", ").replace('\t', " "),
            read("wchan"),
            read("syscall").trim_end()
        );
        // Only root can read it.
        for line in read("stack").lines() {
            let _ = writeln!(text, "    {line}");
        }
    }
}

/// The output of the first debugger that is installed.
fn debugged(process: &Path) -> String {
    let number = process.file_name().unwrap_or_default();
    let run = |(program, arguments): &(&str, &[&str])| {
        let mut command = Command::new(program);
        command.args(*arguments).arg(number).stdin(Stdio::null());
        command.output().ok()
    };
    let output = DEBUGGERS.iter().find_map(run);
    output.map_or_else(String::new, |output| {
        String::from_utf8_lossy(&output.stdout).into_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_waits_is_shown_with_its_system_call() {
        let variable = format!("REFRAIN_STACKS_TEST={}", std::process::id());
        let (name, value) = variable.split_once('=').expect("a name");
        let mut command = Command::new("sleep");
        let mut sleeper = command.arg("1000").env(name, value).spawn().expect("sleep");
        // Its environment becomes readable a little after its start.
        let text = loop {
            let text = stacks(&variable);
            if !text.is_empty() {
                break text;
            }
            std::thread::yield_now();
        };
        sleeper.kill().expect("it runs");
        sleeper.wait().expect("it ends");
        assert!(
            text.contains(&format!("/proc/{}: ", sleeper.id())),
            "{text}"
        );
        assert!(text.contains("State: "), "{text}");
    }
}
