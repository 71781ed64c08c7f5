//! The protocols of stores, with all that this crate needs of the network: it is compiled without them unless the feature `network` is on.

mod aws_profile;
mod forward_proxy;
pub mod http;
pub mod s3;
