//! JSON bodies, one file per noun, in the shapes the official Java side reads and writes.

pub mod assignment;
pub mod client;
pub mod cluster_info;
pub(in crate::rocketmq) mod json;
pub mod kv_table;
pub mod route;
pub mod topic_list;
