//! The messages between clients and checkpoint servers (docs/design/checkpoint-server.md).

use crate::frames;
use crate::generated;
use crate::input::Input;
use refrain_checkpoint::message::{PROTOCOL, ToClient, ToServer};
use refrain_checkpoint::packing::{Strip, empty_strip};
use refrain_checkpoint::server::Jobs;
use refrain_checkpoint::server::session::{Answer, Session};
use refrain_storage::Directory;
use refrain_storage::simulated::SimulatedDisk;
use refrain_wire::Frame;
use std::cell::RefCell;
use std::sync::Arc;

thread_local! {
    /// One strip, reused because its allocation is slow.
    static STRIP: RefCell<Strip> = RefCell::new(empty_strip());
}

/// Checks both directions, and that a server answers any sequence of messages.
pub fn check(bytes: &[u8]) {
    frames::check::<ToServer>(&PROTOCOL, bytes);
    frames::check::<ToClient>(&PROTOCOL, bytes);
    if let Ok(Some(Frame::Data(length))) = PROTOCOL.peek(bytes) {
        assert!((1..=PROTOCOL.data_bytes_max).contains(&length));
    }
    any_messages(bytes);
}

/// Sends any messages in any order. No checkpoint is ever complete, so none is found.
fn any_messages(bytes: &[u8]) {
    let disk = SimulatedDisk::new(1);
    let mut session = Session::new(Arc::new(Jobs::new(Directory::from(disk))));
    let input = &mut Input::new(bytes);
    session.message(ToServer::Hello {
        job: 1,
        prefix: "a-".into(),
    });
    for _ in 0..4 {
        let answer = match input.u8() % 3 {
            0 => {
                let part = input.bytes();
                STRIP.with_borrow_mut(|strip| {
                    strip.bytes_mut()[..part.len()].copy_from_slice(&part);
                    session.strip(strip, part.len())
                })
            }
            _ => match generated::value(input) {
                Some(message) => session.message(message),
                None => return,
            },
        };
        if let Answer::Send(found) = answer {
            panic!("a checkpoint that was never complete: {found:?}");
        }
    }
}

/// Data, and one message of each kind.
pub fn seeds() -> Vec<Vec<u8>> {
    let data = [&PROTOCOL.header(Frame::Data(3))[..], &[1, 2, 3]].concat();
    [
        vec![data],
        frames::seeds::<ToServer>(&PROTOCOL),
        frames::seeds::<ToClient>(&PROTOCOL),
    ]
    .concat()
}
