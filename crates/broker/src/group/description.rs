//! What only a protocol's own administrators ask of its clients and groups.

use std::any::Any;
use std::sync::Arc;

/// What the dialect that let a client in says of it, or of its group, in a type of its own: the broker keeps it, never looks into it and
/// gives it back. The dialect bounds its size. Who asks may be of another dialect, and finds nothing.
#[derive(Clone, Debug, Default)]
pub struct Description(Option<Arc<dyn Any + Send + Sync>>);

impl Description {
    /// Keeps what a dialect says.
    pub fn new(said: impl Any + Send + Sync) -> Self {
        Self(Some(Arc::new(said)))
    }

    /// What was said, if the dialect that asks said it.
    pub fn read<T: Any>(&self) -> Option<&T> {
        self.0.as_deref()?.downcast_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_said_something_reads_it() {
        #[derive(Debug, PartialEq)]
        struct Kind(u8);
        let kept = Description::new(Kind(7)).clone();
        assert_eq!(kept.read(), Some(&Kind(7)));
        assert_eq!(kept.read::<u8>(), None);
        assert_eq!(Description::default().read::<Kind>(), None);
    }
}
