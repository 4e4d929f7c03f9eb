//! The tables of laws: the only places where they are listed.

mod abilities;
mod backend;

/// One law of [`Backend`](crate::Backend), or of an ability.
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

/// Makes the suite of a table, for harnesses whose clients have the ability.
macro_rules! suite {
    (
        $(#[$doc:meta])*
        $name:ident($ability:path, $terms:expr)
        $($group:ident { $($law:ident: $sentence:literal,)* })*
    ) => {
        impl<H: Harness<Client: $ability>> Suite<H> {
            $(#[$doc])*
            pub fn $name() -> Self {
                const LAWS: &[Law] =
                    &[$($(Law { name: stringify!($law), sentence: $sentence },)*)*];
                fn test_of<'h, H: Harness<Client: $ability>>(
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
