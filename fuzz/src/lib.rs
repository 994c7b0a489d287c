//! What must hold for every decoder whatever bytes it is given.
//!
//! Each module checks one decoder: it never panics; what it accepts encodes to
//! the same bytes again; what was encoded decodes to the same value; what the
//! format forbids is refused. The checks are plain functions of bytes, so two
//! drivers share them: libFuzzer (`src/bin/under-libfuzzer.rs`, coverage guided, feature
//! `libfuzzer`) and an ordinary test (`tests/every_target.rs`, any toolchain).

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
    /// Its name for `ci/fuzz`, and its folder's in `regressions/`.
    pub name: &'static str,
    /// Panics when a property does not hold for these bytes.
    pub check: fn(&[u8]),
    /// Valid encodings to start from: at least one of each kind.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All of them.
pub const TARGETS: &[Target] = &[
    Target {
        name: "event_file",
        check: event_file::check,
        seeds: event_file::seeds,
    },
    Target {
        name: "record_header",
        check: record_header::check,
        seeds: record_header::seeds,
    },
    Target {
        name: "control_frame",
        check: control_frame::check,
        seeds: control_frame::seeds,
    },
    Target {
        name: "launcher_message",
        check: launcher_message::check,
        seeds: launcher_message::seeds,
    },
    Target {
        name: "wire_header",
        check: wire_header::check,
        seeds: wire_header::seeds,
    },
    Target {
        name: "brief_header",
        check: brief_header::check,
        seeds: brief_header::seeds,
    },
    Target {
        name: "ofi_address",
        check: ofi_address::check,
        seeds: ofi_address::seeds,
    },
    Target {
        name: "mixed_address",
        check: mixed_address::check,
        seeds: mixed_address::seeds,
    },
    Target {
        name: "address_card",
        check: address_card::check,
        seeds: address_card::seeds,
    },
    Target {
        name: "size",
        check: size::check,
        seeds: size::seeds,
    },
    Target {
        name: "sealed_chunk",
        check: sealed_chunk::check,
        seeds: sealed_chunk::seeds,
    },
    Target {
        name: "file_header",
        check: file_header::check,
        seeds: file_header::seeds,
    },
    Target {
        name: "log_image",
        check: log_image::check,
        seeds: log_image::seeds,
    },
    Target {
        name: "event_batch",
        check: event_batch::check,
        seeds: event_batch::seeds,
    },
    Target {
        name: "event_message",
        check: event_message::check,
        seeds: event_message::seeds,
    },
    Target {
        name: "event_ring",
        check: event_ring::check,
        seeds: event_ring::seeds,
    },
    Target {
        name: "checkpoint_engine",
        check: checkpoint_engine::check,
        seeds: checkpoint_engine::seeds,
    },
    Target {
        name: "checkpoint_log",
        check: checkpoint_log::check,
        seeds: checkpoint_log::seeds,
    },
    Target {
        name: "checkpoint",
        check: checkpoint::check,
        seeds: checkpoint::seeds,
    },
    Target {
        name: "checkpoint_message",
        check: checkpoint_message::check,
        seeds: checkpoint_message::seeds,
    },
    Target {
        name: "verbs_greeting",
        check: verbs_greeting::check,
        seeds: verbs_greeting::seeds,
    },
    Target {
        name: "sealed_conversation",
        check: sealed_conversation::check,
        seeds: sealed_conversation::seeds,
    },
];
