//! Sealed sessions between two ends that share a secret (docs/guide/hosts.md).

use refrain_wire::{Secret, SecureError, Session};

const PURPOSE: &str = "fuzz";

/// Checks a peer without the secret, and an attacker between two peers that have it.
pub fn check(bytes: &[u8]) {
    peer_without_secret(bytes);
    attacker_between(bytes);
}

/// For any bytes, the session delivers nothing, sends nothing and proves nothing.
fn peer_without_secret(bytes: &[u8]) {
    let secret = Secret::from_bytes([7; Secret::BYTES]);
    let sessions = [
        Session::answerer(&secret, PURPOSE),
        Session::caller(&secret, PURPOSE),
    ];
    for mut session in sessions.map(|session| session.expect("randomness")) {
        session.note_sent(session.unsent().len());
        session.say(b"for peers").expect("it waits");
        let outcome = bytes
            .chunks(29)
            .try_for_each(|piece| session.receive(piece));
        assert!(!session.is_proven(), "{outcome:?}");
        assert_eq!(session.unsent(), b"", "{outcome:?}");
        assert_eq!(session.take_heard(), b"");
    }
}

/// Changes sealed bytes: what is received is what was sent, up to the first change.
fn attacker_between(bytes: &[u8]) {
    let [mut caller, mut answerer] = proven();
    for word in [&b"one"[..], b"two", b"three"] {
        caller.say(word).expect("it is open");
    }
    let mut sealed = caller.unsent().to_vec();
    for (at, change) in bytes.chunks_exact(2).map(|pair| (pair[0], pair[1])) {
        let at = usize::from(at) % sealed.len();
        sealed[at] ^= change;
    }
    let outcome = answerer.receive(&sealed);
    let heard = answerer.take_heard();
    assert!(b"onetwothree".starts_with(&heard[..]), "{heard:?}");
    if sealed == caller.unsent() {
        assert_eq!((outcome, &heard[..]), (Ok(()), &b"onetwothree"[..]));
    } else {
        let is_over = outcome == Err(SecureError::Forged);
        assert!(is_over || heard.len() < b"onetwothree".len());
    }
}

/// Two sessions that have proved the secret to each other.
fn proven() -> [Session; 2] {
    let secret = Secret::from_bytes([9; Secret::BYTES]);
    let mut caller = Session::caller(&secret, PURPOSE).expect("randomness");
    let mut answerer = Session::answerer(&secret, PURPOSE).expect("randomness");
    for _ in 0..2 {
        pass_on(&mut caller, &mut answerer);
        pass_on(&mut answerer, &mut caller);
    }
    assert!(caller.is_proven() && answerer.is_proven());
    [caller, answerer]
}

fn pass_on(from: &mut Session, to: &mut Session) {
    to.receive(from.unsent()).expect("it is unchanged");
    from.note_sent(from.unsent().len());
}

/// A caller's first bytes with a wrong secret, and changes of one record each.
pub fn seeds() -> Vec<Vec<u8>> {
    let stranger = Secret::from_bytes([8; Secret::BYTES]);
    let caller = Session::caller(&stranger, PURPOSE).expect("randomness");
    let changes = [vec![0, 1], vec![2, 128], vec![30, 7, 30, 7]];
    [caller.unsent().to_vec(), b"RFS\x02".to_vec()]
        .into_iter()
        .chain(changes)
        .collect()
}
