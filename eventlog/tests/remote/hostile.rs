//! Loggers that send false data, and clients that try to access the memory of
//! others.

use crate::harness::{Batches, RingFile, Setup, place, with_every_provider};
use refrain_eventlog::message::RemoteRing;
use refrain_eventlog::ring::{Cursor, DATA_BYTES};
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// How long a test tries an action that must not succeed.
const TRIED: Duration = Duration::from_millis(300);

/// Writes as `remote` says. The result is an error, or no completion; never placed.
fn attempt(setup: &Setup, remote: &RemoteRing, batch: &[u8]) -> String {
    let mut writer = match setup.try_writer(remote) {
        Ok(writer) => writer,
        Err(error) => return format!("not opened: {error}"),
    };
    let begin = Instant::now();
    if let Err(error) = writer.write(batch) {
        return format!("not written: {error}");
    }
    while begin.elapsed() < TRIED {
        match writer.poll() {
            Ok(Cursor(0)) => {}
            Ok(_) => {
                assert!(!setup.is_believed(), "placed in nobody's memory");
                return "COMPLETES AS IF IT WERE THERE".to_owned();
            }
            Err(error) => return error.to_string(),
        }
    }
    "nothing happens".to_owned()
}

/// A client that uses another client's key, or writes outside its ring,
/// affects neither another client's ring nor the logger.
#[test]
fn other_memory_is_out_of_reach() {
    with_every_provider(reach_for_other_memory);
}

pub fn reach_for_other_memory(setup: &Setup) {
    let folder = tempfile::tempdir().unwrap();
    let mut logger = setup.logger();
    let ring = RingFile::create(folder.path(), 0);
    let own = RingFile::create(folder.path(), 1);
    let victim = logger.register(&ring.path);
    let remote = logger.register(&own.path);
    let mut batches = Batches::new(ring.identity);
    let mut writer = setup.writer(&victim);
    place(&mut writer, &batches.any());
    let before = (ring.all_bytes(), own.all_bytes());
    let reach = |what: &str, changed: RemoteRing| {
        let words = attempt(setup, &changed, &Batches::new(own.identity).of(500));
        println!("  {what}: {words}");
    };
    let wrong_key = |key| RemoteRing {
        key,
        ..remote.clone()
    };
    reach("next key", wrong_key(remote.key.wrapping_add(1)));
    reach("key 0", wrong_key(0));
    reach("key 1", wrong_key(1));
    reach("last key", wrong_key(u64::MAX));
    let wrong_base = |base| RemoteRing {
        base,
        ..remote.clone()
    };
    reach("behind", wrong_base(remote.base + DATA_BYTES as u64 - 64));
    reach("far behind", wrong_base(remote.base + (1 << 40)));
    if remote.base > 0 {
        reach("before", wrong_base(remote.base - 64));
        reach("base 0", wrong_base(0));
    }
    assert!(ring.all_bytes() == before.0, "another client's ring");
    assert!(own.all_bytes() == before.1, "its own ring");
    // The logger continues to serve.
    place(&mut writer, &batches.any());
    place(
        &mut setup.writer(&remote),
        &Batches::new(own.identity).any(),
    );
}

/// Data from a logger are checked before use.
#[test]
fn a_hostile_welcome_is_an_error() {
    with_every_provider(|setup| {
        let folder = tempfile::tempdir().unwrap();
        let mut logger = setup.logger();
        let ring = RingFile::create(folder.path(), 0);
        let remote = logger.register(&ring.path);
        let batch = Batches::new(ring.identity).of(10);
        let base = RemoteRing {
            base: u64::MAX - 1000,
            ..remote.clone()
        };
        let error = setup.try_writer(&base).unwrap_err();
        assert!(error.to_string().contains("cannot begin at"), "{error}");
        for provider in ["", "tcp;\0", "another", &"x".repeat(5000)] {
            let other = RemoteRing {
                provider: provider.to_owned(),
                ..remote.clone()
            };
            let error = setup.try_writer(&other).unwrap_err();
            let text = error.to_string();
            assert!(text.contains("the logger's ring is reached by"), "{text}");
        }
        let mut addresses = vec![
            vec![],
            vec![0],
            vec![0xff; 16],
            vec![0; 28],
            vec![0xff; 1023],
            vec![7; 70_000],
        ];
        // Half of it may be enough: the rest of an internet address is zeros.
        for cut in [1, 3] {
            addresses.push(remote.address[..cut].to_vec());
        }
        for address in addresses {
            let bytes = address.len();
            let other = RemoteRing {
                address,
                ..remote.clone()
            };
            let words = attempt(setup, &other, &batch);
            println!("  address of {bytes} bytes: {words}");
        }
        place(&mut setup.writer(&remote), &batch);
    });
}

/// A process connects to the provider's port and sends garbage: the logger
/// continues to serve its clients.
#[test]
fn strangers_at_the_port_change_nothing() {
    with_every_provider(|setup| {
        let folder = tempfile::tempdir().unwrap();
        let mut logger = setup.logger();
        let ring = RingFile::create(folder.path(), 0);
        let remote = logger.register(&ring.path);
        let Some(port) = internet_port(&remote.address) else {
            println!("  skipped strangers: its address is no internet address");
            return;
        };
        let mut batches = Batches::new(ring.identity);
        let mut writer = setup.writer(&remote);
        place(&mut writer, &batches.any());
        let mut knocked = 0;
        for (seed, bytes) in [0, 1, 7, 64, 200, 4096, 100_000].into_iter().enumerate() {
            let garbage: Vec<u8> = (0..bytes)
                .map(|index| (index * 31 + seed * 77) as u8)
                .collect();
            let Ok(mut stranger) = TcpStream::connect_timeout(&port, TRIED) else {
                continue;
            };
            // The logger may hang up in the middle.
            let _ = stranger.write_all(&garbage);
            knocked += 1;
            place(&mut writer, &batches.any());
        }
        assert!(knocked > 0, "nobody listens at {port}");
        place(&mut setup.writer(&remote), &batches.any());
    });
}

fn internet_port(address: &[u8]) -> Option<SocketAddr> {
    let family = u16::from_ne_bytes(*address.first_chunk()?);
    let port = u16::from_be_bytes([*address.get(2)?, *address.get(3)?]);
    let ip: [u8; 4] = address.get(4..8)?.try_into().ok()?;
    (family == 2).then(|| (Ipv4Addr::from(ip), port).into())
}
