//! Properties that every decoder must have for any bytes.
//!
//! Each module checks one decoder: it never panics; bytes that it accepts equal the encoding of the
//! decoded value; an encoded value decodes to the same value; it refuses what the format forbids.
//! The checks are functions of bytes, so two drivers share them: libFuzzer
//! (`src/bin/under-libfuzzer.rs`, coverage guided, feature `libfuzzer`) and an ordinary test
//! (`tests/every_target.rs`, any toolchain).

pub mod address_card;
pub mod brief_header;
pub mod checkpoint;
pub mod checkpoint_engine;
pub mod checkpoint_log;
pub mod checkpoint_message;
pub mod control_frame;
pub mod event_batch;
pub mod event_file;
pub mod event_message;
pub mod event_ring;
pub mod file_header;
mod frames;
mod generated;
pub mod held_events;
mod input;
pub mod launcher_message;
pub mod log_image;
pub mod mixed_address;
pub mod ofi_address;
mod originals;
pub mod record_header;
pub mod sealed_chunk;
pub mod sealed_conversation;
pub mod size;
pub mod verbs_greeting;
pub mod wire_header;

/// One decoder under test.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The name in `ci/fuzz`, and of the folder in `regressions/`.
    pub name: &'static str,
    /// Panics if a property does not hold for the bytes.
    pub check: fn(&[u8]),
    /// Inputs to start from: at least one of each kind.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

impl Target {
    const fn new(name: &'static str, check: fn(&[u8]), seeds: fn() -> Vec<Vec<u8>>) -> Self {
        Self { name, check, seeds }
    }
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target::new("event_file", event_file::check, event_file::seeds),
    Target::new("record_header", record_header::check, record_header::seeds),
    Target::new("control_frame", control_frame::check, control_frame::seeds),
    Target::new(
        "launcher_message",
        launcher_message::check,
        launcher_message::seeds,
    ),
    Target::new("wire_header", wire_header::check, wire_header::seeds),
    Target::new("brief_header", brief_header::check, brief_header::seeds),
    Target::new("ofi_address", ofi_address::check, ofi_address::seeds),
    Target::new("mixed_address", mixed_address::check, mixed_address::seeds),
    Target::new("address_card", address_card::check, address_card::seeds),
    Target::new("size", size::check, size::seeds),
    Target::new("sealed_chunk", sealed_chunk::check, sealed_chunk::seeds),
    Target::new("file_header", file_header::check, file_header::seeds),
    Target::new("log_image", log_image::check, log_image::seeds),
    Target::new("event_batch", event_batch::check, event_batch::seeds),
    Target::new("event_message", event_message::check, event_message::seeds),
    Target::new("event_ring", event_ring::check, event_ring::seeds),
    Target::new("held_events", held_events::check, held_events::seeds),
    Target::new(
        "checkpoint_engine",
        checkpoint_engine::check,
        checkpoint_engine::seeds,
    ),
    Target::new(
        "checkpoint_log",
        checkpoint_log::check,
        checkpoint_log::seeds,
    ),
    Target::new("checkpoint", checkpoint::check, checkpoint::seeds),
    Target::new(
        "checkpoint_message",
        checkpoint_message::check,
        checkpoint_message::seeds,
    ),
    Target::new(
        "verbs_greeting",
        verbs_greeting::check,
        verbs_greeting::seeds,
    ),
    Target::new(
        "sealed_conversation",
        sealed_conversation::check,
        sealed_conversation::seeds,
    ),
];
