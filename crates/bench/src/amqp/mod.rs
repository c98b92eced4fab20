//! The load of AMQP 0-9-1: publishes from templates, deliveries read for little more than their tags, queues.

pub(crate) mod confirms;
pub(crate) mod connect;
pub(crate) mod consume;
pub(crate) mod consumer;
pub(crate) mod conversation;
pub(crate) mod deliver_lane;
pub(crate) mod driver;
pub(crate) mod mark;
pub(crate) mod observer;
pub(crate) mod options;
pub(crate) mod send;
pub(crate) mod send_lane;
pub(crate) mod template;
pub(crate) mod topology;
pub(crate) mod visible;
