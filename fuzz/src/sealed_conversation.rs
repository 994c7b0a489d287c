//! Conversations between those who share a secret (docs/guide/hosts.md).

use refrain_secure::{Secret, SecureError, Session};

const PURPOSE: &str = "fuzz";

/// Checks what a stranger can do, and somebody on the way.
pub fn check(bytes: &[u8]) {
    a_stranger_speaks(bytes);
    somebody_on_the_way(bytes);
}

/// Whatever comes: nothing is heard, nothing is told, nobody is taken for a friend.
fn a_stranger_speaks(bytes: &[u8]) {
    let secret = Secret::from_bytes([7; Secret::BYTES]);
    let sessions = [
        Session::answerer(&secret, PURPOSE),
        Session::caller(&secret, PURPOSE),
    ];
    for mut session in sessions.map(|session| session.expect("randomness")) {
        session.note_sent(session.unsent().len());
        session.say(b"for friends").expect("it waits");
        let outcome = bytes
            .chunks(29)
            .try_for_each(|piece| session.receive(piece));
        assert!(!session.is_proven(), "{outcome:?}");
        assert_eq!(session.unsent(), b"", "{outcome:?}");
        assert_eq!(session.take_heard(), b"");
    }
}

/// Who bends what friends say: what is heard is what was said, up to there.
fn somebody_on_the_way(bytes: &[u8]) {
    let [mut caller, mut answerer] = friends();
    for word in [&b"one"[..], b"two", b"three"] {
        caller.say(word).expect("it is open");
    }
    let mut sealed = caller.unsent().to_vec();
    for (at, bend) in bytes.chunks_exact(2).map(|pair| (pair[0], pair[1])) {
        let at = usize::from(at) % sealed.len();
        sealed[at] ^= bend;
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

/// Two who have proved themselves to each other.
fn friends() -> [Session; 2] {
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
    to.receive(from.unsent()).expect("nobody bends it");
    from.note_sent(from.unsent().len());
}

/// A caller's first words with a wrong secret, and bends of one record each.
pub fn seeds() -> Vec<Vec<u8>> {
    let stranger = Secret::from_bytes([8; Secret::BYTES]);
    let caller = Session::caller(&stranger, PURPOSE).expect("randomness");
    let bends = [vec![0, 1], vec![2, 128], vec![30, 7, 30, 7]];
    [caller.unsent().to_vec(), b"RFS\x02".to_vec()]
        .into_iter()
        .chain(bends)
        .collect()
}
