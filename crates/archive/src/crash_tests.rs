//! Lets every file operation of a writer fail in turn, and looks at what is left.

use std::{collections::BTreeSet, fs, path::Path};

use consign_kernel::{Message, MessageId, Payload, StateKind};
use serde_json::Map;

use crate::{
    Archive, ErasedBy, Error, Filter, IdRange, Manifest, ManifestFacts, Record, Result,
    disk::fault::{self, After},
    payload_digest,
};

const SECRET: &str = "Jane Doe";

fn record(id: i64) -> Record {
    let payload: Payload = format!(r#"{{"name":"{SECRET}","id":{id}}}"#)
        .parse()
        .unwrap();
    Record {
        digest: payload_digest(&payload),
        message: Message {
            id: MessageId(id),
            queue: "letters".parse().unwrap(),
            key: None,
            group: None,
            payload,
            headers: Map::new(),
            created_at: "2026-01-01T00:00:00Z".parse().unwrap(),
            expires_at: None,
        },
        state: StateKind::Delivered,
        attempts: Vec::new(),
        late: Vec::new(),
        audit: Vec::new(),
        dead: None,
        erased: None,
    }
}

fn write(archive: &Archive, ids: impl IntoIterator<Item = i64>) -> Result<Manifest> {
    let (first, last) = (MessageId(1), MessageId(10));
    let mut writer = archive.begin(IdRange { first, last })?;
    for id in ids {
        writer.append(&record(id))?;
    }
    writer.finish(ManifestFacts {
        store: "sqlite".into(),
        schema_version: 7,
        made_at: "2026-02-01T00:00:00Z".parse().unwrap(),
    })
}

fn erase(archive: &Archive, id: i64) -> Result<Vec<MessageId>> {
    let by = ErasedBy {
        at: "2026-03-01T00:00:00Z".parse().unwrap(),
        actor: "ada".into(),
        reason: "request 12".into(),
    };
    archive.erase(&BTreeSet::from([MessageId(id)]), &by)
}

fn ids(archive: &Archive) -> Vec<i64> {
    let found = archive.list(&Filter::default(), 100).unwrap();
    found
        .iter()
        .rev()
        .map(|record| record.message.id.0)
        .collect()
}

fn files(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name != ".lock").collect()
}

/// Whether a payload of message `id` is in any file of the folder.
fn holds_payload(archive: &Archive, id: i64) -> bool {
    let wanted = format!(r#""id":{id},"name":"{SECRET}""#);
    let mut data = files(archive.folder()).into_iter();
    data.any(|name| {
        let bytes = fs::read(archive.path(name)).unwrap();
        // What was cut off by a failure is not decompressed to its end.
        let mut text = Vec::new();
        let mut decoder = zstd::Decoder::new(&bytes[..]).unwrap();
        std::io::copy(&mut decoder, &mut text).unwrap_or_default();
        text.extend(bytes);
        String::from_utf8_lossy(&text).contains(&wanted)
    })
}

fn is_full_disk(error: &Error) -> bool {
    matches!(error, Error::Io { source, .. } if source.kind() == std::io::ErrorKind::StorageFull)
}

/// Runs `check` for every operation of a writer, until one is not reached any more.
fn for_every_operation(after: After, mut check: impl FnMut(u32) -> bool) {
    let mut number = 0;
    while check(number) {
        number += 1;
    }
    assert!(number >= 9, "{after:?}: only {number} operations");
}

#[test]
fn a_full_disk_leaves_the_earlier_archive_and_no_other_file() {
    for earlier in [vec![], vec![1, 2, 3]] {
        for_every_operation(After::Success, |number| {
            let folder = tempfile::tempdir().unwrap();
            let archive = Archive::open(folder.path()).unwrap();
            if !earlier.is_empty() {
                write(&archive, earlier.clone()).unwrap();
            }
            let before = files(folder.path());
            let (result, is_reached) =
                fault::with(number, After::Success, || write(&archive, [3, 4]));
            let all: Vec<i64> = earlier.iter().copied().chain([3, 4]).collect();
            let all: Vec<i64> = BTreeSet::from_iter(all).into_iter().collect();
            match result {
                Ok(manifest) => {
                    assert!(!is_reached, "operation {number} failed unnoticed");
                    archive.verify(&manifest).unwrap();
                    assert_eq!(ids(&archive), all);
                }
                Err(error) => {
                    assert!(is_full_disk(&error), "{error}");
                    assert!(error.to_string().contains("free space"), "{error}");
                    let now = ids(&archive);
                    assert!(now == earlier || now == all, "{number}: {now:?}");
                    if now == earlier {
                        archive.sweep().unwrap();
                        assert_eq!(files(folder.path()), before, "operation {number}");
                    }
                    write(&archive, [3, 4]).unwrap();
                    assert_eq!(ids(&archive), all);
                    assert_eq!(files(folder.path()).len(), 2);
                }
            }
            is_reached
        });
    }
}

#[test]
fn a_failed_append_removes_its_files_without_a_sweep() {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::open(folder.path()).unwrap();
    write(&archive, [1]).unwrap();
    let before = files(folder.path());
    // Create, write, sync: everything before the manifest's draft.
    for number in 0..3 {
        let (result, is_reached) = fault::with(number, After::Success, || write(&archive, [2]));
        assert!(result.is_err() && is_reached);
        assert_eq!(files(folder.path()), before, "operation {number}");
    }
}

#[test]
fn a_killed_writer_leaves_the_earlier_archive_or_the_new_one() {
    for earlier in [vec![], vec![1, 2]] {
        for_every_operation(After::Nothing, |number| {
            let folder = tempfile::tempdir().unwrap();
            let archive = Archive::open(folder.path()).unwrap();
            if !earlier.is_empty() {
                write(&archive, earlier.clone()).unwrap();
            }
            let (result, is_reached) = fault::with(number, After::Nothing, || write(&archive, [3]));
            assert_eq!(result.is_err(), is_reached);
            let all: Vec<i64> = earlier.iter().copied().chain([3]).collect();
            let left = ids(&archive);
            assert!(left == earlier || left == all, "{number}: {left:?}");
            sweep_killed_at_every_operation(&archive, &left);
            is_reached
        });
    }
}

/// A sweep that is killed is finished by the next one, and none removes what is current.
fn sweep_killed_at_every_operation(archive: &Archive, expected: &[i64]) {
    for number in 0.. {
        let folder = tempfile::tempdir().unwrap();
        for name in files(archive.folder()) {
            fs::copy(archive.path(&name), folder.path().join(&name)).unwrap();
        }
        let copy = Archive::open(folder.path()).unwrap();
        let (_, is_reached) = fault::with(number, After::Nothing, || copy.sweep());
        assert_eq!(ids(&copy), expected);
        copy.sweep().unwrap();
        assert_eq!(ids(&copy), expected);
        let current = if expected.is_empty() { 0 } else { 2 };
        assert_eq!(files(folder.path()).len(), current);
        for manifest in copy.manifests().unwrap() {
            copy.verify(&manifest).unwrap();
        }
        if !is_reached {
            break;
        }
    }
}

#[test]
fn a_killed_erasure_is_finished_by_the_next_one_or_by_a_sweep() {
    for is_swept in [true, false] {
        for_every_operation(After::Nothing, |number| {
            let folder = tempfile::tempdir().unwrap();
            let archive = Archive::open(folder.path()).unwrap();
            write(&archive, [1, 2, 3]).unwrap();
            let (result, is_reached) = fault::with(number, After::Nothing, || erase(&archive, 2));
            assert_eq!(result.is_err(), is_reached);

            let left = archive.find(MessageId(2)).unwrap().unwrap();
            assert_eq!(ids(&archive), [1, 2, 3]);
            if is_swept {
                archive.sweep().unwrap();
                let is_erased = left.erased.is_some();
                assert_eq!(holds_payload(&archive, 2), !is_erased, "operation {number}");
            }
            assert_eq!(erase(&archive, 2).unwrap(), [MessageId(2)]);
            assert!(!holds_payload(&archive, 2), "operation {number}");
            assert!(holds_payload(&archive, 3));
            assert_eq!(files(folder.path()).len(), 2);
            is_reached
        });
    }
}

#[test]
fn a_file_that_the_disk_changed_is_not_committed() {
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::open(folder.path()).unwrap();
    write(&archive, [1]).unwrap();
    let before = files(folder.path());
    fault::corrupt_next_write();
    let error = write(&archive, [2]).unwrap_err();
    assert!(matches!(error, Error::Damaged { .. }), "{error}");
    fault::corrupt_next_write();
    assert!(erase(&archive, 1).is_err());
    assert_eq!(files(folder.path()), before);
    assert_eq!(ids(&archive), [1]);
}
