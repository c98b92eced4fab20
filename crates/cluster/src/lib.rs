//! Name-server registry, routes, broker registration.
