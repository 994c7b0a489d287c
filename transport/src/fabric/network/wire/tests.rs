use super::*;

fn header() -> WireHeader {
    WireHeader {
        kind: Kind::Distant,
        source: Rank(0x0403_0201),
        incarnation: Incarnation(7),
        to_incarnation: Incarnation(u32::MAX),
        job: u64::MAX - 3,
        sequence: 1 << 33,
        taken: (1 << 32) + 5,
        control_taken: u64::MAX,
        held: 5,
        offset: 0x1122_3344_5566_7788,
    }
}

#[test]
fn every_byte_is_as_documented() {
    let mut expected = vec![2, 1, 0, 0, 1, 2, 3, 4, 7, 0, 0, 0, 255, 255, 255, 255];
    expected.extend([252, 255, 255, 255, 255, 255, 255, 255]);
    expected.extend([0, 0, 0, 0, 2, 0, 0, 0]);
    expected.extend([5, 0, 0, 0, 1, 0, 0, 0]);
    expected.extend([255; 8]);
    expected.extend([5, 0, 0, 0, 0, 0, 0, 0]);
    expected.extend([0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11]);
    assert_eq!(header().encode().to_vec(), expected);
    assert_eq!(WireHeader::decode(&expected), Ok(header()));
}

#[test]
fn every_byte_of_a_short_header_is_as_documented() {
    let header = BriefHeader {
        flags: 9,
        attached_bytes: 7,
        source: Rank(0x0403_0201),
        key: 0x1122_3344_5566_7788,
        sequence: 0xa1a2_a3a4,
        taken: 0xb1b2_b3b4,
        control_taken: 0xc1c2,
        held: 0xd1d2,
        ssn: Ssn(0x0807_0605_0403_0201),
        context: 0xe1e2_e3e4,
        tag: -2,
    };
    let mut expected = vec![9, 1, 9, 7, 1, 2, 3, 4];
    expected.extend([0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11]);
    expected.extend([0xa4, 0xa3, 0xa2, 0xa1, 0xb4, 0xb3, 0xb2, 0xb1]);
    expected.extend([0xc2, 0xc1, 0xd2, 0xd1, 1, 2, 3, 4, 5, 6, 7, 8]);
    expected.extend([0xe4, 0xe3, 0xe2, 0xe1, 254, 255, 255, 255]);
    assert_eq!(header.encode().to_vec(), expected);
    assert_eq!(BriefHeader::decode(&expected), Ok(header));
    assert_eq!(
        BriefHeader::decode(&expected[..43]),
        Err(WireError::Short(43))
    );
    for (at, byte, error) in [(0, 1, WireError::Kind(1)), (1, 2, WireError::Version(2))] {
        let mut bent = expected.clone();
        bent[at] = byte;
        assert_eq!(BriefHeader::decode(&bent), Err(error));
    }
}

/// Numbers around every value where low bits wrap.
#[test]
fn numbers_come_back_from_their_low_bits() {
    for near in [0, 1 << 16, 1 << 31, 1 << 32, 1 << 63, u64::MAX - 9] {
        for distance in -9..=9 {
            let number = near.wrapping_add_signed(distance);
            assert_eq!(nearest(near, number as u32), number);
            assert_eq!(nearest_u16(near, number as u16), number);
        }
    }
}

#[test]
fn no_two_pairs_of_incarnations_share_a_key() {
    let lives = [0, 1, 2, u32::MAX - 1, u32::MAX].map(Incarnation);
    let mut keys: Vec<u64> = Vec::new();
    for from in lives {
        keys.extend(lives.map(|to| connection_key(u64::MAX - 5, from, to)));
    }
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), lives.len() * lives.len());
}

#[test]
fn every_kind_comes_back_and_no_other_does() {
    for byte in 0..=255 {
        let mut bytes = WireHeader {
            offset: 0,
            ..header()
        }
        .encode();
        bytes[0] = byte;
        match WireHeader::decode(&bytes) {
            Ok(decoded) => assert_eq!(decoded.kind as u8, byte),
            Err(error) => {
                assert_eq!(error, WireError::Kind(byte));
                assert!(byte == 0 || byte > 8, "kind {byte} is refused");
            }
        }
    }
}

#[test]
fn what_this_version_never_wrote_is_refused() {
    let bytes = header().encode();
    let bent = |at: usize, byte: u8| {
        let mut bytes = bytes;
        bytes[at] = byte;
        WireHeader::decode(&bytes)
    };
    assert_eq!(bent(1, 2), Err(WireError::Version(2)));
    assert_eq!(bent(2, 1), Err(WireError::Reserved));
    assert_eq!(bent(3, 1), Err(WireError::Reserved));
    assert_eq!(bent(52, 1), Err(WireError::Reserved));
    assert_eq!(
        bent(0, 1),
        Err(WireError::Reserved),
        "a frame has no offset"
    );
    let held = WireHeader {
        taken: 4,
        ..header()
    };
    let error = WireError::Held { held: 5, taken: 4 };
    assert_eq!(WireHeader::decode(&held.encode()), Err(error));
    assert_eq!(WireHeader::decode(&bytes[..63]), Err(WireError::Short(63)));
}
