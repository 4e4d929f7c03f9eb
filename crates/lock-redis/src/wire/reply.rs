//! What comes back.

use redis::Value;

/// A reply without the distinctions of the protocols' versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Nil,
    Int(i64),
    Text(Vec<u8>),
    /// An array, a set, or a map with its keys and values in turn.
    List(Vec<Reply>),
    /// Nothing that any command of ours answers with.
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
    use super::*;

    #[test]
    fn both_versions_of_a_map_look_alike() {
        let text = |text: &str| Value::BulkString(text.into());
        let array = Value::Array(vec![text("flags"), text("Kgxe")]);
        let map = Value::Map(vec![(text("flags"), text("Kgxe"))]);
        assert_eq!(Reply::from_value(array), Reply::from_value(map));
    }
}
