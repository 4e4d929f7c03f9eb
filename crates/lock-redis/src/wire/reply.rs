//! Replies of the server.

use redis::Value;

/// A reply, without the differences between the versions of the protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Nil,
    Int(i64),
    Text(Vec<u8>),
    /// An array, a set, or a map with its keys and values in turn.
    List(Vec<Reply>),
    /// A type that answers none of our commands.
    Other,
}

impl Reply {
    pub(super) fn from_value(value: Value) -> Self {
        match value {
            Value::Nil => Self::Nil,
            Value::Int(number) => Self::Int(number),
            Value::BulkString(bytes) => Self::Text(bytes),
            Value::SimpleString(text) | Value::VerbatimString { text, .. } => {
                Self::Text(text.into_bytes())
            }
            Value::Okay => Self::Text(b"OK".to_vec()),
            Value::Array(items) | Value::Set(items) => {
                Self::List(items.into_iter().map(Self::from_value).collect())
            }
            Value::Map(pairs) => Self::List(
                pairs
                    .into_iter()
                    .flat_map(|(key, value)| [Self::from_value(key), Self::from_value(value)])
                    .collect(),
            ),
            Value::Attribute { data, .. } => Self::from_value(*data),
            _ => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wire::garbage;

    #[test]
    fn both_versions_of_a_map_look_alike() {
        let text = |text: &str| Value::BulkString(text.into());
        let array = Value::Array(vec![text("flags"), text("Kgxe")]);
        let map = Value::Map(vec![(text("flags"), text("Kgxe"))]);
        assert_eq!(Reply::from_value(array), Reply::from_value(map));
    }

    /// The texts and numbers of a reply are those of the value, in the order of the value, and no
    /// others.
    fn leaves(reply: &Reply, into: &mut Vec<Reply>) {
        match reply {
            Reply::List(items) => items.iter().for_each(|item| leaves(item, into)),
            leaf => into.push(leaf.clone()),
        }
    }

    fn leaves_of(value: &Value, into: &mut Vec<Reply>) {
        let text = |text: &str| Reply::Text(text.as_bytes().to_vec());
        match value {
            Value::Array(items) | Value::Set(items) => {
                items.iter().for_each(|item| leaves_of(item, into));
            }
            Value::Map(pairs) => pairs.iter().for_each(|(key, value)| {
                leaves_of(key, into);
                leaves_of(value, into);
            }),
            Value::Attribute { data, .. } => leaves_of(data, into),
            Value::Nil => into.push(Reply::Nil),
            Value::Int(number) => into.push(Reply::Int(*number)),
            Value::BulkString(bytes) => into.push(Reply::Text(bytes.clone())),
            Value::SimpleString(said) => into.push(text(said)),
            Value::VerbatimString { text: said, .. } => into.push(text(said)),
            Value::Okay => into.push(text("OK")),
            _ => into.push(Reply::Other),
        }
    }

    proptest! {
        #[test]
        fn a_reply_says_what_the_value_says(value in garbage::values()) {
            let (mut said, mut meant) = (Vec::new(), Vec::new());
            leaves_of(&value, &mut meant);
            leaves(&Reply::from_value(value), &mut said);
            prop_assert_eq!(said, meant);
        }
    }
}
