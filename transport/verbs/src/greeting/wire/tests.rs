use super::*;

fn greeting() -> Greeting {
    Greeting {
        from: Identity([1; 16]),
        to: Identity([2; 16]),
        offer: Offer {
            generation: 3,
            qpn: 0x11_2233,
            psn: 0x44_5566,
        },
        stage: Stage::Established,
        contact: Contact {
            gid: [0xfe; 16],
            lid: 0x0102,
            qpn: 0x77_8899,
            qkey: 0x0aab_bccd,
            mtu: 5,
            reads_served: 16,
            reads_asked: 8,
        },
    }
}

#[test]
fn every_byte_has_its_place() {
    let bytes = greeting().encode();
    let mut expected = b"RfGr\x01\x02\0\0".to_vec();
    expected.extend([1; 16]);
    expected.extend([2; 16]);
    expected.extend([3, 0, 0, 0, 0x33, 0x22, 0x11, 0]);
    expected.extend([0x66, 0x55, 0x44, 0]);
    expected.extend([0xfe; 16]);
    expected.extend([0x99, 0x88, 0x77, 0, 0xcd, 0xbc, 0xab, 0x0a]);
    expected.extend([2, 1, 5, 16, 8, 0, 0, 0]);
    assert_eq!(bytes[..], expected);
    assert_eq!(Greeting::decode(&bytes), Ok(greeting()));
}

#[test]
fn what_is_no_greeting_is_refused() {
    let with = |at: usize, byte: u8| {
        let mut bytes = greeting().encode();
        bytes[at] = byte;
        Greeting::decode(&bytes)
    };
    let bytes = greeting().encode();
    assert_eq!(
        Greeting::decode(&bytes[..83]),
        Err(GreetingError::Length(83))
    );
    assert_eq!(
        Greeting::decode(&[&bytes[..], &[0]].concat()),
        Err(GreetingError::Length(85))
    );
    assert_eq!(with(0, b'x'), Err(GreetingError::Magic(*b"xfGr")));
    assert_eq!(with(4, 2), Err(GreetingError::Version(2)));
    let impossible = [
        (5, 3, "stage"),
        (6, 1, "reserved byte"),
        (83, 1, "reserved byte"),
        (40, 0, "generation"),
        (47, 1, "queue pair number"),
        (71, 1, "queue pair number"),
        (51, 1, "packet sequence number"),
        (78, 0, "MTU"),
        (78, 6, "MTU"),
    ];
    for (at, byte, field) in impossible {
        assert_eq!(
            with(at, byte),
            Err(GreetingError::Field(field)),
            "byte {at}"
        );
    }
    let mut to_itself = greeting();
    to_itself.to = to_itself.from;
    assert_eq!(
        Greeting::decode(&to_itself.encode()),
        Err(GreetingError::Field("addressee"))
    );
}

#[test]
fn the_queue_pairs_of_management_are_nobodys() {
    for qpn in [0, 1] {
        let mut offered = greeting();
        offered.offer.qpn = qpn;
        assert!(Greeting::decode(&offered.encode()).is_err());
        let mut reached = greeting();
        reached.contact.qpn = qpn;
        assert!(Greeting::decode(&reached.encode()).is_err());
    }
}
