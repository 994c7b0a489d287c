//! The business card of a rank: its host and its addresses.

use crate::input::Input;
use refrain_job::control::business_card::{BusinessCard, BusinessCardError};
use refrain_job::control::host::HostIdentity;
use refrain_ring::Incarnation;

/// Checks both directions.
pub fn check(bytes: &[u8]) {
    match BusinessCard::decode(bytes) {
        Ok(card) => assert_eq!(card.encode(), bytes, "{card:?}"),
        Err(BusinessCardError::Version(found)) => {
            assert_eq!(found, bytes[0]);
            assert_ne!(found, 2);
        }
        Err(BusinessCardError::Damaged) => assert!(bytes.is_empty() || bytes[0] == 2),
    }
    let card = from_input(&mut Input::new(bytes));
    assert_eq!(BusinessCard::decode(&card.encode()), Ok(card));
}

fn from_input(input: &mut Input<'_>) -> BusinessCard {
    let mut host = [0; HostIdentity::BYTES];
    host.iter_mut().for_each(|byte| *byte = input.u8());
    let host = HostIdentity::decode(&host);
    assert_eq!(HostIdentity::decode(&host.encode()), host);
    BusinessCard {
        incarnation: Incarnation(input.u32()),
        host,
        near: input.bytes(),
        far: input.bytes(),
    }
}

/// Cards without addresses, with one, and with both.
pub fn seeds() -> Vec<Vec<u8>> {
    let part = |bytes| vec![7; bytes];
    [(0, 0), (24, 0), (0, 71), (300, 255)]
        .map(|(near, far)| {
            let card = BusinessCard {
                incarnation: Incarnation(3),
                host: HostIdentity::decode(&[9; HostIdentity::BYTES]),
                near: part(near),
                far: part(far),
            };
            card.encode()
        })
        .to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_seed_decodes() {
        for seed in seeds() {
            BusinessCard::decode(&seed).expect("a card of ours");
        }
    }
}
