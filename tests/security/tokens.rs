//! Owner tokens come from the operating system, and contain nothing else.
//!
//! A test can check only that they look random: no two are equal, in one process or in several that start
//! alike, and no bit depends on another or on the previous token. The test also finds poor generators. It
//! does not find a time behind a good hash; that `lock_core::OwnerToken` contains none must be read in its
//! code.

use std::collections::HashMap;

use lock_core::OwnerToken;
use lock_sync::Owner;
use lock_tests::{RedisServer, Worker};

use crate::monitor::Monitor;

const BITS: usize = 128;

/// The allowed number of standard deviations. By chance one of all the figures is further off once in ten
/// million runs.
const SIGMAS: f64 = 6.5;

/// What is wrong with tokens, in the order in which they were drawn.
fn judge(tokens: &[u128]) -> Result<(), String> {
    let mut seen = HashMap::new();
    if let Some(twice) = tokens.iter().find(|token| seen.insert(**token, ()).is_some()) {
        return Err(format!("{twice:032x} was drawn twice"));
    }
    let pairs = (tokens.len() * (tokens.len() - 1) / 2) as f64;
    for word in 0..4 {
        let mut counts = HashMap::new();
        for token in tokens {
            *counts.entry((token >> (32 * word)) as u32).or_insert(0_u64) += 1;
        }
        let alike: u64 = counts.values().map(|count| count * (count - 1) / 2).sum();
        let expected = pairs / 2_f64.powi(32);
        // Poisson, with a tail that is as thin as the others.
        if alike as f64 > expected + SIGMAS * expected.sqrt() + 4.0 {
            return Err(format!("{alike} pairs have the same word {word}, not {expected:.3}"));
        }
    }
    let mut figures = vec![("set".to_owned(), tokens.to_vec())];
    let changed = tokens.windows(2).map(|pair| pair[0] ^ pair[1]).collect();
    figures.push(("another than in the token before".to_owned(), changed));
    for far in [1, 8, 16, 32, 64] {
        let differ = tokens.iter().map(|token| token ^ token.rotate_right(far)).collect();
        figures.push((format!("another than that {far} bits further"), differ));
    }
    for (what, words) in figures {
        let (count, spread) = (words.len() as f64, (words.len() as f64).sqrt() / 2.0);
        for bit in 0..BITS {
            let set = words.iter().filter(|word| *word >> bit & 1 == 1).count() as f64;
            if (set - count / 2.0).abs() > SIGMAS * spread {
                return Err(format!("bit {bit} is {what} in {set} of {count}"));
            }
        }
    }
    Ok(())
}

fn bits(token: &[u8]) -> u128 {
    u128::from_str_radix(std::str::from_utf8(token).unwrap(), 16).unwrap()
}

#[test]
fn a_token_is_nothing_but_chance() {
    let tokens: Vec<_> =
        (0..20_000).map(|_| bits(OwnerToken::generate().unwrap().expose())).collect();
    judge(&tokens).unwrap();
    let owners: Vec<_> =
        (0..5_000).map(|_| bits(Owner::new().unwrap().pass().expose().as_bytes())).collect();
    judge(&owners).unwrap();
}

#[test]
fn what_is_less_than_chance_is_found_out() {
    let random = || u128::from_le_bytes(std::array::from_fn(|_| random_byte()));
    let first = random();
    let nanos = || std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos();
    let mut step = 1_u64;
    let mut congruential = move || {
        step = step.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        u128::from(step)
    };
    let mut count = 0_u128;
    let mut counter = move || {
        count += 1;
        count
    };
    type Generator = Box<dyn FnMut() -> u128>;
    let generators: [(&str, Generator); 7] = [
        ("the same again and again", Box::new(move || first)),
        ("a counter from somewhere", Box::new(move || first.wrapping_add(counter()))),
        ("a time before chance", Box::new(move || nanos() >> 20 << 80 | random() >> 48)),
        (
            "a process before chance",
            Box::new(move || u128::from(std::process::id()) << 96 | random() >> 32),
        ),
        ("half of chance", Box::new(move || random() >> 64)),
        (
            "two numbers of 32 bits",
            Box::new(move || {
                let word = random() & 0xffff_ffff;
                word << 96 | word << 64 | word << 32 | word
            }),
        ),
        (
            "numbers whose lowest bits take turns",
            Box::new(move || congruential() << 64 | congruential()),
        ),
    ];
    for (what, generator) in generators {
        let tokens: Vec<_> = std::iter::repeat_with(generator).take(20_000).collect();
        assert!(judge(&tokens).is_err(), "{what}");
    }
}

fn random_byte() -> u8 {
    use std::hash::{BuildHasher, RandomState};

    RandomState::new().hash_one(0) as u8
}

/// Equal in everything but chance: the program, its arguments and its commands, in this order.
#[test]
fn processes_that_begin_alike_draw_other_tokens() {
    const EACH: usize = 25;
    let server = RedisServer::start();
    let watched = Monitor::start(&server);
    let program = env!("CARGO_BIN_EXE_lock-chaos");
    let workers: Vec<_> = (0..4).map(|_| Worker::spawn(program, &server.url())).collect();
    for lock in 0..EACH {
        for worker in &workers {
            let name = format!("mutex/{lock}");
            worker.lock(&name);
            worker.unlock(&name);
        }
    }
    drop(workers);
    // The channels of the clients are drawn in this way, too.
    let tokens: Vec<_> = watched.tokens().iter().map(|token| bits(token.as_bytes())).collect();
    assert!(tokens.len() >= 4 * EACH, "{} tokens", tokens.len());
    // They are in the order of their numbers, so the test judges only what does not depend on the order.
    let words: std::collections::HashSet<_> = tokens.iter().map(|token| token >> 96).collect();
    assert_eq!(words.len(), tokens.len(), "two begin alike");
}
