//! What clients and checkpoint servers say to each other
//! (docs/design/checkpoint-server.md).

use crate::frames::{decode_then_encode, encode_then_decode, encoded};
use crate::input::Input;
use refrain_checkpoint::format::Header;
use refrain_checkpoint::message::{PROTOCOL, Refusal, ToClient, ToServer, Whole};
use refrain_checkpoint::packing::{Strip, empty_strip};
use refrain_checkpoint::server::Jobs;
use refrain_checkpoint::server::session::{Answer, Session};
use refrain_checkpoint::{Damaged, SectionInfo, SectionKind};
use refrain_ring::{Incarnation, Rank};
use refrain_storage::Directory;
use refrain_storage::simulated::SimulatedDisk;
use refrain_wire::Frame;
use std::cell::RefCell;
use std::sync::Arc;

thread_local! {
    /// A megabyte that need not be made anew each time.
    static STRIP: RefCell<Strip> = RefCell::new(empty_strip());
}

/// Checks both directions, and that a server stands whatever is said to it.
pub fn check(bytes: &[u8]) {
    decode_then_encode::<ToServer>(&PROTOCOL, bytes);
    decode_then_encode::<ToClient>(&PROTOCOL, bytes);
    if let Ok(Some(Frame::Data(length))) = PROTOCOL.peek(bytes) {
        assert!((1..=PROTOCOL.data_bytes_max).contains(&length));
    }
    let input = &mut Input::new(bytes);
    encode_then_decode(&PROTOCOL, &to_server(input));
    encode_then_decode(&PROTOCOL, &to_client(input));
    conversation(bytes);
}

/// Says anything in any order; it is answered, or was nothing.
fn conversation(bytes: &[u8]) {
    let disk = SimulatedDisk::new(1);
    let mut session = Session::new(Arc::new(Jobs::new(Directory::from(disk))));
    let input = &mut Input::new(bytes);
    session.message(ToServer::Hello {
        job: 1,
        prefix: "a-".into(),
    });
    for _ in 0..4 {
        let answer = match input.u8() % 3 {
            0 => {
                let part = input.bytes();
                STRIP.with_borrow_mut(|strip| {
                    strip.bytes_mut()[..part.len()].copy_from_slice(&part);
                    session.strip(strip, part.len())
                })
            }
            _ => session.message(to_server(input)),
        };
        if let Answer::Send(found) = answer {
            panic!("nothing was ever whole: {found:?}");
        }
    }
}

fn to_server(input: &mut Input<'_>) -> ToServer {
    match input.u8() % 5 {
        0 => ToServer::Hello {
            job: input.u64(),
            prefix: input.text(),
        },
        1 => ToServer::Begin {
            rank: input.u32(),
            incarnation: input.u32(),
            number: input.u64(),
        },
        2 => ToServer::Commit { bytes: input.u64() },
        3 => ToServer::Newest {
            rank: input.u32(),
            life: input.u8().is_multiple_of(2).then(|| input.u32()),
        },
        _ => ToServer::RemoveAll,
    }
}

fn to_client(input: &mut Input<'_>) -> ToClient {
    match input.u8() % 6 {
        0 => ToClient::Begun,
        1 => ToClient::Stable {
            bytes: input.u64(),
            left: (0..input.u8() % 3).map(|_| input.text()).collect(),
        },
        2 => ToClient::Found(Box::new(Whole {
            header: Header {
                job: input.u64(),
                rank: Rank(input.u32()),
                incarnation: Incarnation(input.u32()),
                number: input.u64(),
                salt: input.u64(),
            },
            bytes: input.u64(),
            sections: (0..input.u8() % 4).map(|_| section(input)).collect(),
            passed_over: damaged(input),
        })),
        3 => ToClient::Nothing,
        4 => ToClient::Removed,
        _ => ToClient::Refused(refusal(input)),
    }
}

fn section(input: &mut Input<'_>) -> SectionInfo {
    SectionInfo {
        kind: SectionKind::try_from(1 + input.u16() % 3).expect("a kind"),
        id: input.u64(),
        bytes: input.u64(),
    }
}

fn damaged(input: &mut Input<'_>) -> Vec<Damaged> {
    let one = |input: &mut Input<'_>| Damaged {
        file: input.text(),
        number: input.u64(),
        place: input.u64(),
        reason: input.text(),
    };
    (0..input.u8() % 3).map(|_| one(input)).collect()
}

fn refusal(input: &mut Input<'_>) -> Refusal {
    match input.u8() % 6 {
        0 => Refusal::Fenced {
            rank: Rank(input.u32()),
            own: Incarnation(input.u32()),
            found: Incarnation(input.u32()),
        },
        1 => Refusal::NotNext {
            rank: Rank(input.u32()),
            asked: input.u64(),
            found: input.u64(),
        },
        2 => Refusal::GivenUp {
            rank: Rank(input.u32()),
            number: input.u64(),
        },
        3 => Refusal::NoneWhole {
            rank: Rank(input.u32()),
            damaged: damaged(input),
        },
        4 => Refusal::System {
            attempted: input.text(),
            code: input.u8().is_multiple_of(2).then(|| input.u32() as i32),
            error: input.text(),
        },
        _ => Refusal::Other(input.text()),
    }
}

/// One message of each kind.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = vec![PROTOCOL.header(Frame::Data(3)).to_vec()];
    seeds[0].extend([1, 2, 3]);
    for kind in 0..6_u8 {
        let bytes: Vec<u8> = [kind]
            .into_iter()
            .chain((1..60_u8).map(|at| at.wrapping_mul(kind)))
            .collect();
        seeds.push(encoded(&PROTOCOL, &to_server(&mut Input::new(&bytes))));
        seeds.push(encoded(&PROTOCOL, &to_client(&mut Input::new(&bytes))));
    }
    seeds
}
