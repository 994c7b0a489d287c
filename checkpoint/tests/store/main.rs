//! Stores of checkpoints: on disks that fail, in real folders.

mod content;
mod crashes;
mod failures;
mod generations;
mod killed;
mod real;
