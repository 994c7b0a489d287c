//! Two endpoints that know each other.

use refrain_ring::Region;
use refrain_verbs::{
    Access, Chosen, Completion, Endpoint, EndpointOptions, Error, Library, MemoryId,
    MessageEndpoint, Part, PeerAddress, PortChoice, Refused, choose,
};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// No test takes this long, even on the slowest machine.
pub const LIMIT: Duration = Duration::from_secs(100);

/// The ports of a test: two, or one port twice.
pub struct Ground {
    pub library: Library,
    pub ports: [Chosen; 2],
    _alone: MutexGuard<'static, ()>,
}

/// The ports of the tests; prints why and returns `None` if there are none. One test at a time,
/// since some cut the link.
pub fn ground() -> Option<Ground> {
    static ALONE: Mutex<()> = Mutex::new(());
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let library = match Library::load(None) {
        Ok(library) => library,
        Err(error) => {
            println!("skipped endpoints of verbs: {error}");
            return None;
        }
    };
    let devices = match library.devices() {
        Ok(devices) => devices,
        Err(error) => {
            println!("skipped endpoints of verbs: {error}");
            return None;
        }
    };
    let names: Vec<String> = devices.iter().map(|device| device.name.clone()).collect();
    let ports: Vec<Chosen> = names
        .iter()
        .filter_map(|name| {
            let wanted = PortChoice {
                device: Some(name.clone()),
                ..PortChoice::default()
            };
            choose(&devices, &wanted).ok()
        })
        .collect();
    let [first, .., second] = ports.as_slice() else {
        println!("skipped endpoints of verbs: two ports are needed, there are {names:?}");
        return None;
    };
    Some(Ground {
        library,
        ports: [first.clone(), second.clone()],
        _alone: alone,
    })
}

/// One of two endpoints.
pub struct Side {
    pub endpoint: Endpoint,
    pub region: Region,
    pub memory: MemoryId,
    peer: Option<PeerAddress>,
    pub completions: Vec<Completion>,
}

impl Side {
    pub fn open(
        ground: &Ground,
        port: usize,
        region_bytes: usize,
        options: &EndpointOptions,
    ) -> Self {
        let mut endpoint = Self::try_open(ground, port, options).unwrap();
        let region = Region::heap(region_bytes);
        let access = Access::LOCAL | Access::REMOTE_READ | Access::REMOTE_WRITE;
        let memory = endpoint.register(&region, access).unwrap();
        Self {
            endpoint,
            peer: None,
            region,
            memory,
            completions: Vec::new(),
        }
    }

    pub fn try_open(
        ground: &Ground,
        port: usize,
        options: &EndpointOptions,
    ) -> Result<Endpoint, Error> {
        Endpoint::open(&ground.library, &ground.ports[port], options)
    }

    /// Makes the other side known to this one.
    pub fn meet(&mut self, other: &Self) {
        let name = other.endpoint.name().unwrap();
        self.peer = Some(self.endpoint.insert(&name).unwrap());
    }

    /// The other side.
    pub fn peer(&self) -> PeerAddress {
        self.peer.unwrap()
    }

    pub fn poll(&mut self) {
        self.endpoint.poll(&mut self.completions).unwrap();
    }

    pub fn part(&self, offset: usize, bytes: usize) -> Part {
        Part {
            memory: self.memory,
            offset,
            bytes,
        }
    }

    /// Takes the completion with this token, if it has arrived.
    pub fn completion(&mut self, token: u64) -> Option<Completion> {
        let index = self
            .completions
            .iter()
            .position(|completion| completion.token == token)?;
        Some(self.completions.remove(index))
    }
}

/// Two endpoints in one process.
pub struct Pair {
    pub a: Side,
    pub b: Side,
}

impl Pair {
    pub fn open(ground: &Ground, region_bytes: usize) -> Self {
        Self::open_with(ground, region_bytes, &EndpointOptions::default())
    }

    pub fn open_with(ground: &Ground, region_bytes: usize, options: &EndpointOptions) -> Self {
        let mut a = Side::open(ground, 0, region_bytes, options);
        let mut b = Side::open(ground, 1, region_bytes, options);
        a.meet(&b);
        b.meet(&a);
        Self { a, b }
    }

    /// Polls both sides in turn until `done` returns a value.
    #[track_caller]
    pub fn until<T>(&mut self, mut done: impl FnMut(&mut Self) -> Option<T>) -> T {
        let began = Instant::now();
        while began.elapsed() < LIMIT {
            if let Some(result) = done(self) {
                return result;
            }
            self.a.poll();
            self.b.poll();
        }
        panic!(
            "nothing came in {LIMIT:?}; a has {:?} {:?}, b has {:?} {:?}",
            self.a.completions,
            self.a.endpoint.counters(),
            self.b.completions,
            self.b.endpoint.counters()
        );
    }

    /// Tries an operation until it is taken.
    #[track_caller]
    pub fn start(&mut self, mut operation: impl FnMut(&mut Self) -> Result<(), Refused>) {
        self.until(|pair| match operation(pair) {
            Ok(()) => Some(()),
            Err(Refused::Again | Refused::Full) => None,
            Err(error) => panic!("{error}"),
        });
    }

    #[track_caller]
    pub fn connect(&mut self) {
        self.until(|pair| {
            let (a, b) = (&pair.a, &pair.b);
            (a.endpoint.is_connected(a.peer()) && b.endpoint.is_connected(b.peer())).then_some(())
        });
    }
}
