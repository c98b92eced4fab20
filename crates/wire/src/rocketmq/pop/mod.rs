//! Pop consumption: a broker hands messages out for a time, and takes them back unless they are acknowledged.
//!
//! A receipt says which message was handed out and when. The broker sends its parts (`answer`), the client puts them together
//! (`receipt`) and sends the whole back with an acknowledgement, or several acknowledgements as bits (`batch_ack`). Messages that
//! come again have a topic of their own for each topic and group (`origin`). Source: RocketMQ 5.4.0, `ExtraInfoUtil`, `KeyBuilder`
//! and `MQClientAPIImpl`; every literal of the tests was written by these classes.

pub mod answer;
pub mod batch_ack;
pub mod header;
pub mod origin;
pub mod receipt;
