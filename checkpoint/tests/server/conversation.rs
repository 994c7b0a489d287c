//! A session without its socket.

use crate::content::job;
use refrain_checkpoint::SectionKind;
use refrain_checkpoint::format::{Header, PAGE_BYTES, STRIP_BYTES};
use refrain_checkpoint::message::{Refusal, ToClient, ToServer};
use refrain_checkpoint::packing::{Packing, Strip, Strips, empty_strip};
use refrain_checkpoint::server::Jobs;
use refrain_checkpoint::server::session::{Answer, Session};
use refrain_ring::{Incarnation, Rank};
use refrain_storage::Directory;
use refrain_storage::simulated::{Failure, Kind, SimulatedDisk};
use std::sync::Arc;

#[derive(Default)]
struct Memory(Vec<u8>);

impl Strips for Memory {
    type Error = ();

    fn exchange(&mut self, _: u64, strip: &mut Strip, bytes: usize) -> Result<(), ()> {
        self.0.extend(&strip.bytes()[..bytes]);
        Ok(())
    }
}

/// A checkpoint as a client sends it.
fn image(number: u64, bytes: usize) -> Vec<u8> {
    let header = Header {
        job: job().id,
        rank: Rank(1),
        incarnation: Incarnation(0),
        number,
        salt: 7,
    };
    let mut memory = Memory::default();
    let mut packing = Packing::new(header, empty_strip());
    let begun = packing.section(SectionKind::Memory, 0, &mut memory);
    begun.unwrap().unwrap();
    packing.write(&vec![9; bytes], &mut memory).unwrap();
    packing.end(&mut memory).unwrap();
    memory.0
}

struct Talk {
    disk: SimulatedDisk,
    session: Session,
}

impl Talk {
    fn new() -> Self {
        let disk = SimulatedDisk::new(1);
        let jobs = Arc::new(Jobs::new(Directory::from(disk.clone())));
        let session = Session::new(jobs);
        Self { disk, session }
    }

    fn say(&mut self, message: ToServer) -> Option<ToClient> {
        match self.session.message(message) {
            Answer::Nothing => None,
            Answer::Say(said) => Some(said),
            Answer::Send(_) => panic!("nothing was asked for"),
        }
    }

    fn send(&mut self, bytes: &[u8]) -> Option<ToClient> {
        let mut strip = empty_strip();
        strip.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
        match self.session.strip(&mut strip, bytes.len()) {
            Answer::Nothing => None,
            Answer::Say(said) => Some(said),
            Answer::Send(_) => panic!("nothing was asked for"),
        }
    }

    fn hello(&mut self) {
        let hello = ToServer::Hello {
            job: job().id,
            prefix: job().prefix,
        };
        assert_eq!(self.say(hello), Some(ToClient::Welcome));
    }

    fn begin(&mut self, number: u64) -> Option<ToClient> {
        self.say(ToServer::Begin {
            rank: 1,
            incarnation: 0,
            number,
        })
    }

    /// Checks that after a refusal with this text all further messages are refused, and no file is
    /// on the disk.
    fn has_ended(mut self, said: Option<ToClient>, words: &str) {
        let Some(ToClient::Refused(why)) = said else {
            panic!("{said:?}, expected {words:?}");
        };
        let text = why.into_error("unix:x").to_string();
        assert!(text.contains(words), "{text}");
        let again = self.begin(9);
        assert!(matches!(again, Some(ToClient::Refused(_))), "{again:?}");
        let again = self.send(&image(9, 9));
        assert!(matches!(again, Some(ToClient::Refused(_))), "{again:?}");
        drop(self.session);
        let names = self.disk.names().unwrap();
        assert!(names.is_empty(), "{names:?}");
    }
}

fn begun() -> Talk {
    let mut talk = Talk::new();
    talk.hello();
    assert_eq!(talk.begin(1), Some(ToClient::Begun));
    talk
}

#[test]
fn a_checkpoint_that_comes_whole_is_stable() {
    for bytes in [0, 5, STRIP_BYTES - PAGE_BYTES - 192, 3 * STRIP_BYTES] {
        let mut talk = begun();
        let image = image(1, bytes);
        for strip in image.chunks(STRIP_BYTES) {
            assert_eq!(talk.send(strip), None);
        }
        let bytes = image.len() as u64;
        let left = Vec::new();
        let stable = Some(ToClient::Stable { bytes, left });
        assert_eq!(talk.say(ToServer::Commit { bytes }), stable);
        let name = "refrain-17-4-r1-000000000001.ckpt";
        assert!(talk.disk.bytes(name).unwrap() == image);
    }
}

#[test]
fn what_is_said_out_of_order_is_refused() {
    let mut talk = Talk::new();
    let said = talk.begin(1);
    talk.has_ended(said, "out of order");
    let mut talk = Talk::new();
    let said = talk.send(&image(1, 1));
    talk.has_ended(said, "out of order");
    let mut talk = Talk::new();
    talk.hello();
    let said = talk.say(ToServer::Commit { bytes: 0 });
    talk.has_ended(said, "out of order");
    let mut talk = begun();
    let said = talk.begin(2);
    talk.has_ended(said, "out of order");
}

#[test]
fn other_names_are_refused() {
    let hello = |prefix: &str| ToServer::Hello {
        job: 1,
        prefix: prefix.into(),
    };
    for (said, words) in [
        (hello("../a"), "cannot begin a file name"),
        (hello(&"a".repeat(300)), "cannot begin"),
    ] {
        let mut talk = Talk::new();
        let said = talk.say(said);
        talk.has_ended(said, words);
    }
    let mut talk = Talk::new();
    talk.hello();
    let jobs = Arc::new(Jobs::new(Directory::from(talk.disk.clone())));
    let mut first = Session::new(jobs.clone());
    let mut second = Session::new(jobs);
    first.message(hello("same-"));
    let other = ToServer::Hello {
        job: 2,
        prefix: "same-".into(),
    };
    let said = second.message(other);
    let Answer::Say(ToClient::Refused(Refusal::Other(why))) = said else {
        panic!("{said:?}");
    };
    assert!(why.contains("another job"), "{why}");
}

// EL-2
#[test]
fn nothing_is_taken_that_is_not_what_was_said_to_come() {
    let whole = image(1, 2 * STRIP_BYTES);
    let mut strips = whole.chunks(STRIP_BYTES);
    let (first, second) = (strips.next().unwrap(), strips.next().unwrap());
    let mut changed = first.to_vec();
    changed[70_000] ^= 1;
    for (sent, words) in [
        (vec![&changed[..]], "does not match its checksum"),
        (vec![&image(2, 5)[..]], "number 2"),
        (vec![&first[..5000]], "cut short"),
        (vec![first, first], "does not match its checksum"),
        (vec![first, &second[..4096]], "cut short"),
        (
            vec![&image(1, 5)[..], &image(1, 5)[..]],
            "bytes follow its end",
        ),
    ] {
        let mut talk = begun();
        let (last, before) = sent.split_last().unwrap();
        for strip in before {
            assert_eq!(talk.send(strip), None, "{words}");
        }
        let said = talk.send(last);
        talk.has_ended(said, words);
    }
    let mut talk = begun();
    assert_eq!(talk.send(first), None);
    let bytes = STRIP_BYTES as u64;
    let said = talk.say(ToServer::Commit { bytes });
    talk.has_ended(said, "cut short");
}

#[test]
fn a_disk_that_refuses_is_told_as_it_is_here() {
    let mut talk = begun();
    talk.disk.fail(Kind::Sync, Failure::NoSpace, 1);
    let image = image(1, 10);
    assert_eq!(talk.send(&image), None);
    let bytes = image.len() as u64;
    let said = talk.say(ToServer::Commit { bytes });
    talk.has_ended(said, "free some room there");
}
