//! What all runs of a job have in common: a replay needs the same program, and settings that lead to
//! the same events and messages. JOB-1

use crate::{JobSpec, Program};
use refrain_checkpoint::CheckpointStoreSpec;
use refrain_job::choice::events::Loggers;
use refrain_job::control::message::CONTROL_VERSION;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// FNV-1a, 64 bits.
const HASH_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const HASH_PRIME: u64 = 0x0000_0100_0000_01b3;

/// What is compared, by name, with its values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape(Vec<(String, String)>);

impl Shape {
    /// That of a job as it is asked for.
    pub fn of(spec: &JobSpec) -> Self {
        let config = &spec.config;
        let refrain = format!("{}, messages {CONTROL_VERSION}", env!("CARGO_PKG_VERSION"));
        let mut all = vec![
            ("number of ranks".into(), spec.ranks().to_string()),
            ("version of refrain".into(), refrain),
        ];
        for program in &spec.programs {
            all.push(("program".into(), command(program)));
            all.push((
                format!("content of {}", program.path.display()),
                content(program),
            ));
        }
        let table = &config.collectives.table;
        let options = [
            ("--protocol", config.protocol.clone()),
            ("--fabric", config.fabric.clone()),
            ("--event-loggers", loggers(spec)),
            ("--event-replicas", spec.event_loggers.replicas.to_string()),
            ("--spread-loggers", on_or_off(spec.event_loggers.spread)),
            (
                "--stable",
                format!("{:?}", config.events.level).to_lowercase(),
            ),
            ("--checkpoint-dir", place(spec)),
            ("--record-clocks", on_or_off(config.recovery.record_clocks)),
            ("--same-memory", config.recovery.same_memory.to_string()),
            ("--collectives-table", hash_of(table.as_bytes())),
            ("--check-collectives", on_or_off(config.collectives.check)),
        ];
        all.extend(options.map(|(name, value)| (name.to_owned(), value)));
        Self(all)
    }

    /// The first difference of the job that is asked for, for people.
    pub fn difference(&self, asked: &Self) -> Option<String> {
        let mut both = self.0.iter().zip(&asked.0);
        let differing = both.find(|(found, asked)| found != asked);
        match differing {
            Some(((name, found), (other, asked))) if name == other => Some(format!(
                "its job has the {name} {found}, and {asked} is asked for"
            )),
            Some(((name, found), (other, asked))) => Some(format!(
                "its job has the {name} {found}, and the {other} {asked} is asked for"
            )),
            None if self.0.len() != asked.0.len() => {
                Some("its job has another number of programs than is asked for".into())
            }
            None => None,
        }
    }
}

fn on_or_off(is_on: bool) -> String {
    if is_on { "on" } else { "off" }.into()
}

fn command(program: &Program) -> String {
    let words = program.arguments.iter().map(|word| word.to_string_lossy());
    let command = std::iter::once(program.path.to_string_lossy()).chain(words);
    let command: Vec<_> = command.collect();
    format!("{:?} on {} ranks", command.join(" "), program.ranks)
}

/// A program that was compiled again may send other messages.
fn content(program: &Program) -> String {
    let mut found = program.clone();
    match found.find().map(|()| hash_of_file(&found.path)) {
        Ok(Ok(hash)) => hash,
        Ok(Err(error)) => format!("(not readable: {error})"),
        Err(_) => "(not on the launcher's host)".into(),
    }
}

fn loggers(spec: &JobSpec) -> String {
    match &spec.event_loggers.loggers {
        None => "1".into(),
        Some(Loggers::Started(shards)) => shards.to_string(),
        Some(Loggers::Running(shards)) => {
            let shard = |shard: &Vec<_>| {
                let replicas = shard.iter().map(ToString::to_string);
                replicas.collect::<Vec<_>>().join("+")
            };
            shards.iter().map(shard).collect::<Vec<_>>().join(",")
        }
    }
}

/// Without its secret.
fn place(spec: &JobSpec) -> String {
    let given = spec.config.recovery.checkpoint_dir.as_deref();
    given.map_or("of the job".into(), |text| {
        let parsed: Result<CheckpointStoreSpec, _> = text.parse();
        parsed.map_or_else(|error| error.text, |place| place.to_string())
    })
}

fn advance(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(HASH_PRIME)
    })
}

fn hash_of(bytes: &[u8]) -> String {
    format!("{:016x}", advance(HASH_BASIS, bytes))
}

fn hash_of_file(path: &Path) -> io::Result<String> {
    let (mut file, mut hash, mut bytes) = (File::open(path)?, HASH_BASIS, vec![0; 64 << 10]);
    loop {
        match file.read(&mut bytes)? {
            0 => return Ok(format!("{hash:016x}")),
            read => hash = advance(hash, &bytes[..read]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(ranks: u32) -> JobSpec {
        JobSpec {
            programs: vec![Program {
                path: "true".into(),
                ranks,
                ..Program::default()
            }],
            ..JobSpec::default()
        }
    }

    // JOB-1
    #[test]
    fn a_difference_names_what_was_found_and_asked() {
        let shape = Shape::of(&spec(3));
        assert_eq!(shape.difference(&Shape::of(&spec(3))), None);
        let message = |change: fn(&mut JobSpec)| {
            let mut other = spec(3);
            change(&mut other);
            shape.difference(&Shape::of(&other)).expect("they differ")
        };
        assert_eq!(
            message(|spec| spec.programs[0].ranks = 4),
            "its job has the number of ranks 3, and 4 is asked for"
        );
        assert!(message(|spec| spec.programs[0].path = "false".into()).contains("\"true\" on 3"));
        assert!(
            message(|spec| spec.config.recovery.record_clocks = false).contains("--record-clocks")
        );
        let two = message(|spec| {
            spec.programs[0].ranks = 2;
            spec.programs.push(Program {
                ranks: 1,
                ..spec.programs[0].clone()
            });
        });
        assert!(two.contains("on 2 ranks"), "{two}");
    }

    // JOB-1
    #[test]
    fn the_content_of_a_program_is_compared() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("program");
        let shape = |text: &str| {
            use std::os::unix::fs::PermissionsExt as _;
            std::fs::write(&path, text).expect("written");
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("ours");
            let mut spec = spec(1);
            spec.programs[0].path.clone_from(&path);
            Shape::of(&spec)
        };
        let first = shape("#!/bin/sh\n");
        let difference = first.difference(&shape("#!/bin/sh\necho\n"));
        assert!(difference.expect("it differs").contains("content of"));
        assert_eq!(first.difference(&shape("#!/bin/sh\n")), None);
    }
}
