//! Greetings that endpoints of verbs exchange before they connect
//! (docs/design/verbs-connections.md).

use crate::input::Input;
use core::time::Duration;
use refrain_verbs::greeting::{
    Connecting, Contact, Effect, GREETING_BYTES, GREETING_VERSION, Greeting, GreetingError,
    Identity, NUMBER_MAX, Offer, Stage,
};

/// Checks both directions, and one endpoint with any sequence of greetings.
pub fn check(bytes: &[u8]) {
    decode_then_encode(bytes);
    let mut input = Input::new(bytes);
    encode_then_decode(&from_input(&mut input));
    if bytes.len() > GREETING_BYTES {
        hear(&mut input, bytes.len() / 32);
    }
}

fn decode_then_encode(bytes: &[u8]) {
    match Greeting::decode(bytes) {
        Ok(greeting) => {
            assert_eq!(greeting.encode()[..], *bytes, "{greeting:?}");
            assert!(permitted(&greeting), "{greeting:?}");
        }
        Err(GreetingError::Length(found)) => {
            assert_eq!(found, bytes.len());
            assert_ne!(found, GREETING_BYTES);
        }
        Err(GreetingError::Magic(found)) => {
            assert_eq!(found, bytes[..4]);
            assert_ne!(&found, b"RfGr");
        }
        Err(GreetingError::Version(found)) => {
            assert_eq!(found, bytes[4]);
            assert_ne!(found, GREETING_VERSION);
        }
        Err(GreetingError::Field(name)) => assert!(!name.is_empty()),
    }
}

fn encode_then_decode(greeting: &Greeting) {
    let decoded = Greeting::decode(&greeting.encode());
    if permitted(greeting) {
        assert_eq!(decoded.as_ref(), Ok(greeting));
    } else {
        assert!(
            matches!(decoded, Err(GreetingError::Field(_))),
            "{greeting:?}"
        );
    }
}

/// The format's rules, independent of the decoder.
fn permitted(greeting: &Greeting) -> bool {
    let is_number = |qpn| qpn > 1 && qpn <= NUMBER_MAX;
    greeting.from != greeting.to
        && greeting.offer.generation > 0
        && is_number(greeting.offer.qpn)
        && is_number(greeting.contact.qpn)
        && greeting.offer.psn <= NUMBER_MAX
        && matches!(greeting.contact.mtu, 1..=5)
}

fn from_input(input: &mut Input<'_>) -> Greeting {
    let mut identity = || {
        let (low, high) = (input.u64().to_le_bytes(), input.u64().to_le_bytes());
        Identity([low, high].concat().try_into().expect("sixteen bytes"))
    };
    let (from, to) = (identity(), identity());
    let mask = if input.u8() == 0 {
        u32::MAX
    } else {
        NUMBER_MAX
    };
    Greeting {
        from,
        to,
        offer: Offer {
            generation: input.u32(),
            qpn: input.u32() & mask,
            psn: input.u32() & mask,
        },
        stage: stage(input),
        contact: Contact {
            gid: from.0,
            lid: input.u16(),
            qpn: input.u32() & mask,
            qkey: input.u32(),
            mtu: input.u8() % 7,
            reads_served: input.u8(),
            reads_asked: input.u8(),
        },
    }
}

fn stage(input: &mut Input<'_>) -> Stage {
    [Stage::Fresh, Stage::Bound, Stage::Established][usize::from(input.u8() % 3)]
}

/// Checks any sequence of greetings and breaks of queue pairs: generations increase, and a queue
/// pair is bound once, to one queue pair of the peer.
fn hear(input: &mut Input<'_>, times: usize) {
    let contact = from_input(input).contact;
    let mut side = Side {
        connecting: Connecting::new(NOW, OWN, contact, THEIRS, offer(1)),
        newest: 1,
        bound: 0,
    };
    for _ in 0..times {
        let mut effects = Vec::new();
        let generation = match input.u8() % 4 {
            0 => input.u32(),
            near => side.newest.saturating_add(near.into()).saturating_sub(2),
        };
        let greeting = said(offer(generation.max(1)), input, contact);
        let connecting = &mut side.connecting;
        match input.u8() % 4 {
            0 => connecting.broke(NOW, generation, &mut effects),
            1 => connecting.data_arrived(NOW, generation, &mut effects),
            _ => connecting.heard(NOW, &greeting, &mut effects),
        }
        side.carry_out(effects);
    }
}

const NOW: Duration = Duration::from_secs(1);
const OWN: Identity = Identity([1; 16]);
const THEIRS: Identity = Identity([2; 16]);

fn offer(generation: u32) -> Offer {
    Offer {
        generation,
        qpn: 9,
        psn: 9,
    }
}

struct Side {
    connecting: Connecting,
    /// Generation of the newest queue pair.
    newest: u32,
    /// Generation of the queue pair that was bound last.
    bound: u32,
}

impl Side {
    fn carry_out(&mut self, mut effects: Vec<Effect>) {
        let mut at = 0;
        while let Some(effect) = effects.get(at).copied() {
            at += 1;
            match effect {
                Effect::Replace { generation } => {
                    assert!(generation > self.newest, "{:?}", self.connecting);
                    self.newest = generation;
                    let is_wanted = self
                        .connecting
                        .offered(NOW, offer(generation), &mut effects);
                    assert!(is_wanted);
                }
                Effect::Bind { theirs, .. } => {
                    assert_eq!(theirs.generation, self.newest);
                    assert_ne!(self.bound, self.newest, "bound twice");
                    self.bound = self.newest;
                }
                Effect::Established { generation } => assert_eq!(generation, self.bound),
                Effect::Send(greeting) => {
                    assert_eq!(greeting.offer.generation, self.newest);
                    let is_bound = self.bound == self.newest;
                    assert_eq!(greeting.stage != Stage::Fresh, is_bound);
                }
                Effect::Silent { .. } => {}
            }
        }
    }
}

fn said(offer: Offer, input: &mut Input<'_>, contact: Contact) -> Greeting {
    Greeting {
        from: THEIRS,
        to: OWN,
        offer,
        stage: stage(input),
        contact,
    }
}

/// One greeting of each stage, and an input that is long enough for a sequence.
pub fn seeds() -> Vec<Vec<u8>> {
    let greeting = |stage| Greeting {
        stage,
        offer: Offer {
            generation: 3,
            qpn: 17,
            psn: NUMBER_MAX,
        },
        ..said(
            Offer {
                generation: 1,
                qpn: 2,
                psn: 0,
            },
            &mut Input::new(&[]),
            Contact {
                gid: [0xfe; 16],
                lid: 4,
                qpn: 33,
                qkey: 0x8001_0000,
                mtu: 5,
                reads_served: 16,
                reads_asked: 16,
            },
        )
    };
    let mut seeds: Vec<Vec<u8>> = [Stage::Fresh, Stage::Bound, Stage::Established]
        .map(|stage| greeting(stage).encode().to_vec())
        .to_vec();
    seeds.push((0..=255).cycle().step_by(7).take(512).collect());
    seeds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greetings_among_the_seeds_decode() {
        for seed in &seeds()[..3] {
            Greeting::decode(seed).expect("a greeting of ours");
        }
    }
}
