//! Compares the speed of reading a log back with plain sequential reading of its files:
//! `cargo run --release -p refrain-logging --example read_back -- DIR [GIB]`
//!
//! The files are dropped from the system's cache before each pass; passes of both
//! kinds alternate.

use refrain_logging::image::{LogImage, LogKey, Selection};
use refrain_logging::segment::{Channel, FileHeader};
use refrain_ring::{
    Arena, CHUNK_BYTES, ChannelLog, Incarnation, LoanEnd, Position, Rank, RecordHeader, RecordKind,
    Ssn,
};
use rustix::fs::{Advice, OFlags, fadvise};
use std::error::Error;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The number of slots in a job with enough room on its disk.
const SLOTS: u32 = 256;
/// Four records fill a chunk.
const PAYLOAD_BYTES: usize = 65_408;
const PASSES: usize = 3;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().ok_or("usage: read_back DIR [GIB]")?);
    let gib: u64 = arguments.next().map_or(Ok(2), |text| text.parse())?;
    let files = write(&folder, (gib << 30) / CHUNK_BYTES as u64)?;
    let result = (0..PASSES).try_for_each(|_| {
        let plain = timed(&files, || read_plainly(&files, OFlags::empty()))?;
        let direct = timed(&files, || read_plainly(&files, OFlags::DIRECT))?;
        let log = timed(&files, || read_log(&folder))?;
        let status = fs::read_to_string("/proc/self/status")?;
        let memory = status.lines().find(|line| line.starts_with("VmHWM"));
        println!(
            "plain {plain:.2} GB/s, direct {direct:.2} GB/s, log {log:.2} GB/s ({:.0} % of the better), {}",
            log / plain.max(direct) * 100.0,
            memory.unwrap_or_default()
        );
        Ok(())
    });
    files.iter().try_for_each(fs::remove_file)?;
    result
}

fn key() -> LogKey {
    LogKey {
        job: 1,
        channel: Channel {
            source: Rank(0),
            incarnation: Incarnation(0),
            destination: Rank(1),
        },
    }
}

fn write(folder: &Path, chunks: u64) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let mut arena = Arena::heap(4 * CHUNK_BYTES);
    let mut log = ChannelLog::new(Rank(0), Incarnation(0), Rank(1), u64::MAX);
    let mut files = Vec::new();
    let mut file: Option<File> = None;
    for ssn in 0.. {
        let header = RecordHeader {
            payload_bytes: 0,
            kind: RecordKind::Eager,
            flags: 0,
            incarnation: Incarnation(0),
            source: Rank(0),
            ssn: Ssn(ssn),
            context: 0,
            tag: 0,
            extent: PAYLOAD_BYTES as u64,
        };
        let fill = |payload: &mut [u8]| payload.fill(ssn as u8);
        log.append(&mut arena, PAYLOAD_BYTES, true, header, fill)?
            .publish(arena.region());
        let Some(mut chunk) = log.lend(&arena, Position(u64::MAX)) else {
            continue;
        };
        chunk.seal(key().job);
        if chunk.sequence() == chunks {
            break;
        }
        if chunk.sequence().is_multiple_of(SLOTS.into()) {
            let header = FileHeader {
                job: key().job,
                channel: key().channel,
                first_sequence: chunk.sequence(),
                slots: SLOTS,
            };
            finish(file.take())?;
            let path = folder.join(header.name());
            file = Some(File::create(&path)?);
            files.push(path);
            file.iter()
                .try_for_each(|mut file| file.write_all(&header.encode()))?;
        }
        file.iter()
            .try_for_each(|mut file| file.write_all(chunk.chunk_bytes()))?;
        log.take_back(&chunk, LoanEnd::OnDisk);
        log.trim_below(&mut arena, &Ssn(0).into(), chunk.end());
    }
    finish(file)?;
    Ok(files)
}

fn finish(file: Option<File>) -> std::io::Result<()> {
    file.map_or(Ok(()), |file| file.sync_all())
}

/// Rate in GB/s of a pass whose bytes come from the disk.
fn timed(
    files: &[PathBuf],
    pass: impl Fn() -> Result<u64, Box<dyn Error>>,
) -> Result<f64, Box<dyn Error>> {
    for path in files {
        fadvise(File::open(path)?, 0, None, Advice::DontNeed)?;
    }
    let begin = Instant::now();
    let bytes = pass()?;
    Ok(bytes as f64 / begin.elapsed().as_secs_f64() / 1e9)
}

fn read_plainly(files: &[PathBuf], flags: OFlags) -> Result<u64, Box<dyn Error>> {
    let mut buffer = vec![0; (1 << 20) + 4096];
    let aligned = buffer.as_ptr().align_offset(4096);
    let buffer = &mut buffer[aligned..aligned + (1 << 20)];
    let mut total = 0;
    for path in files {
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(flags.bits().cast_signed());
        let mut file = options.open(path)?;
        loop {
            match file.read(buffer)? {
                0 => break,
                bytes => total += bytes as u64,
            }
        }
    }
    Ok(total)
}

fn read_log(folder: &Path) -> Result<u64, Box<dyn Error>> {
    let image = LogImage::open(folder, Selection::default())?;
    let mut records = image.records(&key(), Ssn(0))?;
    let mut total = 0;
    while let Some(record) = records.next()? {
        total += 64 + u64::from(record.header.payload_bytes);
    }
    Ok(total)
}
