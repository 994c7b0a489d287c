//! A hash of a state: the same for states that go on in the same way.
//!
//! Engines are told apart by their words ([`Engine::inside`]), the addresses in
//! which are left out: two runs have other ones.
//!
//! [`Engine::inside`]: refrain_transport::engine::Engine::inside

use super::life::{Doing, LONG_BYTES, Life};
use super::world::{News, World};
use core::fmt::{self, Write as _};
use std::hash::{DefaultHasher, Hash, Hasher};

impl World {
    /// See the [module](self).
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        let hash = &mut hasher;
        for life in &self.lives {
            match life {
                None => 0.hash(hash),
                Some(life) => life.hash_into(hash),
            }
        }
        (&self.newest, &self.rows, &self.images, self.deaths).hash(hash);
        self.ghost.borrow().hash(hash);
        for news in self.news.iter().flatten().flatten() {
            match news {
                News::Down(of) => (1, of).hash(hash),
                News::Up(of, _) => (2, of).hash(hash),
            }
        }
        let per_pair = self.news.iter().flatten().map(Vec::len);
        per_pair.collect::<Vec<_>>().hash(hash);
        self.hash_network(hash);
        hasher.finish()
    }

    /// Frames to the dead are nobody's.
    fn hash_network(&self, hash: &mut DefaultHasher) {
        for on_its_way in self.network.on_their_way() {
            let to = on_its_way.route.to;
            if self.newest[to.rank.index()] == to.incarnation
                && self.lives[to.rank.index()].is_some()
            {
                (on_its_way.route, on_its_way.lane, &on_its_way.bytes).hash(hash);
            }
        }
    }
}

impl Life {
    /// A hash of this life alone.
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash_into(&mut hasher);
        hasher.finish()
    }

    fn hash_into(&self, hash: &mut DefaultHasher) {
        (self.incarnation, &self.at, &*self.begun.borrow()).hash(hash);
        self.desk.0.borrow().hash(hash);
        if let Some(events) = self.engine.protocol().events() {
            (events.recorded(), events.stable(), events.counts()).hash(hash);
        }
        match &self.doing {
            Doing::Nothing => 0.hash(hash),
            Doing::Sending(_, _, sent) => (1, sent).hash(hash),
            Doing::Receiving { room, clock, .. } => (2, room.read(LONG_BYTES), clock).hash(hash),
            Doing::Saving(saving) => {
                3.hash(hash);
                saving.0.hash(hash);
                hash_words(hash, &saving.1);
            }
        }
        hash_words(hash, &self.engine.inside());
    }
}

/// Hashes words, but for addresses.
struct Words<'a> {
    hasher: &'a mut DefaultHasher,
    /// The digits of an address come next.
    in_address: bool,
}

impl fmt::Write for Words<'_> {
    fn write_str(&mut self, words: &str) -> fmt::Result {
        let is_address = core::mem::replace(&mut self.in_address, words == "0x");
        if !is_address {
            self.hasher.write(words.as_bytes());
        }
        Ok(())
    }
}

fn hash_words(hasher: &mut DefaultHasher, words: &dyn fmt::Debug) {
    let mut to = Words {
        hasher,
        in_address: false,
    };
    // Hashing does not fail.
    let _ = write!(to, "{words:?}");
}
