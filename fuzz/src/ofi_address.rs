//! The address that a rank publishes for libfabric.

use crate::input::Input;
use refrain_ring::{Incarnation, Rank};
use refrain_transport::fabric::network::address::{
    ADDRESS_VERSION, AddressError, FIXED_BYTES, NetworkAddress,
};

/// Checks both directions.
pub fn check(bytes: &[u8]) {
    decode_then_encode(bytes);
    encode_then_decode(&from_input(&mut Input::new(bytes)));
}

fn decode_then_encode(bytes: &[u8]) {
    match NetworkAddress::decode(bytes) {
        Ok(address) => {
            assert_eq!(address.encode(), bytes, "{address:?}");
            is_readable(&address);
        }
        Err(AddressError::Length { found, claimed }) => {
            assert_eq!(found, bytes.len());
            assert_ne!(found, claimed);
            assert!(claimed >= FIXED_BYTES);
        }
        Err(AddressError::Version(found)) => {
            assert_eq!(found, bytes[0]);
            assert_ne!(found, ADDRESS_VERSION);
        }
        Err(AddressError::Text) => {
            let provider = &bytes[FIXED_BYTES..][..usize::from(bytes[1])];
            assert!(core::str::from_utf8(provider).is_err());
        }
    }
}

fn encode_then_decode(address: &NetworkAddress) {
    assert_eq!(
        NetworkAddress::decode(&address.encode()).as_ref(),
        Ok(address)
    );
    is_readable(address);
}

/// Checks that the address is printable: it appears in messages on a terminal.
fn is_readable(address: &NetworkAddress) {
    let text = address.readable();
    assert!(text.chars().all(|c| c.is_ascii_graphic()), "{text:?}");
}

fn from_input(input: &mut Input<'_>) -> NetworkAddress {
    NetworkAddress {
        rank: Rank(input.u32()),
        incarnation: Incarnation(input.u32()),
        job: input.u64(),
        // Text with replaced bytes can be longer than its original.
        provider: input.text().chars().take(60).collect(),
        name: name(input),
        message_bytes_max: input.u32(),
        credits: input.u32(),
        window_bytes: input.u64(),
        key: input.u64(),
        base: input.u64(),
    }
}

/// A name in libfabric's address formats: an internet address, text, or any bytes.
fn name(input: &mut Input<'_>) -> Vec<u8> {
    let (family, bytes) = match input.u8() % 3 {
        0 => (2_u16, 16),
        1 => (10, 28),
        _ => return input.bytes(),
    };
    let mut name = family.to_ne_bytes().to_vec();
    name.extend(input.bytes());
    name.resize(bytes, 0);
    name
}

/// One address of each family, and one without remote memory access.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut four = vec![0; 16];
    four[..8].copy_from_slice(&[2, 0, 0x1f, 0x90, 10, 0, 0, 7]);
    let mut six = vec![0; 28];
    six[..4].copy_from_slice(&[10, 0, 0x1f, 0x90]);
    six[23] = 1;
    let text = b"fi_shm://7:0:0\0".to_vec();
    [
        ("tcp;ofi_rxm", four, 3),
        ("verbs", six, u64::MAX),
        ("shm", text, 0),
    ]
    .map(|(provider, name, key)| {
        let address = NetworkAddress {
            rank: Rank(2),
            incarnation: Incarnation(1),
            job: u64::MAX - 3,
            provider: provider.into(),
            name,
            message_bytes_max: 65_664,
            credits: 64,
            window_bytes: 1 << 33,
            key,
            base: u64::MAX - 4096,
        };
        address.encode()
    })
    .to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_seed_decodes() {
        for seed in seeds() {
            NetworkAddress::decode(&seed).expect("an address of ours");
        }
    }
}
