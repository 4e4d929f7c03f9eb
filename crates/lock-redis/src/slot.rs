//! The slot of a key in a Redis Cluster.

use std::sync::OnceLock;

/// How many slots there are.
pub(crate) const SLOTS: u16 = 16_384;

/// The slot of a key.
pub(crate) fn slot(key: &[u8]) -> u16 {
    crc16(hashed_part(key)) % SLOTS
}

/// The part of a key that decides its slot: the text between the first brace and the next closing
/// one, or the whole key if that text is empty.
pub(crate) fn hashed_part(key: &[u8]) -> &[u8] {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let rest = &key[open + 1..];
        let close = rest.iter().position(|byte| *byte == b'}')?;
        Some(&rest[..close])
    });
    tag.filter(|tag| !tag.is_empty()).unwrap_or(key)
}

/// A short text of this slot, without braces.
pub(crate) fn text_in(slot: u16) -> String {
    static NUMBERS: OnceLock<Vec<u32>> = OnceLock::new();
    let numbers = NUMBERS.get_or_init(number_for_every_slot);
    numbers[usize::from(slot % SLOTS)].to_string()
}

/// For every slot the first number whose decimal digits have that slot.
fn number_for_every_slot() -> Vec<u32> {
    let mut numbers = vec![None; usize::from(SLOTS)];
    let mut missing = numbers.len();
    // Ten numbers share all digits but the last one.
    for tens in 0u32.. {
        let before = if tens == 0 { 0 } else { crc16(tens.to_string().as_bytes()) };
        for digit in 0..10u8 {
            let place = &mut numbers[usize::from(add(before, b'0' + digit) % SLOTS)];
            if place.is_none() {
                *place = Some(tens * 10 + u32::from(digit));
                missing -= 1;
            }
        }
        if missing == 0 {
            break;
        }
    }
    numbers.into_iter().flatten().collect()
}

/// CRC-16/XMODEM, from the cluster specification.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| add(crc, *byte))
}

fn add(crc: u16, byte: u8) -> u16 {
    (crc << 8) ^ TABLE[usize::from((crc >> 8) as u8 ^ byte)]
}

static TABLE: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_one_of_the_specification() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
    }

    #[test]
    fn slots_are_those_a_server_computes() {
        // The answers of `CLUSTER KEYSLOT`.
        assert_eq!(slot(b""), 0);
        assert_eq!(slot(b"foo"), 12_182);
        assert_eq!(slot(b"{foo}.bar"), 12_182);
        assert_eq!(slot(b"somekey"), 11_058);
    }

    #[test]
    fn a_tag_is_the_first_pair_of_braces_that_holds_anything() {
        assert_eq!(hashed_part(b"a{b}c{d}"), b"b");
        assert_eq!(hashed_part(b"{{a}b}"), b"{a");
        assert_eq!(hashed_part(b"{}{a}"), b"{}{a}");
        assert_eq!(hashed_part(b"}a{b"), b"}a{b");
    }

    #[test]
    fn there_is_a_text_for_every_slot() {
        for wanted in 0..SLOTS {
            let text = text_in(wanted);
            assert_eq!(slot(text.as_bytes()), wanted);
            assert!(text.len() <= 6, "{text}");
        }
    }
}
