#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod answer;
mod backend;
mod builder;
mod capabilities;
mod failure;
pub mod fence;
mod inbox;
mod link;
mod naming;
mod schema;
mod shared;

pub use backend::PostgresBackend;
pub use builder::Builder;
pub use schema::SCHEMA;
