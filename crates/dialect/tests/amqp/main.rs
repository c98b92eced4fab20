//! What RabbitMQ's clients are promised, over the bytes of whole sessions.

mod breaking;
mod client;
mod consuming;
mod dying;
mod publishing;
mod topology;
