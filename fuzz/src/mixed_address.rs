//! The address of a rank with two fabrics.

use crate::input::Input;
use refrain_transport::fabric::Address;
use refrain_transport::fabric::mixed::address::{Pair, PairError};
use std::fs::File;
use std::sync::{Arc, LazyLock};

/// Checks both directions, with and without memory in the address.
pub fn check(bytes: &[u8]) {
    decode_then_encode(bytes, false);
    decode_then_encode(bytes, true);
    let input = &mut Input::new(bytes);
    let present = input.u8();
    let near = (present & 1 != 0).then(|| input.bytes());
    let far = (present & 2 != 0).then(|| input.bytes());
    encode_then_decode(near, far, present & 4 != 0);
}

/// Opened once, because only its presence matters.
static MEMORY: LazyLock<Address> = LazyLock::new(|| Address {
    bytes: Vec::new(),
    memory: Some(Arc::new(
        File::open("/dev/null").expect("a system with /dev").into(),
    )),
});

fn address(bytes: &[u8], with_memory: bool) -> Address {
    Address {
        bytes: bytes.to_vec(),
        memory: MEMORY.memory.clone().filter(|_| with_memory),
    }
}

fn decode_then_encode(bytes: &[u8], with_memory: bool) {
    match Pair::decode(&address(bytes, with_memory)) {
        Ok(pair) => {
            let again = pair.encode();
            assert_eq!(again.bytes, bytes);
            assert_eq!(again.memory.is_some(), with_memory);
        }
        Err(PairError::Version) => assert_ne!(bytes.first(), Some(&1)),
        Err(PairError::Damaged) => assert_eq!(bytes[0], 1),
    }
}

fn encode_then_decode(near: Option<Vec<u8>>, far: Option<Vec<u8>>, with_memory: bool) {
    let with_memory = with_memory && near.is_some();
    let pair = Pair {
        near: near.as_deref().map(|bytes| address(bytes, with_memory)),
        far: far.as_deref().map(|bytes| address(bytes, false)),
    };
    let decoded = Pair::decode(&pair.encode()).expect("a pair of ours");
    assert!(decoded.far.iter().all(|far| far.memory.is_none()));
    let memory = decoded.near.as_ref().and_then(|near| near.memory.as_ref());
    assert_eq!(memory.is_some(), with_memory);
    assert_eq!(decoded.near.map(|part| part.bytes), near);
    assert_eq!(decoded.far.map(|part| part.bytes), far);
}

/// Each of the two parts present, empty and absent.
pub fn seeds() -> Vec<Vec<u8>> {
    let parts: [Option<&[u8]>; 3] = [None, Some(&[]), Some(&[7; 300])];
    let part = |bytes: Option<&[u8]>| bytes.map(|bytes| address(bytes, false));
    let mut seeds = Vec::new();
    for near in parts {
        for far in parts {
            let pair = Pair {
                near: part(near),
                far: part(far),
            };
            seeds.push(pair.encode().bytes);
        }
    }
    seeds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_seed_decodes() {
        for seed in seeds() {
            Pair::decode(&address(&seed, false)).expect("a pair of ours");
        }
    }
}
