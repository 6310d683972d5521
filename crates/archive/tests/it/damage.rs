//! Damaged files are found and named.

use std::fs;

use consign_archive::{Error, Manifest};
use consign_kernel::MessageId;
use ring::digest::{SHA256, digest};

use crate::fixture::{Fixture, erased_by, facts, full_record, id_set, range, record};

fn fixture() -> (Fixture, Manifest) {
    let fixture = Fixture::new();
    let records = [record(1), full_record(2, "Jane Doe"), record(3)];
    let manifest = fixture.write(1, 10, 1, &records);
    fixture.archive.verify(&manifest).unwrap();
    (fixture, manifest)
}

/// Why the data file does not match the manifest.
fn why_damaged(fixture: &Fixture, manifest: &Manifest) -> String {
    match fixture.archive.verify(manifest) {
        Err(Error::Damaged { path, why }) => {
            assert_eq!(path, fixture.path(&manifest.file));
            why
        }
        other => panic!("{other:?}"),
    }
}

fn hex(bytes: &[u8]) -> String {
    let digest = digest(&SHA256, bytes);
    digest
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Makes the manifest describe the file, as somebody who tampers with both would.
pub(crate) fn refresh(fixture: &Fixture, manifest: &mut Manifest, lines: &str) {
    let bytes = fs::read(fixture.path(&manifest.file)).unwrap();
    (manifest.bytes, manifest.sha256) = (bytes.len() as u64, hex(&bytes));
    manifest.bytes_uncompressed = lines.len() as u64;
    manifest.sha256_uncompressed = hex(lines.as_bytes());
    let name = format!(
        "messages-{:020}-{:020}.json",
        manifest.first.0, manifest.last.0
    );
    let text = serde_json::to_string(manifest).unwrap();
    fs::write(fixture.path(&name), text).unwrap();
}

#[test]
fn finds_every_flipped_byte() {
    let (fixture, manifest) = fixture();
    let path = fixture.path(&manifest.file);
    let bytes = fs::read(&path).unwrap();
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        fs::write(&path, damaged).unwrap();
        why_damaged(&fixture, &manifest);
    }
}

#[test]
fn finds_a_truncated_and_an_extended_file() {
    let (fixture, mut manifest) = fixture();
    let path = fixture.path(&manifest.file);
    let bytes = fs::read(&path).unwrap();
    for damaged in [
        &bytes[..bytes.len() - 1],
        &bytes[..0],
        &[&bytes[..], b"x"].concat(),
    ] {
        fs::write(&path, damaged).unwrap();
        manifest.bytes = bytes.len() as u64;
        assert!(why_damaged(&fixture, &manifest).contains("bytes"));
        // The length alone does not decide.
        manifest.bytes = damaged.len() as u64;
        why_damaged(&fixture, &manifest);
    }
}

#[test]
fn finds_a_removed_line() {
    let (fixture, mut manifest) = fixture();
    let without_second = |lines: String| {
        let lines: Vec<&str> = lines.split_inclusive('\n').collect();
        [lines[0], lines[2]].concat()
    };
    fixture.replace_lines(&manifest, without_second);
    assert!(why_damaged(&fixture, &manifest).contains("bytes"));

    // With lengths and SHA-256 of the shorter file, the SHA-256 of the lines or the counts differ.
    let bytes = fs::read(fixture.path(&manifest.file)).unwrap();
    (manifest.bytes, manifest.sha256) = (bytes.len() as u64, hex(&bytes));
    assert!(why_damaged(&fixture, &manifest).contains("decompressed text"));
    let lines = String::from_utf8(zstd::decode_all(&bytes[..]).unwrap()).unwrap();
    refresh(&fixture, &mut manifest, &lines);
    assert!(why_damaged(&fixture, &manifest).contains("messages: 2"));
}

#[test]
fn finds_counts_that_differ() {
    let (fixture, manifest) = fixture();
    let mut other = manifest.clone();
    other.counts.attempts += 1;
    assert!(why_damaged(&fixture, &other).contains("attempts"));
    let mut other = manifest;
    let counts = other.queues.values_mut().next().unwrap();
    counts.late += 1;
    assert!(why_damaged(&fixture, &other).contains("late"));
}

#[test]
fn finds_lines_out_of_order_or_bounds_and_changed_payloads() {
    type Change = fn(&str) -> String;
    let swap: Change = |lines| {
        let lines: Vec<&str> = lines.split_inclusive('\n').collect();
        [lines[1], lines[0], lines[2]].concat()
    };
    let cases: [(Change, &str); 6] = [
        (swap, "message 1 comes after message 2"),
        (
            |lines| lines.replace("\"id\":1,", "\"id\":11,"),
            "message 11 is out of bounds",
        ),
        (
            |lines| lines.replace("{\"number\":3}", "{\"number\":4}"),
            "message 3",
        ),
        (
            |lines| lines.replace("\"state\":\"dead\"", "\"state\":\"held\""),
            "it is held",
        ),
        (
            |lines| lines.replace("\"queue\":\"letters\"", "\"queue\":7"),
            "line 1",
        ),
        (|lines| lines.trim_end().to_owned(), "line 3: it is cut off"),
    ];
    for (change, expected) in cases {
        let (fixture, mut manifest) = fixture();
        fixture.replace_lines(&manifest, |lines| change(&lines));
        let bytes = fs::read(fixture.path(&manifest.file)).unwrap();
        let lines = String::from_utf8(zstd::decode_all(&bytes[..]).unwrap()).unwrap();
        refresh(&fixture, &mut manifest, &lines);
        let why = why_damaged(&fixture, &manifest);
        assert!(why.contains(expected), "{why}");
    }
}

#[test]
fn a_damaged_file_is_neither_copied_nor_erased() {
    let (fixture, manifest) = fixture();
    fixture.replace_lines(&manifest, |lines| lines.replace("key-3", "key-4"));
    let bytes = fs::read(fixture.path(&manifest.file)).unwrap();
    // Same length, so that only the SHA-256 at the end of the file differs.
    let mut described = manifest.clone();
    described.bytes = bytes.len() as u64;
    let name = "messages-00000000000000000001-00000000000000000010.json";
    fs::write(
        fixture.path(name),
        serde_json::to_string(&described).unwrap(),
    )
    .unwrap();
    let before = fixture.files();

    let erased = fixture
        .archive
        .erase(&id_set(&[2]), &erased_by("request 12"));
    assert!(matches!(erased, Err(Error::Damaged { .. })), "{erased:?}");
    let mut writer = fixture.archive.begin(range(1, 10)).unwrap();
    let appended = writer.append(&record(9));
    let finished = writer.finish(facts(2));
    assert!(appended.is_err() || finished.is_err());
    let mut records = fixture.archive.read(&described).unwrap();
    assert!(records.by_ref().take(3).all(|record| record.is_ok()));
    assert!(matches!(records.next(), Some(Err(Error::Damaged { .. }))));
    assert!(records.next().is_none());
    assert_eq!(fixture.files(), before);
}

#[test]
fn a_damaged_manifest_is_named() {
    let (fixture, manifest) = fixture();
    let name = "messages-00000000000000000001-00000000000000000010.json";
    let text = fs::read_to_string(fixture.path(name)).unwrap();
    for damaged in [
        text[..text.len() / 2].to_owned(),
        text.replace("\"last\": 10", "\"last\": 11"),
        text.replace(&manifest.file, "../secret"),
        text.replace("\"format\": 1", "\"format\": 0"),
        String::new(),
    ] {
        assert_ne!(damaged, text);
        fs::write(fixture.path(name), damaged).unwrap();
        for error in [
            fixture.archive.manifests().unwrap_err(),
            fixture.archive.find(MessageId(1)).unwrap_err(),
            fixture.archive.sweep().unwrap_err(),
            fixture.archive.begin(range(11, 20)).unwrap_err(),
        ] {
            assert!(matches!(error, Error::Damaged { .. }), "{error}");
            assert!(error.to_string().contains(name), "{error}");
        }
    }
    assert_eq!(
        fixture.files().len(),
        2,
        "a damaged manifest keeps its data file"
    );
}

#[test]
fn a_newer_format_is_refused() {
    let (fixture, _) = fixture();
    let name = "messages-00000000000000000001-00000000000000000010.json";
    // A newer version may have renamed every other field.
    fs::write(fixture.path(name), r#"{"format": 2, "parts": []}"#).unwrap();
    let error = fixture.archive.manifests().unwrap_err();
    assert!(matches!(
        error,
        Error::NewerFormat {
            format: 2,
            known: 1,
            ..
        }
    ));
    let text = error.to_string();
    assert!(
        text.contains("has format 2, this version reads format 1; use a newer version"),
        "{text}"
    );
    assert!(text.contains(name), "{text}");
    assert!(fixture.archive.sweep().is_err());
    assert_eq!(fixture.files().len(), 2);
}
