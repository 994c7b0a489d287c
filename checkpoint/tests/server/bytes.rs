//! The bytes of messages that carry types of this crate.

use bytes::BytesMut;
use refrain_checkpoint::format::Header;
use refrain_checkpoint::message::{PROTOCOL, Refusal, ToClient, Whole};
use refrain_checkpoint::{Damaged, SectionInfo, SectionKind};
use refrain_ring::{Incarnation, Rank};
use refrain_wire::FRAME_HEADER_BYTES;

fn encoded(message: &ToClient) -> Vec<u8> {
    let mut bytes = BytesMut::new();
    PROTOCOL
        .encode(message, &mut bytes)
        .expect("a short message");
    bytes[FRAME_HEADER_BYTES..].to_vec()
}

fn damaged() -> Damaged {
    Damaged {
        file: "f".into(),
        number: 8,
        place: 9,
        reason: "no".into(),
    }
}

#[test]
fn a_found_checkpoint_is_its_numbers_one_after_the_other() {
    let whole = Whole {
        header: Header {
            job: 1,
            rank: Rank(2),
            incarnation: Incarnation(3),
            number: 4,
            salt: 5,
        },
        bytes: 6,
        sections: vec![SectionInfo {
            kind: SectionKind::Memory,
            id: 7,
            bytes: 128,
        }],
        passed_over: vec![damaged()],
    };
    let message = ToClient::Found(Box::new(whole));
    let expected = [
        &[3, 1, 2, 3, 4, 5, 6][..],
        &[1, 3, 7, 0x80, 1],
        &[1, 1, b'f', 8, 9, 2, b'n', b'o'],
    ];
    assert_eq!(encoded(&message), expected.concat());
    let mut frame = BytesMut::new();
    PROTOCOL.encode(&message, &mut frame).unwrap();
    assert_eq!(PROTOCOL.decode(&mut frame), Ok(Some(message)));
}

#[test]
fn a_refusal_is_its_numbers_one_after_the_other() {
    let rank = Rank(2);
    let (own, found) = (Incarnation(3), Incarnation(4));
    let damaged = vec![damaged()];
    let number = 5;
    for (refusal, expected) in [
        (Refusal::Fenced { rank, own, found }, &[0, 2, 3, 4][..]),
        (
            Refusal::NotNext {
                rank,
                asked: 6,
                found: 7,
            },
            &[1, 2, 6, 7],
        ),
        (Refusal::GivenUp { rank, number }, &[2, 2, 5]),
        (
            Refusal::NoneWhole { rank, damaged },
            &[3, 2, 1, 1, b'f', 8, 9, 2, b'n', b'o'],
        ),
        (Refusal::Busy("x".into()), &[6, 1, b'x']),
    ] {
        let encoded = encoded(&ToClient::Refused(refusal));
        assert_eq!(encoded, [&[6], expected].concat());
    }
}
