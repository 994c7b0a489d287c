//! Full chunks of logs, with contents that follow from a seed.

use refrain_ring::{
    Arena, CHUNK_BYTES, ChannelLog, Incarnation, LentChunk, Rank, RecordHeader, RecordKind, Region,
    Ssn,
};

/// A rank's log memory and the log of one channel in it.
#[derive(Debug)]
pub struct Chunks {
    arena: Arena,
    log: ChannelLog,
    state: u64,
    ssn: u64,
}

/// Whether chunks begin on a page, as they do in ranks' arenas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// As in a rank.
    OnAPage,
    /// As in memory from the heap.
    Anywhere,
}

impl Chunks {
    /// Room for `chunks` full chunks of one channel.
    pub fn new(seed: u64, incarnation: u32, chunks: usize, place: Place) -> Self {
        let region = Region::heap((chunks + 2) * CHUNK_BYTES);
        let to_page = region.at(0).align_offset(4096);
        let offset = match place {
            Place::OnAPage => to_page,
            // 64 bytes behind a page, wherever the heap begins.
            Place::Anywhere => (to_page + 64) % 4096,
        };
        Self {
            arena: Arena::new(region, offset, Box::new(|_, _| Ok(()))),
            log: ChannelLog::new(Rank(0), Incarnation(incarnation), Rank(1), u64::MAX),
            state: seed | 1,
            ssn: 0,
        }
    }

    fn random(&mut self) -> u64 {
        // xorshift64
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state
    }

    /// Fills the log until its next chunk is complete, and lends that.
    pub fn next_chunk(&mut self) -> LentChunk {
        loop {
            let posted = self.log.tail();
            if let Some(chunk) = self.log.lend(&self.arena, posted) {
                return chunk;
            }
            self.append();
        }
    }

    /// The next `count` chunks.
    pub fn take(&mut self, count: usize) -> Vec<LentChunk> {
        (0..count).map(|_| self.next_chunk()).collect()
    }

    fn append(&mut self) {
        let payload_bytes = match self.random() % 4 {
            0 => self.random() % 17,
            _ => self.random() % 60_000,
        } as usize;
        let seed = self.random();
        let header = RecordHeader {
            payload_bytes: payload_bytes as u32,
            kind: RecordKind::Eager,
            flags: 0,
            incarnation: Incarnation(0),
            source: Rank(0),
            ssn: Ssn(self.ssn),
            context: 0,
            tag: 7,
            extent: payload_bytes as u64,
        };
        self.ssn += 1;
        let frame = (self.log).append(&mut self.arena, payload_bytes, true, header, |payload| {
            for (index, byte) in payload.iter_mut().enumerate() {
                *byte = (seed.wrapping_mul(index as u64 + 1) >> 40) as u8;
            }
        });
        frame
            .expect("room for the chunks that were asked for")
            .publish(self.arena.region());
    }
}
