//! Messages of all sizes, gathered from two parts.

use crate::bytes::{clear, fill, holds};
use crate::pair::{Pair, with_every_provider};
use refrain_libfabric::{Error, Kind, MessageEndpoint, Part, Refused, RemoteMemory};

const REGION_BYTES: usize = 4 << 20;
const HEADER_BYTES: usize = 48;
const INBOX: usize = 2 << 20;

/// Header and payload of a message of `bytes` bytes, which are not adjacent.
fn parts(pair: &Pair, bytes: usize) -> [Part; 2] {
    let memory = pair.a.memory;
    let first = bytes.min(HEADER_BYTES);
    [
        Part {
            memory,
            offset: 64,
            bytes: first,
        },
        Part {
            memory,
            offset: 4096,
            bytes: bytes - first,
        },
    ]
}

fn exchange(pair: &mut Pair, bytes: usize, inject: bool, seed: u8) {
    let parts = parts(pair, bytes);
    fill(&pair.a.region, parts[0].offset, parts[0].bytes, seed);
    fill(&pair.a.region, parts[1].offset, parts[1].bytes, !seed);
    clear(&pair.b.region, INBOX, bytes + 64);
    let inbox = Part {
        memory: pair.b.memory,
        offset: INBOX,
        bytes: bytes + 64,
    };
    pair.start(|pair| pair.b.endpoint.receive(inbox, 1 << 40));
    let to = pair.a.peer;
    pair.start(|pair| {
        if inject {
            pair.a.endpoint.inject(to, &parts)
        } else {
            pair.a.endpoint.send(to, &parts, 7)
        }
    });
    if inject {
        // The parts belong to the caller again.
        clear(&pair.a.region, parts[0].offset, parts[0].bytes);
        clear(&pair.a.region, parts[1].offset, parts[1].bytes);
    } else {
        let sent = pair.until(|pair| pair.a.completion(7));
        assert_eq!(sent.outcome, Ok(()));
        assert_eq!((sent.kind, sent.bytes), (Kind::Send, bytes));
    }
    let received = pair.until(|pair| pair.b.completion(1 << 40));
    assert_eq!(received.outcome, Ok(()));
    assert_eq!((received.kind, received.bytes), (Kind::Receive, bytes));
    let first = parts[0].bytes;
    assert!(holds(&pair.b.region, INBOX, first, seed));
    assert!(holds(&pair.b.region, INBOX + first, bytes - first, !seed));
    assert_eq!(pair.a.endpoint.operations_in_flight(), 0);
    assert_eq!(pair.b.endpoint.operations_in_flight(), 0);
    assert!(pair.a.completions.is_empty() && pair.b.completions.is_empty());
}

#[test]
fn messages_of_all_sizes_arrive_whole() {
    with_every_provider(|library, info| {
        let mut pair = Pair::open(library, info, REGION_BYTES);
        let inject = info.inject_bytes();
        let sizes = [
            0,
            1,
            inject - 1,
            inject,
            inject + 1,
            4096,
            64 << 10,
            1 << 20,
        ];
        for (seed, bytes) in sizes.into_iter().enumerate() {
            exchange(&mut pair, bytes, false, seed as u8);
            if bytes <= inject {
                exchange(&mut pair, bytes, true, seed as u8 + 100);
            }
        }
    });
}

/// Messages in one direction alone do not show whether the other side knows where to put messages
/// that come back.
#[test]
fn messages_go_both_ways() {
    with_every_provider(|library, info| {
        let mut pair = Pair::open(library, info, REGION_BYTES);
        for (seed, bytes) in [8, 1024, 64 << 10, 8, 1024].into_iter().enumerate() {
            for _ in 0..2 {
                exchange(&mut pair, bytes, bytes <= info.inject_bytes(), seed as u8);
                exchange(&mut pair, bytes, false, seed as u8 + 50);
                core::mem::swap(&mut pair.a, &mut pair.b);
            }
        }
    });
}

#[test]
fn an_injected_message_is_not_longer_than_the_provider_can_copy() {
    with_every_provider(|library, info| {
        let mut pair = Pair::open(library, info, REGION_BYTES);
        let (to, parts) = (pair.a.peer, parts(&pair, info.inject_bytes() + 1));
        let Err(Refused::Failed(error)) = pair.a.endpoint.inject(to, &parts) else {
            panic!("a provider was given more than it can copy");
        };
        assert_eq!(error.code(), refrain_libfabric::constants::FI_EMSGSIZE);
        exchange(&mut pair, 100, false, 3);
    });
}

#[test]
fn parts_outside_registered_memory_are_refused() {
    with_every_provider(|library, info| {
        let mut pair = Pair::open(library, info, REGION_BYTES);
        let (to, memory) = (pair.a.peer, pair.a.memory);
        for (offset, bytes) in [
            (REGION_BYTES, 1),
            (REGION_BYTES - 1, 2),
            (usize::MAX, 2),
            (2, usize::MAX),
        ] {
            let part = Part {
                memory,
                offset,
                bytes,
            };
            let is_invalid = |result| matches!(result, Err(Refused::Failed(error)) if Error::code(&error) == refrain_libfabric::constants::FI_EINVAL);
            assert!(is_invalid(pair.a.endpoint.send(to, &[part], 1)));
            assert!(is_invalid(pair.a.endpoint.inject(to, &[part])));
            assert!(is_invalid(pair.a.endpoint.receive(part, 1)));
            assert!(is_invalid(pair.a.endpoint.write(
                to,
                part,
                RemoteMemory::default(),
                1
            )));
        }
        let tiny = Part {
            memory,
            offset: 0,
            bytes: 1,
        };
        assert!(matches!(
            pair.a.endpoint.send(to, &[tiny; 9], 1),
            Err(Refused::Failed(_))
        ));
        assert_eq!(pair.a.endpoint.operations_in_flight(), 0);
    });
}

/// The provider refuses further sends at some depth, or the endpoint does: both cases are
/// distinguished, and no message is lost.
#[test]
fn more_messages_than_fit_are_refused_and_go_later() {
    const MESSAGES: u64 = 300;
    with_every_provider(|library, info| {
        let mut pair = Pair::open(library, info, REGION_BYTES);
        let (mut sent, mut posted, mut received, mut completed, mut refused) = (0, 0, 0, 0, 0);
        let (a_memory, b_memory, peer) = (pair.a.memory, pair.b.memory, pair.a.peer);
        pair.until(|pair| {
            // Receives are posted late, so that the sender reaches its limits.
            if refused > 0 && posted < MESSAGES && posted - received < 32 {
                let part = Part {
                    memory: b_memory,
                    offset: INBOX + (posted % 32) as usize * 1024,
                    bytes: 1024,
                };
                match pair.b.endpoint.receive(part, posted) {
                    Ok(()) => posted += 1,
                    Err(Refused::Again) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            if sent < MESSAGES {
                let part = Part {
                    memory: a_memory,
                    offset: 0,
                    bytes: 1 + sent as usize,
                };
                match pair.a.endpoint.send(peer, &[part], sent) {
                    Ok(()) => sent += 1,
                    Err(Refused::Again | Refused::Full) => refused += 1,
                    Err(error) => panic!("{error}"),
                }
                // A provider that takes all messages refuses none.
                if sent == MESSAGES {
                    refused += 1;
                }
            }
            for completion in pair.a.completions.drain(..) {
                assert_eq!(completion.outcome, Ok(()));
                completed += 1;
            }
            for completion in pair.b.completions.drain(..) {
                assert_eq!(completion.outcome, Ok(()));
                received += 1;
            }
            (completed == MESSAGES && received == MESSAGES).then_some(())
        });
        println!("  {refused} times refused");
    });
}
