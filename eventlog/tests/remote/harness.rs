//! Libraries, providers, rings in files, and batches.

use crate::server::Logger;
use refrain_eventlog::LoggerId;
use refrain_eventlog::message::RemoteRing;
use refrain_eventlog::remote::{Delivery, RemoteError, RemoteWriter, VERBS};
use refrain_eventlog::ring::{CONTROL_BYTES, Cursor, RingIdentity, RingMemory, RingReader};
use refrain_libfabric::constants::{FI_MSG, FI_RMA};
use refrain_libfabric::{Hints, Library};
use refrain_logging::determinant::EventIndex;
use refrain_logging::determinant::batch::{
    BATCH_BYTES_MAX, BatchHeader, HEADER_BYTES, PAYLOAD_BYTES_MAX, job_tag,
};
use refrain_ring::{Clock, Incarnation, Rank};
use refrain_verbs::{Device, PortChoice, choose};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

const SECOND: &str = "REFRAIN_LIBFABRIC_SECOND";
/// Timeout for everything that must happen.
pub const LIMIT: Duration = Duration::from_secs(20);
pub const JOB: u64 = 0x1234_5678_9abc_def0;

/// The installed libfabric, and the one that the environment names.
// Once: whichever was loaded first under a name is found again under it.
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

/// A provider of a library.
pub struct Setup {
    pub library: PathBuf,
    pub provider: String,
}

/// One end of the connection, for verbs.
#[derive(Clone, Copy)]
pub enum End {
    Logger,
    Client,
}

/// The port of that end: the first device's, the last's. One device is enough.
pub fn port(provider: &str, end: End) -> PortChoice {
    let devices = match provider {
        VERBS => verbs().expect("verbs that worked before"),
        _ => Vec::new(),
    };
    let device = match end {
        End::Logger => devices.first(),
        End::Client => devices.last(),
    };
    PortChoice {
        device: device.map(|device| device.name.clone()),
        ..PortChoice::default()
    }
}

/// Devices that have a port that works.
fn verbs() -> Result<Vec<Device>, String> {
    let library = refrain_verbs::Library::load(None).map_err(|error| error.to_string())?;
    let devices = library.devices().map_err(|error| error.to_string())?;
    choose(&devices, &PortChoice::default()).map_err(|error| error.to_string())?;
    Ok(devices)
}

/// Where the environment names providers, by commas, it is these only, and they must
/// be there.
const ONLY: &str = "REFRAIN_TEST_PROVIDERS";

fn only() -> Option<Vec<String>> {
    let names = std::env::var(ONLY).ok()?;
    Some(names.split(',').map(str::to_owned).collect())
}

/// Prints that the provider is missing, or fails if the environment names it.
fn missing(name: &str, error: &dyn core::fmt::Display) {
    assert!(only().is_none(), "{ONLY} names {name}: {error}");
    println!("skipped {name}: {error}");
}

/// Runs `test` with each provider of each library, and by verbs.
pub fn with_every_provider(test: impl Fn(&Setup)) {
    with_providers(&["shm", "tcp;ofi_rxm", "tcp", "net"], &test);
    if only().is_some_and(|names| !names.iter().any(|name| name == VERBS)) {
        return;
    }
    match verbs() {
        Ok(devices) => {
            println!("verbs, {} devices", devices.len());
            test(&Setup {
                library: "libibverbs.so.1".into(),
                provider: VERBS.to_owned(),
            });
        }
        Err(error) => missing("verbs", &error),
    }
}

/// Runs `test` with these providers of each library, one at a time: memory files
/// of the `shm` provider are named after the process.
pub fn with_providers(providers: &[&str], test: impl Fn(&Setup)) {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let only = only();
    let is_wanted = |name: &str| {
        only.as_ref()
            .is_none_or(|names| names.iter().any(|it| it == name))
    };
    for library in libraries() {
        for &provider in providers.iter().filter(|name| is_wanted(name)) {
            let hints = Hints {
                provider: Some(provider.to_owned()),
                caps: FI_MSG | FI_RMA,
                ..Hints::default()
            };
            match library.infos(&hints) {
                Ok(infos) => {
                    println!("libfabric {} {}", library.version(), infos[0].provider());
                    test(&Setup {
                        library: library.path().to_owned(),
                        provider: infos[0].provider(),
                    });
                }
                Err(error) => {
                    let version = library.version();
                    missing(&format!("libfabric {version} {provider}"), &error);
                }
            }
        }
    }
}

impl Setup {
    pub fn logger(&self) -> Logger {
        Logger::start(&self.library, &self.provider)
    }

    pub fn writer(&self, remote: &RemoteRing) -> RemoteWriter {
        self.try_writer(remote).unwrap()
    }

    pub fn try_writer(&self, remote: &RemoteRing) -> Result<RemoteWriter, RemoteError> {
        // Also for untrusted providers: the tests check the memory.
        let delivery = Delivery::Honoured;
        let port = port(&self.provider, End::Client);
        RemoteWriter::open(Some(&self.library), &self.provider, &port, remote, delivery)
    }

    /// Whether its completions and refusals are trusted.
    pub fn is_believed(&self) -> bool {
        Delivery::of(&self.provider) == Delivery::Honoured
    }
}

/// Waits for a condition, and fails with a message if it does not come true.
#[track_caller]
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begin.elapsed() < LIMIT, "waited {LIMIT:?} for {what}");
        std::thread::yield_now();
    }
}

/// A ring's file.
pub struct RingFile {
    pub path: PathBuf,
    pub file: File,
    pub memory: RingMemory,
    pub identity: RingIdentity,
}

impl RingFile {
    pub fn create(folder: &Path, incarnation: u32) -> Self {
        let identity = RingIdentity {
            job: JOB,
            rank: Rank(7),
            incarnation: Incarnation(incarnation),
            logger: LoggerId(1),
            start: EventIndex(u64::from(u32::MAX) - 10),
        };
        let path = folder.join(format!("ring-r7-i{incarnation}"));
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)
            .unwrap();
        let memory = RingMemory::create(&file, &identity).unwrap();
        Self {
            path,
            file,
            memory,
            identity,
        }
    }

    pub fn reader(&self) -> RingReader {
        RingReader::new(self.memory.clone(), self.identity)
    }

    /// What lies there now. The page cache is what the logger's process maps.
    pub fn bytes_at(&self, at: Cursor, bytes: usize) -> Vec<u8> {
        let mut found = vec![0; bytes];
        let offset = (CONTROL_BYTES + at.offset()) as u64;
        self.file.read_exact_at(&mut found, offset).unwrap();
        found
    }

    pub fn all_bytes(&self) -> Vec<u8> {
        std::fs::read(&self.path).unwrap()
    }
}

/// Makes batches of lengths and contents that look random but are always the
/// same.
pub struct Batches {
    identity: RingIdentity,
    next: EventIndex,
    clock: u64,
    state: u64,
}

impl Batches {
    pub fn new(identity: RingIdentity) -> Self {
        Self {
            identity,
            next: identity.start,
            // Behind whatever was before the start.
            clock: 5 + 2 * identity.start.0,
            state: 0x9e37_79b9_7f4a_7c15,
        }
    }

    fn draw(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state
    }

    /// Of any length.
    pub fn any(&mut self) -> Vec<u8> {
        let payload_bytes = match self.draw() % 4 {
            0 => 16,
            1 => PAYLOAD_BYTES_MAX,
            _ => 1 + (self.draw() as usize) % PAYLOAD_BYTES_MAX,
        };
        self.of(payload_bytes)
    }

    pub fn of(&mut self, payload_bytes: usize) -> Vec<u8> {
        let count = 1 + (self.draw() % 64) as u16;
        let header = BatchHeader {
            job_tag: job_tag(self.identity.job),
            rank: self.identity.rank,
            incarnation: self.identity.incarnation,
            lives_before: 0,
            first: self.next,
            count,
            first_clock: Clock(self.clock),
            last_clock: Clock(self.clock + u64::from(count)),
            payload_bytes: payload_bytes as u32,
        };
        self.next = header.end();
        self.clock = header.last_clock.0 + 1;
        let mut batch = vec![0; HEADER_BYTES];
        batch.extend((0..payload_bytes).map(|_| self.draw() as u8));
        header.seal(&mut batch);
        batch
    }
}

/// Takes the next batch.
pub fn take(reader: &mut RingReader) -> Option<Vec<u8>> {
    let mut batch = [0; BATCH_BYTES_MAX];
    reader.take(&mut batch).map(|(_, bytes)| bytes.to_vec())
}

/// Writes, where there is room.
#[track_caller]
pub fn place(writer: &mut RemoteWriter, batch: &[u8]) {
    writer.write(batch).unwrap().expect("there is room");
    let end = writer.position();
    until("a batch to be placed", || {
        (writer.poll().unwrap() == end).then_some(())
    });
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub fn unhex(text: &str) -> Vec<u8> {
    (0..text.len())
        .step_by(2)
        .map(|index| u8::from_str_radix(&text[index..index + 2], 16).unwrap())
        .collect()
}
