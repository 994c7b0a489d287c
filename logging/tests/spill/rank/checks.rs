//! Properties that must hold after every step, and at the end.

use super::{CHANNELS, PAUSE_MAX, RankUnderTest};
use crate::channel::Place;
use crate::disk::Outcome;
use refrain_ring::{CHUNK_BYTES, Rank, Ssn};

impl RankUnderTest {
    /// Checks what must hold after every step.
    pub(super) fn check(&mut self) {
        let held = self.channels.iter().map(|channel| channel.log.held_bytes());
        assert_eq!(self.arena.used_bytes(), held.sum::<u64>());
        let mut lent = 0;
        for channel in &self.channels {
            channel.check_counts();
            lent += channel.log.lent_chunks();
        }
        assert_eq!(self.spill.writes_under_way(), lent);
        let statistics = self.spill.statistics();
        let platter = self.disk.platter();
        assert!(platter.bytes <= platter.bytes_max);
        assert!(statistics.disk_bytes <= platter.bytes_max);
        // Failed or removed files may not be reported yet.
        assert!(statistics.disk_bytes >= platter.bytes);
        assert_eq!(statistics.failures, platter.failures);
        assert!(self.undeleted_told <= platter.undeleted);
        drop(platter);
        for channel in 0..CHANNELS {
            self.check_index(channel);
        }
    }

    /// Checks that the index contains the needed chunks on disk, and no others.
    fn check_index(&self, channel: usize) {
        let of = &self.channels[channel];
        let destination = Rank(channel as u32);
        let told = self.disk.platter().horizons[channel];
        let on_disk = |sequence: &u64| {
            of.places[*sequence as usize] == Place::Disk && of.ssn_end(*sequence) > told
        };
        let chunks = 0..of.places.len() as u64;
        for sequence in chunks.clone() {
            let holds = self.spill.holds(destination, sequence);
            assert_eq!(holds, on_disk(&sequence), "chunk {sequence}");
        }
        for ssn in [
            0,
            of.horizon.0,
            (of.horizon.0 + of.next_ssn.0) / 2,
            of.next_ssn.0,
        ] {
            let ssn = Ssn(ssn.max(told.0));
            let first = chunks
                .clone()
                .find(|sequence| on_disk(sequence) && of.ssn_end(*sequence) > ssn);
            assert_eq!(self.spill.find(destination, &ssn.into()), first);
        }
    }

    /// LOG-2, LOG-3: each record above the horizon is in memory or on disk, as
    /// it was sent.
    pub(super) fn check_all(&mut self) {
        for channel in 0..CHANNELS {
            for sequence in 0..self.channels[channel].places.len() as u64 {
                let of = &self.channels[channel];
                let is_freed = of.check_memory(&self.arena, sequence);
                if is_freed && of.ssn_end(sequence) > of.horizon {
                    let destination = Rank(channel as u32);
                    let token = self.spill.read(destination, sequence);
                    let token = token.unwrap_or_else(|| panic!("chunk {sequence} is lost"));
                    self.reads.insert(token, (channel, sequence));
                    let mut platter = self.disk.platter();
                    let at = platter.place_of_read(token).expect("it was asked for");
                    platter.act(at, Outcome::Success);
                }
            }
        }
        self.poll();
    }

    /// All operations under way succeed, and all receivers get all sent
    /// messages: then every chunk is where it must be, and once no receiver needs it, it
    /// is gone.
    pub(super) fn finish(&mut self) {
        for channel in 0..CHANNELS {
            self.channels[channel].publish(&self.arena, usize::MAX);
            self.channels[channel].release(255);
        }
        self.settle();
        self.check_all();
        self.read_to_the_end();
        for channel in 0..CHANNELS {
            self.read_back(channel, 0);
            self.now += PAUSE_MAX;
            self.lend(channel, usize::MAX);
            self.settle();
            self.trim(channel);
        }
        self.check();
        self.check_all();
        self.read_to_the_end();
        for channel in 0..CHANNELS {
            self.channels[channel].finish();
            self.trim(channel);
            assert!(self.channels[channel].log.held_bytes() <= CHUNK_BYTES as u64);
        }
        self.settle();
        self.check();
        let platter = self.disk.platter();
        assert_eq!(platter.bytes, self.spill.statistics().disk_bytes);
        assert_eq!(self.undeleted_told, platter.undeleted);
        let undeleted_bytes = platter.undeleted * self.spill.options().file_bytes();
        assert!(
            platter.bytes - undeleted_bytes <= 8 * self.spill.options().file_bytes(),
            "files that nobody needs are removed, but for eight"
        );
    }

    pub(super) fn settle(&mut self) {
        loop {
            self.poll();
            if self.disk.platter().asked.is_empty() {
                break;
            }
            self.act(0, Outcome::Success);
        }
        assert_eq!(self.spill.writes_under_way(), 0);
        assert!(self.reads.is_empty(), "every read comes back");
        for channel in &self.channels {
            assert_eq!(channel.log.lent_chunks(), 0, "every chunk comes back");
            channel.check_overhead();
        }
    }
}
