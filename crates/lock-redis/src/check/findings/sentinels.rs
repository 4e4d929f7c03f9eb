//! The sentinels that watch the primary.

use std::collections::BTreeSet;

use lock_core::check::{Findings, Severity};

use super::super::facts::{Sentinel, View};

/// Fewer sentinels than this cannot lose one and still agree.
const FEW: u64 = 3;

pub(super) fn find(sentinels: &[Sentinel], found: &mut Findings<'_>) {
    if sentinels.is_empty() {
        return;
    }
    let views: Vec<(&str, &View)> = sentinels
        .iter()
        .filter_map(|it| Some((it.address.as_str(), it.view.as_ref().ok()?)))
        .collect();
    silent(sentinels, found);
    unheard(sentinels, found);
    disagreeing(&views, found);
    apart(sentinels.len(), &views, found);
    few(&views, found);
}

fn silent(sentinels: &[Sentinel], found: &mut Findings<'_>) {
    for Sentinel { address, view, .. } in sentinels {
        let Err(why) = view else { continue };
        found.add(
            Severity::Warning,
            "sentinel-silent",
            format!("the sentinel {address} does not say where the primary is: {why}"),
            "the client finds the primary by the other sentinels alone, and a failover needs most of them",
            "bring the sentinel back, correct its address, or grant `+sentinel|master` there",
        );
    }
}

fn unheard(sentinels: &[Sentinel], found: &mut Findings<'_>) {
    for Sentinel { address, unheard, .. } in sentinels {
        let Some(why) = unheard else { continue };
        found.add(
            Severity::Warning,
            "sentinel-unheard",
            format!("the sentinel {address} does not let the client listen to `+switch-master`: {why}"),
            "if no sentinel tells of a failover, the client goes on at the old primary until that refuses or hangs up",
            "grant `+subscribe` and `&+switch-master` there",
        );
    }
}

fn disagreeing(views: &[(&str, &View)], found: &mut Findings<'_>) {
    let named: BTreeSet<&str> = views.iter().map(|(_, view)| view.primary.as_str()).collect();
    if named.len() < 2 {
        return;
    }
    let says = |(address, view): &(&str, &View)| format!("{address} names {}", view.primary);
    found.add(
        Severity::Warning,
        "sentinels-disagree",
        format!(
            "the sentinels name different primaries: {}",
            views.iter().map(says).collect::<Vec<_>>().join(", ")
        ),
        "clients that hear different sentinels lock at different servers, so a lock can have two holders",
        "if no failover is under way, find the sentinels that are cut off, or watch another service under this name",
    );
}

fn apart(known: usize, views: &[(&str, &View)], found: &mut Findings<'_>) {
    let most = views.iter().map(|(_, view)| view.others + 1).max().unwrap_or_default();
    let wanted = most.max(known as u64);
    let lacks = |(address, view): &(&str, &View)| {
        let count = view.others + 1;
        (count < wanted).then(|| format!("{address} knows {count} of {wanted}"))
    };
    let lacking: Vec<String> = views.iter().filter_map(lacks).collect();
    if lacking.is_empty() {
        return;
    }
    found.add(
        Severity::Warning,
        "sentinels-apart",
        format!("not all sentinels know one another: {}", lacking.join(", ")),
        "a sentinel counts the votes for a failover among those that it knows, so a failover may fail, or two may happen",
        "let all sentinels watch the primary under one name and reach one another; `SENTINEL RESET` forgets old ones",
    );
}

fn few(views: &[(&str, &View)], found: &mut Findings<'_>) {
    let Some((_, view)) = views.iter().max_by_key(|(_, view)| view.others) else { return };
    let (count, quorum) = (view.others + 1, view.quorum);
    if count < FEW || quorum > count || quorum * 2 <= count {
        found.add(
            Severity::Warning,
            "sentinels-few",
            format!("{count} sentinels watch the primary, of which {quorum} decide that it is down"),
            "with fewer than three, the loss of one ends failovers; a quorum that is no majority declares a primary down \
             that most of them can reach",
            "run three or five sentinels on machines of their own, with a quorum of more than half of them",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sentinel(name: &str, primary: &str, others: u64, quorum: u64) -> Sentinel {
        let view = View { primary: primary.to_owned(), others, quorum };
        Sentinel { address: name.to_owned(), view: Ok(view), unheard: None }
    }

    fn codes(sentinels: &[Sentinel]) -> Vec<&'static str> {
        let mut found = Findings::at("main");
        find(sentinels, &mut found);
        found.into_list().into_iter().map(|it| it.code).collect()
    }

    #[test]
    fn three_sentinels_that_agree_are_no_finding() {
        let all = ["s1", "s2", "s3"].map(|name| sentinel(name, "h1:1", 2, 2));
        assert_eq!(codes(&all), [""; 0]);
        assert_eq!(codes(&[]), [""; 0]);
        // The client need not know all of them.
        assert_eq!(codes(&all[..2]), [""; 0]);
    }

    #[test]
    fn each_disagreement_is_a_finding() {
        let good = || sentinel("s1", "h1:1", 2, 2);
        assert_eq!(codes(&[good(), sentinel("s2", "h2:2", 2, 2)]), ["sentinels-disagree"]);
        assert_eq!(codes(&[good(), sentinel("s2", "h1:1", 1, 2)]), ["sentinels-apart"]);
        let strangers = ["s1", "s2", "s3"].map(|name| sentinel(name, "h1:1", 0, 1));
        assert_eq!(codes(&strangers), ["sentinels-apart", "sentinels-few"]);
        let why = || "not allowed".to_owned();
        let silent = Sentinel { view: Err(why()), ..sentinel("s2", "h1:1", 2, 2) };
        assert_eq!(codes(&[good(), silent]), ["sentinel-silent"]);
        let unheard = Sentinel { unheard: Some(why()), ..sentinel("s2", "h1:1", 2, 2) };
        assert_eq!(codes(&[good(), unheard]), ["sentinel-unheard"]);
        for (others, quorum) in [(0, 1), (1, 2), (2, 1), (2, 4), (3, 2)] {
            assert_eq!(codes(&[sentinel("s1", "h1:1", others, quorum)]), ["sentinels-few"]);
        }
    }
}
