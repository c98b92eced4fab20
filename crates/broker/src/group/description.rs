//! What only a protocol's own administrators ask of its clients and groups.

use std::any::Any;
use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;

/// What the dialect that let a client in says of it, or of its group, in a type of its own: the broker keeps it, never looks into it and
/// gives it back. The dialect bounds its size. Who asks may be of another dialect, and finds nothing.
#[derive(Clone, Default)]
pub struct Description(Option<Arc<dyn Said>>);

/// What can be kept: only whether it is the same as something else is asked of it.
trait Said: Any + Send + Sync {
    fn is_same(&self, other: &dyn Any) -> bool;
}

impl<T: Any + Send + Sync + PartialEq> Said for T {
    fn is_same(&self, other: &dyn Any) -> bool {
        other.downcast_ref().is_some_and(|other| self == other)
    }
}

impl Description {
    /// Keeps what a dialect says.
    pub fn new(said: impl Any + Send + Sync + PartialEq) -> Self {
        Self(Some(Arc::new(said)))
    }

    /// What was said, if the dialect that asks said it.
    pub fn read<T: Any>(&self) -> Option<&T> {
        let said: &dyn Any = self.0.as_deref()?;
        said.downcast_ref()
    }
}

impl PartialEq for Description {
    fn eq(&self, other: &Self) -> bool {
        match (self.0.as_deref(), other.0.as_deref()) {
            (Some(one), Some(other)) => one.is_same(other),
            (one, other) => one.is_none() && other.is_none(),
        }
    }
}

impl Debug for Description {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("Description")
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
        assert_eq!(kept, Description::new(Kind(7)));
        for other in [Description::new(Kind(8)), Description::new(7_u8), Description::default()] {
            assert_ne!(kept, other);
        }
        assert_eq!(Description::default(), Description::default());
    }
}
