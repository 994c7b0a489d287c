//! placeholder
pub mod netpipe;
