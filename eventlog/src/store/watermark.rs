//! The number of the last stored group, in a file beside the logger's files: a start detects
//! files that end earlier (EL-3). Format: docs/formats/event-files.md.

/// Version of the file. A reader refuses every other.
pub(crate) const WATERMARK_VERSION: u32 = 1;
/// Bytes of the file.
pub(crate) const WATERMARK_BYTES: usize = 32;

const MAGIC: [u8; 8] = *b"rfrnmark";

/// The file's bytes for the number of the last stored group.
pub(crate) fn encode(group: u64) -> [u8; WATERMARK_BYTES] {
    let mut bytes = [0; WATERMARK_BYTES];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&WATERMARK_VERSION.to_le_bytes());
    bytes[16..24].copy_from_slice(&group.to_le_bytes());
    let crc = crc32fast::hash(&bytes[..28]);
    bytes[28..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// The group number in the file.
///
/// # Errors
/// The problem with the bytes.
pub(crate) fn read(bytes: &[u8]) -> Result<u64, String> {
    let bytes: &[u8; WATERMARK_BYTES] = match bytes.try_into() {
        Ok(bytes) => bytes,
        Err(_) => return Err(format!("{} bytes, not {WATERMARK_BYTES}", bytes.len())),
    };
    let word = |at: usize| u32::from_le_bytes(core::array::from_fn(|i| bytes[at + i]));
    if bytes[..8] != MAGIC || crc32fast::hash(&bytes[..28]) != word(28) {
        return Err("its checksum does not fit".into());
    }
    if word(8) != WATERMARK_VERSION {
        return Err(format!(
            "it is of version {}, this program reads version {WATERMARK_VERSION}",
            word(8)
        ));
    }
    Ok(u64::from_le_bytes(core::array::from_fn(|i| bytes[16 + i])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_no_changed_byte() {
        for group in [0, 1, u64::from(u32::MAX), u64::MAX] {
            let bytes = encode(group);
            assert_eq!(read(&bytes), Ok(group));
            for at in 0..WATERMARK_BYTES {
                let mut changed = bytes;
                changed[at] ^= 0x10;
                assert!(read(&changed).is_err(), "byte {at}");
            }
            assert!(read(&bytes[..31]).is_err());
        }
    }
}
