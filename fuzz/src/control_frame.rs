//! The control frame (docs/formats/wire-format.md).

use crate::input::Input;
use refrain_ring::{Incarnation, Rank, Ssn};
use refrain_transport::control::{
    CONTROL_BYTES, CONTROL_VERSION, CONTROL_WORDS, Control, ControlError, Piece, Report,
};

/// Checks both directions.
pub fn check(bytes: &[u8]) {
    decode_then_encode(bytes);
    encode_then_decode(&mut Input::new(bytes));
}

fn decode_then_encode(bytes: &[u8]) {
    match Control::decode_bytes(bytes) {
        Ok((control, source, incarnation)) => {
            let encoded = to_bytes(control.encode(source, incarnation));
            assert_eq!(encoded, bytes[..CONTROL_BYTES], "{control:?}");
            assert_eq!(
                Control::decode_bytes(&bytes[..CONTROL_BYTES]),
                Ok((control, source, incarnation))
            );
        }
        Err(ControlError::Short(found)) => {
            assert_eq!(found, bytes.len());
            assert!(found < CONTROL_BYTES);
        }
        Err(ControlError::Version(found)) => {
            assert_eq!(found, bytes[1]);
            assert_ne!(found, CONTROL_VERSION);
        }
        Err(ControlError::Kind(found)) => assert_eq!(found, bytes[0]),
        Err(ControlError::Reserved) => {
            let reserved = [&bytes[2..4], &bytes[12..16], &bytes[24..CONTROL_BYTES]];
            let is_empty_piece = bytes[0] == 9 && bytes[2] == 0;
            assert!(is_empty_piece || reserved.concat().iter().any(|&byte| byte != 0));
        }
    }
}

const REPORTS: [Report; 7] = [
    Report::Finished,
    Report::Closed,
    Report::Gone,
    Report::Covered,
    Report::Ask,
    Report::Past,
    Report::Behind,
];

fn encode_then_decode(input: &mut Input<'_>) {
    let ssn = Ssn(input.u64());
    let control = match input.u8() % 10 {
        0 => Control::ClearToSend { ssn },
        1 => Control::Matched { ssn },
        2 => Control::Horizon { ssn },
        3 => Control::Restart {
            ssn,
            others: input.u32(),
        },
        4 => Control::AskMatched { ssn },
        5 => Control::Freed { ssn },
        6 => {
            let bytes: [u8; Piece::BYTES_MAX] = core::array::from_fn(|_| input.u8());
            let count = 1 + usize::from(input.u8()) % bytes.len();
            let piece = Piece::first_of(&bytes[..count]);
            assert_eq!(piece.count(), count);
            assert_eq!(piece.padded()[..count], bytes[..count]);
            Control::Protocol(piece)
        }
        7 => Control::Token { round: ssn.0 },
        8 => Control::TokenSeen { round: ssn.0 },
        _ => Control::Collective {
            report: REPORTS[usize::from(input.u8()) % REPORTS.len()],
            context: input.u32(),
            name: ssn.0,
        },
    };
    let (source, incarnation) = (Rank(input.u32()), Incarnation(input.u32()));
    let words = control.encode(source, incarnation);
    assert_eq!(Control::decode(words), Ok((control, source, incarnation)));
    assert_eq!(
        Control::decode_bytes(&to_bytes(words)),
        Ok((control, source, incarnation))
    );
}

fn to_bytes(words: [u64; CONTROL_WORDS]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// One frame of each kind, with counters on both sides of 2^32.
pub fn seeds() -> Vec<Vec<u8>> {
    let ssn = Ssn((1 << 32) + 5);
    let reports = REPORTS.map(|report| Control::Collective {
        report,
        context: 1 << 31,
        name: ssn.0,
    });
    let others = [
        Control::ClearToSend { ssn },
        Control::Matched { ssn },
        Control::Horizon { ssn },
        Control::Restart { ssn, others: 7 },
        Control::AskMatched { ssn },
        Control::Freed { ssn },
        Control::Token { round: ssn.0 },
        Control::TokenSeen { round: 1 },
        Control::Protocol(Piece::first_of(&[9; 17])),
        Control::Protocol(Piece::first_of(&[8; Piece::BYTES_MAX])),
    ];
    let encoded = |control: Control| to_bytes(control.encode(Rank(2), Incarnation(1)));
    others.into_iter().chain(reports).map(encoded).collect()
}
