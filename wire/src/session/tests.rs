use super::*;
use proptest::prelude::*;

const PURPOSE: &str = "test";

fn secret() -> Secret {
    Secret::from_bytes([7; 32])
}

fn pair() -> (Session, Session) {
    let caller = Session::caller(&secret(), PURPOSE).expect("a caller");
    let answerer = Session::answerer(&secret(), PURPOSE).expect("an answerer");
    (caller, answerer)
}

/// All bytes to be sent, as the network carries them.
fn take_unsent(session: &mut Session) -> Vec<u8> {
    let bytes = session.unsent().to_vec();
    session.note_sent(bytes.len());
    bytes
}

/// Exchanges bytes until neither side has any to send.
fn exchange(one: &mut Session, other: &mut Session) -> Result<(), SecureError> {
    loop {
        let (there, back) = (take_unsent(one), take_unsent(other));
        if there.is_empty() && back.is_empty() {
            return Ok(());
        }
        other.receive(&there)?;
        one.receive(&back)?;
    }
}

fn opened() -> (Session, Session) {
    let (mut caller, mut answerer) = pair();
    exchange(&mut caller, &mut answerer).expect("they know the same");
    assert!(caller.is_proven() && answerer.is_proven());
    (caller, answerer)
}

#[test]
fn what_is_said_is_heard_also_before_it_is_time() {
    let (mut caller, mut answerer) = pair();
    caller.say(b"early").expect("it waits");
    answerer.say(b"too").expect("it waits");
    exchange(&mut caller, &mut answerer).expect("they know the same");
    assert_eq!(answerer.take_heard(), b"early");
    assert_eq!(caller.take_heard(), b"too");
    let long: Vec<u8> = (0..300_000u32).map(|at| (at % 251) as u8).collect();
    answerer.say(&long).expect("open");
    exchange(&mut caller, &mut answerer).expect("open");
    assert_eq!(caller.take_heard(), long);
}

/// No plaintext is on the wire.
#[test]
fn what_is_said_cannot_be_read_on_the_way() {
    let (mut caller, _) = opened();
    caller.say(b"a determinant of rank 3").expect("open");
    let wire = take_unsent(&mut caller);
    assert!(!wire.windows(4).any(|part| part == b"rank"), "{wire:?}");
}

#[test]
fn a_stranger_is_told_nothing() {
    let other = Secret::from_bytes([8; 32]);
    let callers = [
        Session::caller(&other, PURPOSE).expect("a caller"),
        Session::caller(&secret(), "something else").expect("a caller"),
    ];
    for mut stranger in callers {
        let (_, mut answerer) = pair();
        answerer.say(b"for friends").expect("it waits");
        let bytes = take_unsent(&mut stranger);
        assert_eq!(answerer.receive(&bytes), Err(SecureError::WrongSecret));
        assert!(answerer.unsent().is_empty() && !answerer.is_proven());
        assert_eq!(answerer.receive(&[]), Err(SecureError::WrongSecret));
    }
    for (bytes, error) in [
        (&b"GET / HTTP/1.1\r\n"[..], SecureError::NotRefrain),
        (&b"RF\0"[..], SecureError::NotRefrain),
        (&b"RFS\x02"[..], SecureError::Version(2)),
    ] {
        let (_, mut answerer) = pair();
        assert_eq!(answerer.receive(bytes), Err(error));
        assert!(answerer.unsent().is_empty());
    }
}

/// A listener at the address that the caller uses learns nothing, either.
#[test]
fn a_caller_says_nothing_to_a_false_answerer() {
    let other = Secret::from_bytes([8; 32]);
    let (mut caller, mut answerer) = pair();
    caller.say(b"for friends").expect("it waits");
    let mut imposter = Session::answerer(&other, PURPOSE).expect("an answerer");
    let first = take_unsent(&mut caller);
    assert_eq!(imposter.receive(&first), Err(SecureError::WrongSecret));
    // A recorded answer of a true answerer does not help.
    let mut earlier = Session::caller(&secret(), PURPOSE).expect("a caller");
    let bytes = take_unsent(&mut earlier);
    answerer.receive(&bytes).expect("a friend");
    let old = take_unsent(&mut answerer);
    assert_eq!(caller.receive(&old), Err(SecureError::WrongSecret));
    assert!(caller.unsent().is_empty() && !caller.is_proven());
}

/// A complete recorded session of a client with the secret, replayed to another answerer with the
/// same secret.
#[test]
fn a_recorded_conversation_is_of_no_use() {
    let (mut caller, mut answerer) = pair();
    caller.say(b"kill rank 3").expect("it waits");
    let mut recorded = Vec::new();
    for _ in 0..4 {
        let there = take_unsent(&mut caller);
        answerer.receive(&there).expect("a friend");
        recorded.extend(there);
        caller
            .receive(&take_unsent(&mut answerer))
            .expect("a friend");
    }
    assert_eq!(answerer.take_heard(), b"kill rank 3");
    let mut second = Session::answerer(&secret(), PURPOSE).expect("an answerer");
    second.say(b"for friends").expect("it waits");
    assert_eq!(second.receive(&recorded), Err(SecureError::Forged));
    assert!(!second.is_proven() && second.take_heard().is_empty());
    assert!(second.unsent().is_empty());
    // Only its beginning: the session is never proven, and sends no more than 48 bytes.
    let mut third = Session::answerer(&secret(), PURPOSE).expect("an answerer");
    third.say(b"for friends").expect("it waits");
    third.receive(&recorded[..52]).expect("it may be a friend");
    assert!(!third.is_proven());
    assert_eq!(third.unsent().len(), HANDSHAKE_BYTES);
}

#[test]
fn records_come_once_and_in_order() {
    for order in [vec![0, 0], vec![1], vec![1, 0]] {
        let (mut caller, mut answerer) = opened();
        let records = [b"first", b"other"].map(|text| {
            caller.say(text).expect("open");
            take_unsent(&mut caller)
        });
        let mut over = Ok(());
        for index in order {
            over = over.and_then(|()| answerer.receive(&records[index]));
        }
        assert_eq!(over, Err(SecureError::Forged));
        let heard = answerer.take_heard();
        assert!(heard.is_empty() || heard == b"first", "{heard:?}");
    }
    // A session does not accept its own record.
    let (mut caller, _) = opened();
    caller.say(b"mirror").expect("open");
    let own = take_unsent(&mut caller);
    assert_eq!(caller.receive(&own), Err(SecureError::Forged));
}

#[test]
fn what_waits_for_a_silent_one_is_bounded() {
    let (_, mut answerer) = pair();
    let piece = vec![0; WAITING_BYTES_MAX];
    answerer.say(&piece).expect("it waits");
    assert_eq!(answerer.say(&[1]), Err(SecureError::Waiting));
}

proptest! {
    #[test]
    fn pieces_do_not_matter(
        texts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..100), 1..8),
        cuts in prop::collection::vec(1usize..40, 1..20),
    ) {
        let (mut caller, mut answerer) = pair();
        for text in &texts {
            caller.say(text).expect("it waits");
        }
        let mut cuts = cuts.into_iter().cycle();
        loop {
            let (there, back) = (take_unsent(&mut caller), take_unsent(&mut answerer));
            if there.is_empty() && back.is_empty() {
                break;
            }
            let mut rest = there.as_slice();
            while !rest.is_empty() {
                let cut = cuts.next().expect("a cycle").min(rest.len());
                answerer.receive(&rest[..cut]).expect("a friend");
                rest = &rest[cut..];
            }
            caller.receive(&back).expect("a friend");
        }
        prop_assert_eq!(answerer.take_heard(), texts.concat());
    }

    /// With one changed bit anywhere, no wrong byte is received.
    #[test]
    fn a_changed_bit_is_found(at in any::<prop::sample::Index>(), bit in 0u8..8) {
        let (mut caller, mut answerer) = opened();
        caller.say(b"what was said").expect("open");
        let mut wire = take_unsent(&mut caller);
        let at = at.index(wire.len());
        wire[at] ^= 1 << bit;
        let received = answerer.receive(&wire);
        prop_assert!(answerer.take_heard().is_empty());
        // A longer length only makes it wait for more bytes.
        prop_assert!(received == Err(SecureError::Forged) || at < 2);
    }

    #[test]
    fn random_bytes_neither_open_nor_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let (_, mut answerer) = pair();
        let greeted = [&b"RFS\x01"[..], &bytes].concat();
        let _ = answerer.receive(&greeted);
        prop_assert!(!answerer.is_proven() && answerer.unsent().is_empty());
        let (_, mut answerer) = opened();
        let _ = answerer.receive(&bytes);
        prop_assert!(answerer.take_heard().is_empty());
    }
}
