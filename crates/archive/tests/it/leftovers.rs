//! What killed writers leave is removed, and nothing else.

use std::{collections::BTreeSet, fs};

use consign_archive::{Error, Filter};
use consign_kernel::MessageId;

use crate::fixture::{Fixture, full_record, ids, record};

const BOUNDS: &str = "messages-00000000000000000001-00000000000000000010";

#[test]
fn are_never_read_and_are_swept() {
    let fixture = Fixture::new();
    let manifest = fixture.write(1, 10, 1, &[record(1)]);
    let before = fixture.files();
    let data = fs::read(fixture.path(&manifest.file)).unwrap();
    // An older and a newer generation, and drafts of this and of another range.
    let leftovers = [
        format!("{BOUNDS}-0.jsonl.zst"),
        format!("{BOUNDS}-2.jsonl.zst"),
        format!("{BOUNDS}-3.jsonl.zst.tmp"),
        format!("{BOUNDS}.json.tmp"),
        "messages-00000000000000000011-00000000000000000020-1.jsonl.zst.tmp".to_owned(),
    ];
    for name in &leftovers {
        fs::write(fixture.path(name), &data[..data.len() / 2]).unwrap();
    }
    assert_eq!(
        ids(&fixture.archive.list(&Filter::default(), 10).unwrap()),
        [1]
    );
    let removed: BTreeSet<String> = fixture.archive.sweep().unwrap().into_iter().collect();
    assert_eq!(removed, leftovers.into());
    assert_eq!(fixture.files(), before);
    assert!(fixture.archive.sweep().unwrap().is_empty());
}

#[test]
fn a_data_file_that_was_not_committed_is_swept() {
    // The first write of a range was killed between the two renames.
    let fixture = Fixture::new();
    let manifest = fixture.write(1, 10, 1, &[full_record(1, "Jane Doe")]);
    let name = format!("{BOUNDS}.json");
    fs::rename(fixture.path(&name), fixture.path(&format!("{name}.tmp"))).unwrap();
    assert!(fixture.archive.find(MessageId(1)).unwrap().is_none());
    let removed = fixture.archive.sweep().unwrap();
    assert_eq!(removed, [manifest.file, format!("{name}.tmp")]);
    assert!(fixture.files().is_empty());
}

#[test]
fn a_data_file_that_lost_its_manifest_is_kept_and_named() {
    let fixture = Fixture::new();
    let manifest = fixture.write(1, 10, 1, &[record(1)]);
    fs::remove_file(fixture.path(&format!("{BOUNDS}.json"))).unwrap();
    fs::write(fixture.path(&format!("{BOUNDS}-2.jsonl.zst.tmp")), "x").unwrap();
    let error = fixture.archive.sweep().unwrap_err();
    assert!(matches!(error, Error::ManifestMissing { .. }), "{error}");
    assert!(error.to_string().contains(&manifest.file), "{error}");
    assert!(fixture.archive.begin(manifest.range()).is_err());
    assert_eq!(fixture.files(), [manifest.file].into());
}

#[test]
fn a_manifest_that_lost_its_data_file_is_named() {
    let fixture = Fixture::new();
    let manifest = fixture.write(1, 10, 1, &[record(1)]);
    let older = format!("{BOUNDS}-0.jsonl.zst");
    fs::rename(fixture.path(&manifest.file), fixture.path(&older)).unwrap();
    for error in [
        fixture.archive.find(MessageId(1)).unwrap_err(),
        fixture.archive.list(&Filter::default(), 10).unwrap_err(),
        fixture.archive.verify(&manifest).unwrap_err(),
        fixture.archive.sweep().unwrap_err(),
    ] {
        assert!(matches!(error, Error::DataMissing { .. }), "{error}");
        assert!(error.to_string().contains(&manifest.file), "{error}");
    }
    assert!(fixture.files().contains(&older), "it may be the last copy");
}

#[test]
fn other_files_of_the_folder_are_left_alone() {
    let fixture = Fixture::new();
    fixture.write(1, 10, 1, &[record(1)]);
    for name in [
        "README.md",
        "messages-1-10.json",
        "notes.tmp",
        "messages.jsonl.zst",
    ] {
        fs::write(fixture.path(name), "x").unwrap();
    }
    let before = fixture.files();
    assert!(fixture.archive.sweep().unwrap().is_empty());
    assert_eq!(fixture.archive.manifests().unwrap().len(), 1);
    assert_eq!(fixture.files(), before);
}

#[test]
fn a_writer_that_is_dropped_leaves_no_file() {
    let fixture = Fixture::new();
    let mut writer = fixture.archive.begin(crate::fixture::range(1, 10)).unwrap();
    writer.append(&record(1)).unwrap();
    assert_eq!(fixture.files().len(), 1);
    drop(writer);
    assert!(fixture.files().is_empty());
}
