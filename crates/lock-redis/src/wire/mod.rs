//! All code that uses the `redis` crate. No type of that crate leaves this module.

mod capped;
mod command;
mod connection;
mod ended;
mod failure;
#[cfg(test)]
pub(crate) mod garbage;
mod gate;
mod pubsub;
mod refusal;
mod reply;
mod script;
mod sent;
mod shown;
mod through;
mod url;
mod wording;

pub(crate) use command::{By, Call, Command, Numbers};
pub(crate) use connection::{Connection, Driver, Push, Version};
#[cfg(feature = "tls")]
pub(crate) use failure::is_final_alert;
pub(crate) use failure::{Failure, Redirect};
pub(crate) use pubsub::PubSub;
pub(crate) use refusal::neither;
pub(crate) use reply::Reply;
pub(crate) use script::Script;
pub(crate) use url::{Address, Endpoint, FRAGMENT};
