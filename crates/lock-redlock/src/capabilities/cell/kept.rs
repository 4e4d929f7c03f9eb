//! A value as the nodes keep it; pure.

use lock_core::Cell;

/// The mark that replaces an erased value on a node. Callers store these bytes only by accident.
pub(super) const ERASED: &[u8; 16] =
    b"\x9e\x1d\x5c\xa2\x07\xf3\x44\xb8\xe6\x2b\xd1\x70\x8a\x95\x3f\xc9";

/// A value as the nodes keep it. A value that looks like the mark gets one more byte.
pub(super) fn encode(value: Option<&[u8]>) -> Vec<u8> {
    match value {
        None => ERASED.to_vec(),
        Some(value) if value.starts_with(ERASED) => [value, &[0]].concat(),
        Some(value) => value.to_vec(),
    }
}

pub(super) fn decode(kept: &Cell) -> Option<Cell> {
    let stored = &*kept.value;
    if stored == ERASED {
        return None;
    }
    let escaped = stored.strip_suffix(&[0]).filter(|_| stored.starts_with(ERASED));
    let mut cell = kept.clone();
    cell.value = escaped.unwrap_or(stored).to_vec();
    Some(cell)
}

#[cfg(test)]
mod tests {
    use lock_core::FencingToken;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_value_is_kept_as_it_is(
            stem in prop_oneof![Just(vec![]), Just(ERASED.to_vec())],
            rest in prop::collection::vec(any::<u8>(), 0..4),
        ) {
            let value = [stem, rest].concat();
            prop_assert_ne!(encode(Some(&value)), encode(None));
            let kept = Cell::new(encode(Some(&value)), FencingToken::new(7), true);
            prop_assert_eq!(decode(&kept).map(|cell| cell.value), Some(value));
        }
    }
}
