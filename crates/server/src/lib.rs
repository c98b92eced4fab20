//! The process: sockets, threads, settings, signals.
