//! Socket bytes to typed frames and back.
