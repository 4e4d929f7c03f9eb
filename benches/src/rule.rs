//! Which holders may be inside at once.

use serde_json::Value;

/// Which holders may be inside at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums)]
pub enum Rule {
    /// One holder at a time.
    #[default]
    Exclusive,
    /// Several readers, or one writer.
    ReadWrite {
        /// How many of a hundred passes only read.
        reads: u32,
    },
    /// This many holders at once.
    Permits(u32),
}

impl Rule {
    /// Whether a task only reads in this one of its passes.
    ///
    /// Pseudo-random, so that tasks do not write in step, and equal for every contestant.
    pub(crate) fn reads(self, task: u64, pass: u64) -> bool {
        let Self::ReadWrite { reads } = self else { return false };
        scatter(task << 40 ^ pass) % 100 < u64::from(reads)
    }

    /// The rule as names and numbers of a plan. An exclusive lock has none.
    pub(crate) fn to_json(self) -> [(&'static str, Option<u32>); 2] {
        match self {
            Self::Exclusive => [(READS, None), (PERMITS, None)],
            Self::ReadWrite { reads } => [(READS, Some(reads)), (PERMITS, None)],
            Self::Permits(permits) => [(READS, None), (PERMITS, Some(permits))],
        }
    }

    pub(crate) fn from_json(plan: &Value) -> Option<Self> {
        let number = |name: &str| plan[name].as_u64().map(u32::try_from).transpose().ok();
        Some(match (number(READS)?, number(PERMITS)?) {
            (Some(reads), _) => Self::ReadWrite { reads },
            (None, Some(permits)) => Self::Permits(permits),
            (None, None) => Self::Exclusive,
        })
    }
}

/// Checks that a lock was correct: no update was lost, and no pass found another holder inside that must not be there.
///
/// # Errors
///
/// If the lock was not correct.
pub fn verdict(lost: u64, intrusions: u64, passes: u64) -> Result<(), String> {
    match (lost, intrusions) {
        (0, 0) => Ok(()),
        (lost, 0) => Err(format!("INCORRECT: {lost} updates lost, beside {passes} passes")),
        (0, met) => Err(format!("INCORRECT: {met} of {passes} passes found another holder inside")),
        (lost, met) => Err(format!(
            "INCORRECT: {lost} updates lost, and {met} of {passes} passes found another holder inside"
        )),
    }
}

const READS: &str = "reads";
const PERMITS: &str = "permits";

/// Spreads adjacent numbers over the whole range: the finalizer of `SplitMix64`.
fn scatter(number: u64) -> u64 {
    let mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_passes_read_as_the_rule_says() {
        for reads in [0, 50, 95, 100] {
            let rule = Rule::ReadWrite { reads };
            for task in 1..5 {
                let share = (0..10_000).filter(|&pass| rule.reads(task, pass)).count();
                assert!(share.abs_diff(reads as usize * 100) < 200, "{share} of {reads} %");
            }
        }
        assert!(!Rule::Exclusive.reads(1, 1) && !Rule::Permits(8).reads(1, 1));
    }

    #[test]
    fn tasks_do_not_write_in_step() {
        let rule = Rule::ReadWrite { reads: 50 };
        let together =
            (0..1_000).filter(|&pass| rule.reads(1, pass) == rule.reads(2, pass)).count();
        assert!((400..600).contains(&together), "{together}");
    }
}
