//! STUB
/// Which bytes of a buffer make up a message.
pub struct Layout;
