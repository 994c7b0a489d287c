//! The messages between clients and event loggers (docs/design/event-logger.md).

use crate::frames::{decode_then_encode, encode_then_decode, encoded};
use crate::input::Input;
use refrain_eventlog::acceptor::{Life, RankLog};
use refrain_eventlog::message::{
    Begins, CommitPath, Hello, Holding, PROTOCOL, RemoteRing, ToClient, ToLogger, Welcome,
};
use refrain_eventlog::{Level, LoggerId};
use refrain_logging::determinant::EventIndex;
use refrain_ring::{Clock, Incarnation, Rank};

/// Checks both directions.
pub fn check(bytes: &[u8]) {
    decode_then_encode::<ToLogger>(&PROTOCOL, bytes);
    decode_then_encode::<ToClient>(&PROTOCOL, bytes);
    let input = &mut Input::new(bytes);
    encode_then_decode(&PROTOCOL, &to_logger(input));
    encode_then_decode(&PROTOCOL, &to_client(input));
}

fn to_logger(input: &mut Input<'_>) -> ToLogger {
    match input.u8() % 8 {
        0 => ToLogger::Hello(Hello {
            job: input.u64(),
            rank: Rank(input.u32()),
            incarnation: Incarnation(input.u32()),
            first_kept: EventIndex(input.u64()),
            begins: input.u8().is_multiple_of(2).then(|| Begins {
                start: EventIndex(input.u64()),
                clock_before: Clock(input.u64()),
                follows: Incarnation(input.u32()),
            }),
            way: match input.u8() % 3 {
                0 => CommitPath::SharedMemory,
                1 => CommitPath::Libfabric,
                _ => CommitPath::Messages,
            },
        }),
        1 => ToLogger::Commit {
            batch: input.bytes(),
        },
        2 => ToLogger::Drain,
        3 => ToLogger::Trim { clock: input.u64() },
        4 => ToLogger::Read {
            job: input.u64(),
            rank: input.u32(),
            from: input.u64(),
            after_clock: input.u8().is_multiple_of(2).then(|| input.u64()),
        },
        5 => ToLogger::List,
        6 => ToLogger::RankLog {
            job: input.u64(),
            rank: input.u32(),
        },
        _ => ToLogger::Leave,
    }
}

fn level(input: &mut Input<'_>) -> Level {
    match input.u8() % 2 {
        0 => Level::Placed,
        _ => Level::Durable,
    }
}

fn to_client(input: &mut Input<'_>) -> ToClient {
    match input.u8() % 7 {
        0 => ToClient::Welcome(Welcome {
            logger: LoggerId(input.u32()),
            end: EventIndex(input.u64()),
            last_clock: Clock(input.u64()),
            level: level(input),
            remote: input.u8().is_multiple_of(2).then(|| RemoteRing {
                provider: input.text(),
                address: input.bytes(),
                base: input.u64(),
                key: input.u64(),
            }),
        }),
        1 => ToClient::Stable {
            logger: LoggerId(input.u32()),
            rank: input.u32(),
            incarnation: input.u32(),
            clock: input.u64(),
            end: input.u64(),
            level: level(input),
        },
        2 => ToClient::Consumed {
            position: input.u64(),
        },
        3 => ToClient::Events {
            batches: input.bytes(),
            is_last: input.u8().is_multiple_of(2),
        },
        4 => ToClient::Ranks {
            ranks: (0..input.u8() % 4).map(|_| holding(input)).collect(),
        },
        5 => ToClient::RankLog(RankLog {
            incarnation: Incarnation(input.u32()),
            first: EventIndex(input.u64()),
            clock_before: Clock(input.u64()),
            end: EventIndex(input.u64()),
            last_clock: Clock(input.u64()),
            trimmed: Clock(0),
            lives: (0..input.u8() % 4)
                .map(|_| Life {
                    incarnation: Incarnation(input.u32()),
                    start: EventIndex(input.u64()),
                })
                .collect(),
        }),
        _ => ToClient::Refused {
            reason: input.text(),
        },
    }
}

fn holding(input: &mut Input<'_>) -> Holding {
    Holding {
        job: input.u64(),
        rank: input.u32(),
        incarnation: input.u32(),
        first: input.u64(),
        clock_before: input.u64(),
        end: input.u64(),
        last_clock: input.u64(),
    }
}

/// One message of each kind, with numbers on both sides of 2^32.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for kind in 0..8_u8 {
        let bytes: Vec<u8> = [kind]
            .into_iter()
            .chain((1..90_u8).map(|at| at.wrapping_mul(kind)))
            .collect();
        seeds.push(encoded(&PROTOCOL, &to_logger(&mut Input::new(&bytes))));
        if kind < 7 {
            seeds.push(encoded(&PROTOCOL, &to_client(&mut Input::new(&bytes))));
        }
    }
    seeds.push(encoded(
        &PROTOCOL,
        &ToLogger::Read {
            job: u64::MAX,
            rank: 1,
            from: (1 << 32) - 1,
            after_clock: Some(1 << 32),
        },
    ));
    seeds
}
