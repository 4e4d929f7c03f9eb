//! Replies that no server gives, for the tests of the code that reads replies.
//!
//! `PROPTEST_CASES` says how many of them a test tries.

use proptest::prelude::*;
use proptest::sample::select;
use redis::{PushInfo, PushKind, Value, VerbatimFormat};

use super::Reply;
use super::ended::ENDED;

/// The words in replies of scripts, and similar words.
const WORDS: [&[u8]; 36] = [
    b"",
    b"0",
    b"1",
    b"2",
    b"7",
    b"9",
    b"007",
    b"1000",
    b"30000",
    b"4294967295",
    b"4294967296",
    b"1795000000000000",
    b"1795000000000063",
    b"9223372036854775807",
    b"18446744073709551615",
    b"18446744073709551616",
    b"99999999999999999999999999",
    b"-0",
    b"-1",
    b"-2",
    b"+7",
    b"-9223372036854775808",
    b"7.0",
    b"1e3",
    b"0x7",
    b"\xd9\xa7",
    b"\xff",
    b"q",
    b"w",
    b"u",
    b"a",
    b"b",
    b"x",
    b"p3",
    b"j",
    b"000102030405060708090a0b0c0d0e0f",
];

/// Bytes that look like the answer of a script, or nearly so.
pub(crate) fn texts() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![
        24 => select(&WORDS[..]).prop_map(<[u8]>::to_vec),
        2 => any::<u64>().prop_map(|number| number.to_string().into_bytes()),
        1 => any::<i64>().prop_map(|number| number.to_string().into_bytes()),
        1 => prop::collection::vec(any::<u8>(), 0..6),
    ];
    let between =
        prop_oneof![12 => Just(&b" "[..]), 1 => select(vec![&b""[..], b"  ", b"\n", b"\t"])];
    prop::collection::vec((word, between), 0..8).prop_map(|pieces| {
        let mut text = Vec::new();
        for (index, (word, between)) in pieces.iter().enumerate() {
            if index > 0 {
                text.extend_from_slice(between);
            }
            text.extend_from_slice(word);
        }
        text
    })
}

/// Everything that the parser of the protocol may hand on.
pub(super) fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Nil),
        Just(Value::Okay),
        numbers().prop_map(Value::Int),
        texts().prop_map(Value::BulkString),
        texts().prop_map(|text| Value::SimpleString(lossy(&text))),
        texts().prop_map(Value::BigNumber),
        any::<f64>().prop_map(Value::Double),
        any::<bool>().prop_map(Value::Boolean),
        texts().prop_map(|text| Value::VerbatimString {
            format: VerbatimFormat::Unknown("odd".into()),
            text: lossy(&text),
        }),
        Just(refusal("WRONGTYPE no")),
    ];
    leaf.prop_recursive(4, 48, 6, |inner| {
        let some = || prop::collection::vec(inner.clone(), 0..6);
        let pairs = || prop::collection::vec((inner.clone(), inner.clone()), 0..4);
        prop_oneof![
            some().prop_map(Value::Array),
            some().prop_map(Value::Set),
            pairs().prop_map(Value::Map),
            (inner.clone(), pairs()).prop_map(|(data, attributes)| Value::Attribute {
                data: Box::new(data),
                attributes
            }),
            (kinds(), some()).prop_map(|(kind, data)| Value::Push { kind, data }),
        ]
    })
}

/// The possible replies to a request.
pub(crate) fn replies() -> impl Strategy<Value = Reply> {
    prop_oneof![
        3 => values().prop_map(Reply::from_value),
        2 => numbers().prop_map(Reply::Int),
        4 => texts().prop_map(Reply::Text),
    ]
}

/// Pushes of every kind, with any content.
pub(super) fn pushes() -> impl Strategy<Value = PushInfo> {
    (kinds(), prop::collection::vec(values(), 0..4))
        .prop_map(|(kind, data)| PushInfo { kind, data })
}

/// An error as a server sends it, in one line.
pub(super) fn refusal(line: &str) -> Value {
    let line = line.replace(['\r', '\n'], " ");
    redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap()
}

fn kinds() -> impl Strategy<Value = PushKind> {
    select(vec![
        PushKind::Disconnection,
        PushKind::Other("odd".into()),
        PushKind::Other(ENDED.into()),
        PushKind::Invalidate,
        PushKind::Message,
        PushKind::PMessage,
        PushKind::SMessage,
        PushKind::Unsubscribe,
        PushKind::Subscribe,
    ])
}

fn numbers() -> impl Strategy<Value = i64> {
    prop_oneof![select(vec![i64::MIN, -3, -2, -1, 0, 1, 2, 30_000, i64::MAX]), any::<i64>()]
}

fn lossy(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}

/// Whether a word is a number in decimal digits that is at most this one. Written differently from
/// the code that it judges.
pub(crate) fn is_number(word: &str, most: u64) -> bool {
    let digits = word.trim_start_matches('0');
    let (limit, length) = (most.to_string(), digits.len());
    !word.is_empty()
        && word.bytes().all(|byte| byte.is_ascii_digit())
        && (length < limit.len() || length == limit.len() && digits <= limit.as_str())
}

/// Whether a word is a remaining time. A lease without an end has none.
pub(crate) fn is_left(word: &str) -> bool {
    word == "-1" || is_number(word, i64::MAX as u64)
}
