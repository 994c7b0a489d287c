//! The messages between launcher and ranks (docs/formats/wire-format.md).

use crate::frames::{decode_then_encode, encode_then_decode, encoded};
use crate::input::Input;
use refrain_job::config::{JobConfig, VerbsConfig};
use refrain_job::control::message::{CONTROL, StatusFigures, ToLauncher, ToRank};

/// Checks both directions of both kinds of messages.
pub fn check(bytes: &[u8]) {
    decode_then_encode::<ToLauncher>(&CONTROL, bytes);
    decode_then_encode::<ToRank>(&CONTROL, bytes);
    let input = &mut Input::new(bytes);
    encode_then_decode(&CONTROL, &to_launcher(input));
    encode_then_decode(&CONTROL, &to_rank(input));
}

fn to_launcher(input: &mut Input<'_>) -> ToLauncher {
    match input.u8() % 10 {
        0 => ToLauncher::Hello(input.u32()),
        1 => ToLauncher::Put {
            key: input.text(),
            value: input.bytes(),
            memory: input.u8().is_multiple_of(2),
        },
        2 => ToLauncher::Get(input.text()),
        3 => ToLauncher::Fence {
            last: input.u8().is_multiple_of(2),
            generation: input.u64(),
        },
        4 => ToLauncher::Finalize,
        5 => ToLauncher::Taking(input.u64()),
        6 => ToLauncher::Stable {
            checkpoint: input.u64(),
            bytes: input.u64(),
            log_bytes: input.u64(),
        },
        7 => ToLauncher::Status(Box::new(StatusFigures {
            received_bytes: input.u64(),
            sent_bytes: input.u64(),
            log_bytes: input.u64(),
            log_bytes_max: input.u64(),
            disk_bytes: input.u64(),
            gate_waits: input.u64(),
            gate_wait_us: input.u64(),
            heeds_requests: input.u8().is_multiple_of(2),
        })),
        8 => ToLauncher::WantCheckpoint(input.u32()),
        _ => ToLauncher::Abort(input.text()),
    }
}

fn to_rank(input: &mut Input<'_>) -> ToRank {
    match input.u8() % 6 {
        0 => ToRank::Welcome {
            job: input.u64(),
            rank: input.u32(),
            size: input.u32(),
            incarnation: input.u32(),
            alone: input.u8().is_multiple_of(2),
            config: Box::new(JobConfig {
                fabric: input.text(),
                log_memory_bytes: input.u8().is_multiple_of(2).then(|| input.u64()),
                verbs: VerbsConfig {
                    library: input.u8().is_multiple_of(2).then(|| input.text()),
                    device: input.u8().is_multiple_of(2).then(|| input.text()),
                    port: input.u8().is_multiple_of(2).then(|| input.u8()),
                    gid_index: input.u8().is_multiple_of(2).then(|| input.u8()),
                    mtu_bytes: input.u8().is_multiple_of(2).then(|| input.u32()),
                },
                ..JobConfig::default()
            }),
        },
        1 => ToRank::Value {
            key: input.text(),
            value: input.bytes(),
            memory: input.u8().is_multiple_of(2),
        },
        2 => ToRank::FenceDone(input.u64()),
        3 => ToRank::CheckpointWanted,
        4 => ToRank::AskStatus,
        _ => ToRank::Stop(input.text()),
    }
}

/// One message of each kind, with counters on both sides of 2^32.
pub fn seeds() -> Vec<Vec<u8>> {
    let (key, value) = ("address-0".to_owned(), vec![1, 2, 3]);
    let from_ranks = [
        ToLauncher::Hello(4711),
        ToLauncher::Put {
            key: key.clone(),
            value: value.clone(),
            memory: true,
        },
        ToLauncher::Get(key.clone()),
        ToLauncher::Fence {
            last: false,
            generation: (1 << 32) + 5,
        },
        ToLauncher::Statistics(Box::default()),
        ToLauncher::Taking((1 << 32) + 6),
        ToLauncher::Stable {
            checkpoint: (1 << 32) + 6,
            bytes: 1 << 40,
            log_bytes: 4096,
        },
        ToLauncher::Status(Box::new(StatusFigures {
            received_bytes: 1 << 33,
            heeds_requests: true,
            ..StatusFigures::default()
        })),
        ToLauncher::WantCheckpoint(3),
        ToLauncher::Finalize,
        ToLauncher::Abort("no room".into()),
    ];
    let to_ranks = [
        ToRank::Welcome {
            job: u64::MAX,
            rank: 1,
            size: 2,
            incarnation: 0,
            config: Box::default(),
            alone: false,
        },
        ToRank::Value {
            key,
            value,
            memory: false,
        },
        ToRank::FenceDone(0),
        ToRank::CheckpointWanted,
        ToRank::AskStatus,
        ToRank::Stop("rank 1 failed".into()),
    ];
    let from_ranks = from_ranks.iter().map(|it| encoded(&CONTROL, it));
    let to_ranks = to_ranks.iter().map(|it| encoded(&CONTROL, it));
    from_ranks.chain(to_ranks).collect()
}
