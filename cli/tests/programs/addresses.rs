//! A program for the tests of `--same-memory`: two ranks exchange messages, and each life writes
//! addresses of its memory to a file.
//!
//! `refrain-test-addresses FOLDER`: the file is `FOLDER/RANK-INCARNATION`, with a name
//! and a value on each line.

use refrain::{Error, World, from, to};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::hint::black_box;
use std::os::unix::fs::FileExt as _;

const ROUNDS: u64 = 10;
/// The C library maps memory for a block of this size.
const LARGE_BYTES: usize = 8 << 20;
/// `AT_RANDOM` of the auxiliary vector: address of 16 random bytes from the kernel.
const AT_RANDOM: u64 = 25;

fn main() -> Result<(), Error> {
    // Before the library allocates memory, which is in the heap of a Rust program.
    let facts = facts();
    let mut world = World::init()?;
    let (own, peer) = (world.rank().0, 1 - world.rank().0);
    let folder = std::env::args().nth(1).expect("a folder");
    let file = format!("{folder}/{own}-{}", world.incarnation().0);
    fs::write(file, &facts).expect("it can be written");
    for round in 0..ROUNDS {
        let mut bytes = [0; 8];
        world.sendrecv(&round.to_le_bytes(), to(peer), &mut bytes, from(peer))?;
        assert_eq!(u64::from_le_bytes(bytes), round);
    }
    world.finalize()
}

/// The current addresses.
fn facts() -> String {
    let mut facts = String::new();
    let (own, small, large) = (7u64, Box::new(7u64), vec![7u8; LARGE_BYTES]);
    let auxiliary = fs::read("/proc/self/auxv").expect("proc is there");
    let block = |file| hexadecimal(&fs::read(file).expect("proc is there"));
    for (name, value) in [
        ("stack", address(black_box(&own))),
        ("heap", address(black_box(&*small))),
        ("large", address(black_box(&large[0]))),
        (
            "function",
            format!("{:p}", main as fn() -> Result<(), Error>),
        ),
        ("arguments", block("/proc/self/cmdline")),
        ("environment", block("/proc/self/environ")),
        ("auxiliary", hexadecimal(&auxiliary)),
        ("random", random(&auxiliary)),
    ] {
        writeln!(facts, "{name}: {value}").expect("a string");
    }
    facts
}

fn address<T>(of: &T) -> String {
    format!("{:x}", std::ptr::from_ref(of).addr())
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn random(auxiliary: &[u8]) -> String {
    let words: Vec<u64> = auxiliary
        .chunks_exact(8)
        .map(|word| u64::from_ne_bytes(word.try_into().expect("8 bytes")))
        .collect();
    let mut entries = words.chunks_exact(2);
    let entry = entries.find(|entry| entry[0] == AT_RANDOM);
    let mut bytes = [0; 16];
    File::open("/proc/self/mem")
        .and_then(|memory| memory.read_exact_at(&mut bytes, entry.expect("the kernel tells")[1]))
        .expect("it is this process's");
    hexadecimal(&bytes)
}
