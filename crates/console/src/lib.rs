//! Console HTTP: health and metrics.
