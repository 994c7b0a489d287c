//! Two endpoints that know each other, for each provider and library.

use refrain_libfabric::constants::{FI_MSG, FI_RMA};
use refrain_libfabric::{
    Access, Completion, Endpoint, EndpointOptions, Hints, Info, Library, MemoryId, MessageEndpoint,
    PeerAddress, Refused,
};
use refrain_ring::Region;
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};

pub const SECOND: &str = "REFRAIN_LIBFABRIC_SECOND";

/// The installed libfabric, and the one that the environment names.
// Loaded once: the first library loaded under a name is found again under it.
fn libraries() -> &'static [Library] {
    static LIBRARIES: OnceLock<Vec<Library>> = OnceLock::new();
    LIBRARIES.get_or_init(|| {
        let mut libraries = Vec::new();
        match Library::load(None) {
            Ok(library) => libraries.push(library),
            Err(error) => println!("skipped the installed libfabric: {error}"),
        }
        match std::env::var_os(SECOND) {
            Some(path) => libraries.push(Library::load(Some(Path::new(&path))).unwrap()),
            None => println!("skipped libfabric 2.5: {SECOND} is not set"),
        }
        libraries
    })
}

/// Runs `test` with the first offer of each provider of each library.
///
/// One test at a time: memory files of the `shm` provider are named after the process, and two
/// libraries do not know of each other.
pub fn with_every_provider(test: impl Fn(&Library, &Info)) {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for library in libraries() {
        for provider in ["shm", "tcp;ofi_rxm", "tcp", "net"] {
            match library.infos(&hints(provider)) {
                Ok(infos) => {
                    println!("libfabric {} {}", library.version(), infos[0].provider());
                    test(library, &infos[0]);
                }
                Err(error) => println!("skipped libfabric {}: {error}", library.version()),
            }
        }
    }
}

pub fn hints(provider: &str) -> Hints {
    let over_sockets = provider != "shm";
    Hints {
        provider: Some(provider.to_owned()),
        caps: FI_MSG | FI_RMA,
        node: over_sockets.then(|| "127.0.0.1".to_owned()),
        ..Hints::default()
    }
}

pub const OPTIONS: EndpointOptions = EndpointOptions {
    cq_depth: 256,
    av_count: 4,
    wants_fd: false,
    operations_max: 64,
};

/// Calls of both endpoints before a test fails.
const ROUNDS_MAX: usize = 3_000_000;

/// One of two endpoints.
pub struct Side {
    pub endpoint: Endpoint,
    pub region: Region,
    pub memory: MemoryId,
    pub peer: PeerAddress,
    pub completions: Vec<Completion>,
}

impl Side {
    pub fn poll(&mut self) {
        self.endpoint.poll(&mut self.completions).unwrap();
    }

    /// Takes the completion with this token, if it has arrived.
    pub fn completion(&mut self, token: u64) -> Option<Completion> {
        let index = self
            .completions
            .iter()
            .position(|completion| completion.token == token)?;
        Some(self.completions.swap_remove(index))
    }
}

/// Two endpoints in one process.
pub struct Pair {
    pub a: Side,
    pub b: Side,
}

impl Pair {
    pub fn open(library: &Library, info: &Info, region_bytes: usize) -> Self {
        Self::open_with(library, info, region_bytes, &OPTIONS)
    }

    pub fn open_with(
        library: &Library,
        info: &Info,
        region_bytes: usize,
        options: &EndpointOptions,
    ) -> Self {
        let open = || {
            let mut endpoint = Endpoint::open(library, info, options).unwrap();
            let region = Region::heap(region_bytes);
            let access = Access::LOCAL | Access::REMOTE_READ | Access::REMOTE_WRITE;
            let memory = endpoint.register(&region, access).unwrap();
            (endpoint, region, memory)
        };
        let (mut a, mut b) = (open(), open());
        let (name_a, name_b) = (a.0.name().unwrap(), b.0.name().unwrap());
        let (to_b, to_a) = (a.0.insert(&name_b).unwrap(), b.0.insert(&name_a).unwrap());
        let side = |(endpoint, region, memory), peer| Side {
            endpoint,
            region,
            memory,
            peer,
            completions: Vec::new(),
        };
        Self {
            a: side(a, to_b),
            b: side(b, to_a),
        }
    }

    /// Polls both sides in turn until `done` returns a value.
    #[track_caller]
    pub fn until<T>(&mut self, mut done: impl FnMut(&mut Self) -> Option<T>) -> T {
        for _ in 0..ROUNDS_MAX {
            if let Some(result) = done(self) {
                return result;
            }
            self.a.poll();
            self.b.poll();
        }
        panic!(
            "nothing came in {ROUNDS_MAX} rounds; a has {:?}, b has {:?}",
            self.a.completions, self.b.completions
        );
    }

    /// Tries an operation until the provider takes it.
    #[track_caller]
    pub fn start(&mut self, mut operation: impl FnMut(&mut Self) -> Result<(), Refused>) {
        self.until(|pair| match operation(pair) {
            Ok(()) => Some(()),
            Err(Refused::Again) => None,
            Err(error) => panic!("{error}"),
        });
    }
}
