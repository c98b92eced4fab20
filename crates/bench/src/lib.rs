//! Load generator and report.
