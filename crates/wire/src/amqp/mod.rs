//! AMQP 0-9-1: frames, methods, content headers, field tables.
//!
//! What a peer sends is borrowed from its bytes: nothing is copied or allocated before a dialect keeps it. Strings are bytes here, as in
//! RabbitMQ: which of them have to be UTF-8 is the dialect's to say.
//!
//! Source: AMQP 0-9-1 specification (XML with RabbitMQ's extensions), and RabbitMQ's list of types in field tables, which is not the
//! specification's.

pub mod argument;
pub mod content;
pub mod frame;
pub mod method;
pub mod table;
