//! The load of RocketMQ's protocol: sends from templates, pulls, pops, routes.

pub(crate) mod acks;
pub(crate) mod connect;
pub(crate) mod consume;
pub(crate) mod generator;
pub(crate) mod options;
pub(crate) mod pop;
pub(crate) mod pop_account;
pub(crate) mod pop_lane;
pub(crate) mod popper;
pub(crate) mod pull_lane;
pub(crate) mod puller;
pub(crate) mod replicas;
pub(crate) mod reply;
pub(crate) mod route;
pub(crate) mod send;
pub(crate) mod send_lane;
pub(crate) mod template;
pub(crate) mod visible;
pub(crate) mod window;
