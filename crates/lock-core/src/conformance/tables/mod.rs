//! The tables of laws: the only places where they are listed.

mod backend;
mod capabilities;

/// One law of [`Backend`](crate::Backend), or of a capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Law {
    name: &'static str,
    sentence: &'static str,
}

impl Law {
    /// The name of the law and of its test.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The law in one sentence.
    pub fn sentence(&self) -> &'static str {
        self.sentence
    }
}

/// Makes the suite of a table, for harnesses whose clients have the capability.
macro_rules! suite {
    (
        $(#[$doc:meta])*
        $name:ident($capability:path, $terms:expr)
        $($group:ident { $($law:ident: $sentence:literal,)* })*
    ) => {
        impl<H: Harness<Client: $capability>> Suite<H> {
            $(#[$doc])*
            pub fn $name() -> Self {
                const LAWS: &[Law] =
                    &[$($(Law { name: stringify!($law), sentence: $sentence },)*)*];
                fn test_of<'h, H: Harness<Client: $capability>>(
                    name: &str,
                    scene: Scene<'h, H>,
                ) -> Option<BoxFuture<'h, Check>> {
                    Some(match name {
                        $($(stringify!($law) => Box::pin(laws::$group::$law(scene)),)*)*
                        _ => return None,
                    })
                }
                Self { laws: LAWS, terms: $terms, test_of }
            }
        }
    };
}

use suite;
