//! Messages that go to several ranks: written and logged once, received as any other, in all lives,
//! and freed when every receiver has read its record and no horizon keeps it.

use crate::disk::MemoryDisk;
use crate::lives::life::LogMeans;
use crate::lives::scenes::Pair;
use crate::memory::{receive_buffer, send_buffer};
use crate::networks;
use crate::rig::{Receipt, Rig, Sent, Setup, UNTOUCHED, payload, to};
use refrain_ring::{CHUNK_BYTES, Rank, RecordHeader, Ssn, Stream};
use refrain_transport::engine::{InternalOperation, Progress, SendTo};
use refrain_transport::fabric::sim::Options;
use refrain_transport::matching::Envelope;
use std::collections::BTreeMap;

const SHARED: u64 = 8 * CHUNK_BYTES as u64;

fn envelope(source: u32, tag: i32) -> Envelope {
    Envelope {
        context: 0,
        source: Rank(source),
        tag,
    }
}

/// Four ranks that share payload.
fn rig(network: &Options, keeps: bool, shared_bytes: u64) -> Rig {
    let setup = Setup::new(network.clone()).ranks(4);
    let setup = if keeps {
        setup.keeping(16 << 20)
    } else {
        setup
    };
    sharing(setup, shared_bytes)
}

/// Ranks that share the payload of messages of 64 bytes and more.
pub fn sharing(setup: Setup, shared_bytes: u64) -> Rig {
    let mut rig = setup.build();
    let engines = core::mem::take(&mut rig.engines).into_iter();
    let sharing = engines.map(|engine| engine.with_shared_payload(shared_bytes, 64));
    rig.engines = sharing.collect();
    rig
}

/// An operation at each rank; rank 0 publishes.
pub struct Published {
    operations: Vec<InternalOperation>,
    tag: i32,
}

impl Published {
    pub fn begin(rig: &mut Rig) -> Self {
        let ranks = 0..rig.engines.len();
        let begun = ranks.map(|rank| rig.engines[rank].begin_internal().expect("a free stream").0);
        Self {
            operations: begun.collect(),
            tag: 0,
        }
    }

    /// Publishes a message to all other ranks.
    fn publish(&mut self, rig: &mut Rig, bytes: &[u8]) -> Vec<Sent> {
        self.tag += 1;
        let room = rig.room(bytes);
        let publication = rig.engines[0].publication(bytes.len() as u64);
        let mut sent = Vec::new();
        for rank in 1..rig.engines.len() as u32 {
            let to = SendTo {
                synchronous: rank == 2 && self.tag % 3 == 0,
                ..to(rank, self.tag)
            };
            let (operation, data) = (&self.operations[0], send_buffer(&room));
            let started =
                rig.engines[0].publish_internal(operation, publication.as_ref(), data, to);
            sent.push(Sent {
                from: 0,
                room: room.clone(),
                started: started.expect("the log can hold it"),
            });
        }
        sent
    }

    fn receive(&self, rig: &mut Rig, at: usize, tag: i32, bytes: usize) -> Receipt {
        let room = rig.room(&vec![UNTOUCHED; bytes]);
        let buffer = receive_buffer(&room, bytes);
        let (operation, from) = (&self.operations[at], envelope(0, tag));
        let id = rig.engines[at].receive_internal(operation, buffer, from);
        Receipt { at, id, room }
    }

    /// Publishes a message, and receives it everywhere: with receives before it or not.
    pub fn pass(&mut self, rig: &mut Rig, bytes: usize) {
        let (data, tag) = (payload(self.tag as u64, bytes), self.tag + 1);
        let ranks = 1..rig.engines.len();
        let early = ranks
            .clone()
            .filter(|rank| (rank + tag as usize).is_multiple_of(2));
        let mut receipts: Vec<_> = early.map(|at| self.receive(rig, at, tag, bytes)).collect();
        let sent = self.publish(rig, &data);
        if tag % 2 == 0 {
            rig.settle();
        }
        let late = ranks.filter(|rank| !(rank + tag as usize).is_multiple_of(2));
        receipts.extend(late.map(|at| self.receive(rig, at, tag, bytes)));
        for receipt in &receipts {
            let (outcome, found) = rig.finish_receive(receipt);
            assert_eq!(outcome.status.bytes, bytes as u64);
            assert!(found == data, "{bytes} bytes to rank {}", receipt.at);
        }
        for sent in &sent {
            rig.finish_send(sent);
        }
    }

    pub fn end(self, rig: &mut Rig) {
        for (rank, operation) in self.operations.into_iter().enumerate() {
            let id = operation.request().expect("the program waits for it");
            rig.engines[rank].finish_internal(operation);
            rig.engines[rank].retire(id);
        }
    }
}

// LOG-6
#[test]
fn all_ranks_get_what_is_published() {
    for network in networks::all() {
        for keeps in [false, true] {
            let mut rig = rig(&network, keeps, SHARED);
            let mut published = Published::begin(&mut rig);
            for bytes in [0, 1, 63, 64, 65, 1000, 20_000, 300_000] {
                published.pass(&mut rig, bytes);
            }
            published.end(&mut rig);
            rig.end();
        }
    }
}

/// Payload for three ranks takes the room of one.
// LOG-6
#[test]
fn what_is_published_is_logged_once() {
    for keeps in [false, true] {
        let mut rig = rig(&networks::calm(), keeps, SHARED);
        let mut published = Published::begin(&mut rig);
        published.pass(&mut rig, 1 << 20);
        let logged = rig.engines[0].log_bytes_appended();
        // Besides: one header of a chunk for each channel, and the links.
        assert!(logged < (11 << 20) / 10, "{logged}");
    }
}

/// The memory goes round without horizons, and with them it is free when all have published one.
// LOG-3 LOG-4 LOG-6
#[test]
fn memory_is_free_when_all_receivers_are_done() {
    let chunk = CHUNK_BYTES as u64;
    for keeps in [false, true] {
        let mut rig = rig(&networks::calm(), keeps, SHARED);
        for round in 0..6 {
            let mut published = Published::begin(&mut rig);
            (0..4).for_each(|_| published.pass(&mut rig, 400_000));
            let logged = rig.engines[0].log_bytes_appended();
            // Without a kept log, payload may be free before it is sent to the last rank.
            assert!(
                !keeps || logged < (round + 1) * 1_700_000,
                "{round}: {logged}"
            );
            published.end(&mut rig);
            rig.settle();
            rig.engines[0].trim();
            if keeps {
                // Of one receiver no horizon is known yet.
                rig.engines[1..3]
                    .iter_mut()
                    .for_each(|it| it.publish_horizon());
                rig.settle();
                assert!(rig.engines[0].log_bytes().0 >= 7 * chunk);
                rig.engines[3].publish_horizon();
                rig.settle();
            }
            // Each channel and the shared payload keep the chunk that is being filled.
            assert!(rig.engines[0].log_bytes().0 <= 4 * chunk);
        }
        rig.end();
    }
}

/// Without room in the shared area, each channel has a copy.
// LOG-3 LOG-6
#[test]
fn a_full_area_stops_nobody() {
    for network in [networks::calm()].into_iter().chain(networks::staging()) {
        let mut rig = rig(&network, true, 2 * CHUNK_BYTES as u64);
        let mut published = Published::begin(&mut rig);
        for bytes in [300_000, 400_000, 100, 100_000] {
            published.pass(&mut rig, bytes);
        }
        let logged = rig.engines[0].log_bytes_appended();
        assert!(logged > 500_000 + 3 * 280_000, "{logged}");
        published.end(&mut rig);
        rig.end();
    }
}

/// A rank that holds messages in its sender's log keeps them as they are.
// LOG-6
#[test]
fn messages_that_wait_stay_as_they_are() {
    for network in networks::all() {
        let mut rig = rig(&network, false, 2 * CHUNK_BYTES as u64);
        let mut published = Published::begin(&mut rig);
        let data: Vec<_> = (0..12).map(|message| payload(message, 60_000)).collect();
        let mut sent = Vec::new();
        for data in &data {
            sent.extend(published.publish(&mut rig, data));
            rig.settle();
        }
        // Rank 3 receives at the end, the others go on.
        for at in 1..4 {
            for (tag, data) in (1..).zip(&data) {
                let receipt = published.receive(&mut rig, at, tag, data.len());
                let (_, found) = rig.finish_receive(&receipt);
                assert!(found == *data, "message {tag} at rank {at}");
            }
        }
        for sent in &sent {
            rig.finish_send(sent);
        }
        published.end(&mut rig);
        rig.end();
    }
}

/// The messages of the first operation in the log of rank 0 to `to`, from `from` on.
fn read_back(rig: &mut Rig, to: Rank, from: Ssn) -> Result<BTreeMap<Ssn, Vec<u8>>, Ssn> {
    let mut reader = rig.engines[0].read_back(to, from);
    let mut found = BTreeMap::<Ssn, Vec<u8>>::new();
    let mut waits = 0;
    loop {
        let mut give = |header: &RecordHeader, payload: &[u8]| {
            found.entry(header.ssn).or_default().extend(payload);
        };
        match rig.engines[0].read_on(&mut reader, &mut give) {
            Ok(Progress::End) => return Ok(found),
            Ok(Progress::Passed(ssn)) => return Err(ssn),
            Ok(Progress::Records(_)) => {}
            Ok(Progress::Waiting) => {
                waits += 1;
                assert!(waits < 10_000, "the disk does not answer");
                rig.progress(0);
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Also when the chunks with the references are on disk.
// LOG-2 LOG-6
#[test]
fn what_was_published_is_read_back() {
    let mut rig = rig(&networks::calm(), true, SHARED);
    let disk = MemoryDisk::default();
    let engine = rig.engines.remove(0).with_spill(Box::new(disk.clone()));
    rig.engines.insert(0, engine);
    let mut published = Published::begin(&mut rig);
    for bytes in [100, 50_000, 200_000] {
        published.pass(&mut rig, bytes);
    }
    published.end(&mut rig);
    for message in 0..40 {
        let data = payload(message, 200_000);
        rig.send(0, to(1, 77), &data);
        rig.expect(1, crate::rig::from(0, 77), &data);
    }
    rig.settle();
    assert!(disk.chunk_count() > 10, "the first chunk is on disk");
    for to in 1..4 {
        let found = read_back(&mut rig, Rank(to), Ssn(0)).expect("all of it");
        let mut of_stream = found
            .iter()
            .filter(|(ssn, _)| ssn.stream() == Stream::FIRST_OPERATION);
        for (message, bytes) in [100, 50_000, 200_000].into_iter().enumerate() {
            let (_, data) = of_stream.next().expect("a message");
            assert!(*data == payload(message as u64, bytes), "{bytes} to {to}");
        }
        assert!(of_stream.next().is_none());
    }
}

/// Two ranks: what rank 0 publishes to rank 1 is received, and again by its later life.
fn later_receiver(network: Options, log: LogMeans, then: usize) {
    let mut pair = Pair::with(network, log);
    for rank in [0, 1] {
        let life = pair.lives[rank].take().expect("it lives");
        pair.lives[rank] = Some(life.sharing(SHARED));
    }
    let lengths = [70, 3000, 150_000];
    let (operation, _) = pair.engine(0).begin_internal().expect("a free stream");
    let mut requests = Vec::new();
    for (tag, bytes) in (0..).zip(lengths) {
        let room = pair.room(&payload(tag as u64, bytes));
        let publication = pair.engine(0).publication(bytes as u64);
        let (data, to) = (send_buffer(&room), to(1, tag));
        let sent = (pair.engine(0)).publish_internal(&operation, publication.as_ref(), data, to);
        requests.push(sent.expect("the log can hold it"));
    }
    let receive = |pair: &mut Pair| {
        let (operation, _) = pair.engine(1).begin_internal().expect("a free stream");
        for (tag, bytes) in (0..).zip(lengths) {
            let room = pair.room(&vec![UNTOUCHED; bytes]);
            let (buffer, from) = (receive_buffer(&room, bytes), envelope(0, tag));
            let id = pair.engine(1).receive_internal(&operation, buffer, from);
            for _ in 0..40 {
                pair.settle();
                if pair.engine(1).outcome(id).is_some() {
                    break;
                }
            }
            assert!(
                pair.engine(1).outcome(id).is_some(),
                "message {tag} is missing"
            );
            assert!(room.read() == payload(tag as u64, bytes));
            pair.engine(1).retire(id);
        }
    };
    receive(&mut pair);
    for message in 0..then as u64 {
        let data = payload(100 + message, 200_000);
        pair.send(0, to(1, 50), &data);
        pair.expect(1, crate::rig::from(0, 50), &data);
    }
    for incarnation in 1..3 {
        pair.lay_down(1);
        pair.raise(1, incarnation);
        pair.settle();
        receive(&mut pair);
    }
}

/// The log in memory, and on disk while the payload stays in memory.
// REC-3 LOG-6
#[test]
fn a_later_life_gets_what_was_published() {
    for network in networks::all() {
        let log = LogMeans {
            bytes: 8 << 20,
            has_disk: false,
        };
        later_receiver(network.clone(), log, 3);
        let log = LogMeans {
            bytes: 4 << 20,
            has_disk: true,
        };
        later_receiver(network, log, 40);
    }
}
