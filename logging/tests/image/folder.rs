//! Folders with all kinds of files.

use crate::written::{chunks_of, file, key, name};
use refrain_logging::image::{LogImage, LogKey, Selection, WhyStrange};
use refrain_logging::segment::{Channel, slot_offset};
use refrain_ring::{CHUNK_BYTES, Incarnation, Rank, Ssn};
use std::fs;

fn messages(image: &LogImage, key: &LogKey) -> usize {
    let mut messages = image.messages(key, Ssn(0)).expect("the log is there");
    let mut count = 0;
    while messages.next().expect("whole").is_some() {
        count += 1;
    }
    count
}

#[test]
fn segment_files_are_found_among_others() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).unwrap();
    write(
        &name(key(1), 0),
        &file(key(1), 0, 4, &chunks_of(key(1), 3, 0, 0)),
    );
    // A copy under another name is identified by its header.
    write("saved", &file(key(2), 0, 2, &chunks_of(key(2), 1, 0, 0)));
    write("notes.txt", b"nothing");
    write("empty.log", b"");
    write(&name(key(3), 0), b"");
    write(&name(key(4), 0), &[0; 10_000]);
    write(&name(key(5), 0), b"something else");
    let mut damaged = file(key(6), 0, 1, &[]);
    damaged[20] ^= 1;
    write("damaged", &damaged);
    fs::create_dir(folder.path().join(name(key(7), 0))).unwrap();
    std::os::unix::fs::symlink("notes.txt", folder.path().join(name(key(8), 0))).unwrap();

    let image = LogImage::open(folder.path(), Selection::default()).unwrap();
    let logs: Vec<LogKey> = image.logs().map(|(key, _)| key).collect();
    assert_eq!(logs, [key(1), key(2)]);
    assert_eq!(
        (messages(&image, &key(1)), messages(&image, &key(2))),
        (9, 3)
    );
    let launchers: Vec<_> = image.files().iter().map(|file| file.launcher).collect();
    assert_eq!(
        launchers[0].map(|launcher| launcher.process),
        Some(4_194_999)
    );
    assert_eq!(launchers[1], None);
    let not_begun = |file: &&_| {
        matches!(
            file,
            &&refrain_logging::image::StrangeFile {
                why: WhyStrange::NotBegun,
                ..
            }
        )
    };
    assert_eq!(image.strange_files().len(), 4);
    assert_eq!(image.strange_files().iter().filter(not_begun).count(), 2);
    assert_eq!(
        image.other_files(),
        4,
        "notes, an empty file, a folder, a link"
    );
    assert!(
        image.verify().is_damaged(),
        "a header that is damaged hides chunks"
    );
}

#[test]
fn a_folder_that_is_none_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, "").unwrap();
    for path in [path, folder.path().join("missing")] {
        let error = LogImage::open(&path, Selection::default()).unwrap_err();
        assert!(
            error.to_string().contains(path.to_str().unwrap()),
            "{error}"
        );
    }
    let image = LogImage::open(folder.path(), Selection::default()).unwrap();
    assert_eq!(image.logs().count(), 0);
    assert!(image.records(&key(1), Ssn(0)).is_err());
    assert!(!image.verify().is_damaged());
}

#[test]
fn only_what_is_selected_is_there() {
    let other_life = LogKey {
        channel: Channel {
            incarnation: Incarnation(3),
            ..key(1).channel
        },
        ..key(1)
    };
    let other_job = LogKey { job: 5, ..key(1) };
    let keys = [key(1), key(2), other_life, other_job];
    let files = || {
        keys.iter().enumerate().map(|(number, key)| {
            let chunks = chunks_of(*key, 1, 0, 0);
            (number.to_string(), file(*key, 0, 1, &chunks))
        })
    };
    let select = |selection| {
        let image = LogImage::of_contents(files(), selection);
        let mut found: Vec<LogKey> = image.logs().map(|(key, _)| key).collect();
        found.sort_by_key(|key| keys.iter().position(|other| other == key));
        found
    };
    let all = Selection::default();
    assert_eq!(select(all), keys);
    assert_eq!(
        select(Selection {
            job: Some(5),
            ..all
        }),
        [other_job]
    );
    let destination = Some(Rank(2));
    assert_eq!(select(Selection { destination, ..all }), [key(2)]);
    let incarnation = Some(Incarnation(3));
    assert_eq!(select(Selection { incarnation, ..all }), [other_life]);
    let source = Some(Rank(1));
    assert_eq!(select(Selection { source, ..all }), []);
}

/// The disk was full, or the file was copied only in part.
#[test]
fn a_file_that_was_cut_short_gives_its_whole_chunks() {
    let chunks = chunks_of(key(1), 3, 0, 0);
    let bytes = file(key(1), 0, 4, &chunks);
    for (length, whole, torn) in [
        (4096, 0, 0),
        (4096 + 10, 0, 1),
        (slot_offset(1) as usize + chunks[1].len() - 1, 1, 1),
        (slot_offset(1) as usize + chunks[1].len(), 2, 0),
        (slot_offset(3) as usize + CHUNK_BYTES, 3, 0),
    ] {
        let cut = bytes[..length].to_vec();
        let image = LogImage::of_contents([(name(key(1), 0), cut)], Selection::default());
        let verification = image.verify();
        let found = &verification.logs[&key(1)];
        assert_eq!(found.whole_chunks, whole, "{length} bytes");
        assert_eq!(found.findings.len(), torn, "{length} bytes");
        assert!(!verification.is_damaged());
        assert_eq!(messages(&image, &key(1)) as u64, whole * 3);
    }
}

/// A reused file holds old chunks behind the new ones.
#[test]
fn stale_slots_are_empty() {
    let old = chunks_of(key(2), 4, 0, 0);
    let new = chunks_of(key(1), 6, 0, 0);
    let mut bytes = file(key(1), 4, 4, &old);
    for (slot, chunk) in [(0, &new[4]), (1, &new[5])] {
        bytes[slot_offset(slot) as usize..][..chunk.len()].copy_from_slice(chunk);
    }
    let image = LogImage::of_contents([(name(key(1), 4), bytes)], Selection::default());
    let found = &image.verify().logs[&key(1)];
    assert_eq!(
        (found.whole_chunks, found.stale_slots, found.empty_slots),
        (2, 2, 0)
    );
    assert_eq!(found.findings, []);
    assert_eq!(messages(&image, &key(1)), 6);
}

/// A running job reuses its files, and removes them, while they are read.
#[test]
fn files_may_change_while_they_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name(key(1), 0));
    let chunks = chunks_of(key(1), 3, 0, 0);
    fs::write(&path, file(key(1), 0, 3, &chunks)).unwrap();
    let image = LogImage::open(folder.path(), Selection::default()).unwrap();
    fs::write(&path, file(key(2), 0, 3, &chunks_of(key(2), 1, 0, 0))).unwrap();
    let another = |image: &LogImage| {
        let mut records = image.records(&key(1), Ssn(0)).unwrap();
        assert!(
            records.next().unwrap().is_none(),
            "nothing of another channel"
        );
        records.extent().torn_chunks.len()
    };
    assert_eq!(another(&image), 3);
    // Slot 0 holds another chunk, the others are empty now.
    let verification = image.verify();
    let found = &verification.logs[&key(1)];
    let places: Vec<u64> = found.findings.iter().map(|found| found.sequence).collect();
    assert_eq!((found.whole_chunks, places), (0, vec![1, 2]));
    fs::remove_file(&path).unwrap();
    assert_eq!(another(&image), 3);
    assert_eq!(image.verify().logs[&key(1)].findings, []);
}
