//! The ring engine.

/// A filled buffer of the ring.
pub(crate) enum RingInput {}

impl RingInput {
    pub fn bytes(&self) -> &[u8] {
        match *self {}
    }
}
