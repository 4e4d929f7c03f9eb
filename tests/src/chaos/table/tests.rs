use super::*;

fn excluded(deployment: Deployment, fault: Fault, extent: Extent) -> Vec<Property> {
    let of = |&property: &Property| {
        matches!(promise(deployment, fault, extent, property), Promise::Excluded(..))
    };
    Property::ALL.into_iter().filter(of).collect()
}

#[test]
fn the_page_is_up_to_date() {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/chaos/table.md");
    if std::env::var_os("UPDATE_TABLE").is_some() {
        std::fs::write(&page, render()).unwrap();
    }
    let there = std::fs::read_to_string(&page).unwrap();
    assert_eq!(there, render(), "run this test with UPDATE_TABLE=1");
}

#[test]
fn a_minority_of_a_quorum_excludes_nothing_but_what_no_node_can_tell() {
    use Extent::Minority;

    for fault in Fault::ALL {
        let of_servers = matches!(fault.victim(), Victim::Server | Victim::Link);
        if of_servers && !matches!(fault, Evict | ClockJump) {
            assert_eq!(excluded(Deployment::Quorum(5), fault, Minority), [], "{fault}");
        }
    }
}

#[test]
fn no_fault_of_a_network_or_a_process_excludes_what_is_to_be_safe() {
    for deployment in Deployment::ALL {
        for fault in Fault::ALL {
            if matches!(fault.victim(), Victim::Link | Victim::Worker) {
                for property in [Exclusion, Conversions, Permits, Tokens, Resource, Leaks] {
                    let promise = promise(deployment, fault, Extent::Majority, property);
                    assert_eq!(promise, Promise::Holds, "{deployment}, {fault}, {property}");
                }
            }
        }
    }
}

#[test]
fn a_quorum_has_one_value_for_all_unless_it_forgets_or_a_clock_was_set() {
    for fault in Fault::ALL.into_iter().filter(|it| !FORGETS.contains(it) && *it != ClockJump) {
        let promise = promise(Deployment::Quorum(3), fault, Extent::Majority, Values);
        assert_eq!(promise, Promise::Holds, "{fault}");
    }
}

#[test]
fn confirmed_grants_are_safe_while_servers_take_over() {
    for &fault in FAILS_OVER {
        for property in
            [Exclusion, Conversions, Permits, Resource, Tokens, Values, Commits, Snapshots]
        {
            let of = |deployment| promise(deployment, fault, Extent::Majority, property);
            assert_eq!(of(Deployment::Confirmed), Promise::Holds, "{fault}, {property}");
            for open in [Deployment::Service, Deployment::Unguarded] {
                assert_ne!(of(open), Promise::Holds, "{open}, {fault}, {property}");
            }
        }
    }
}

#[test]
fn a_clock_that_is_a_little_fast_or_slow_excludes_nothing() {
    for deployment in Deployment::ALL {
        assert_eq!(excluded(deployment, ClockRate, Extent::Majority), [], "{deployment}");
    }
}

#[test]
fn every_rule_is_the_first_for_something() {
    for rule in RULES {
        let first = rule.faults.iter().any(|&fault| {
            rule.reach.iter().filter(|&&reach| befalls(fault, reach)).any(|&reach| {
                rule.excludes.iter().any(|&property| {
                    promised(reach, fault, property) == Promise::Excluded(rule.why, rule.lasts)
                })
            })
        });
        assert!(first, "{}", rule.why);
    }
}

#[test]
fn only_a_fault_that_stops_a_client_excuses_the_order_and_none_excuses_the_record() {
    for rule in RULES {
        let stands = rule.faults.iter().all(|it| matches!(it, StopWorker | BlockExecutor));
        assert!(stands || !rule.excludes.contains(&Order));
        assert!(!rule.excludes.contains(&History));
    }
}

#[test]
fn errors_are_explained_by_what_causes_them() {
    assert!(explains(RevokeRights, "Denied") && !explains(StopServer, "Denied"));
    assert!(!Fault::ALL.into_iter().any(|fault| explains(fault, "Protocol")));
}
