//! Times, as servers and this machine tell them.

use crate::wire::Reply;

/// Reads the seconds and the microseconds.
pub(super) fn told(reply: &Reply) -> Option<i64> {
    let Reply::List(parts) = reply else { return None };
    let [Reply::Text(seconds), Reply::Text(micros)] = parts.as_slice() else { return None };
    let number = |text: &[u8]| std::str::from_utf8(text).ok()?.parse::<i64>().ok();
    number(seconds)?.checked_mul(1_000_000)?.checked_add(number(micros)?)
}

pub(super) fn micros(micros: u128) -> i64 {
    i64::try_from(micros).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::garbage;

    #[test]
    fn a_time_is_two_numbers() {
        let text = |text: &str| Reply::Text(text.into());
        let time = |seconds, micros| told(&Reply::List(vec![text(seconds), text(micros)]));
        assert_eq!(time("1795000000", "7"), Some(1_795_000_000_000_007));
        assert_eq!(time("9223372036854775807", "7"), None);
        assert_eq!(time("x", "7"), None);
    }

    proptest! {
        #[test]
        fn any_answer_to_time_is_read_or_refused(reply in garbage::replies()) {
            told(&reply);
        }
    }
}
