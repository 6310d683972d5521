//! The folder and its lock.

use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::fs::PermissionsExt,
    process::{Command, Stdio},
};

use consign_archive::{Archive, Error};

use crate::fixture::{Fixture, erased_by, facts, id_set, range, record};

#[test]
fn only_one_writer_holds_the_lock() {
    let fixture = Fixture::new();
    let other = Archive::open(fixture.archive.folder()).unwrap();
    let is_locked = |error: Error| {
        assert!(matches!(error, Error::Locked { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains("is locked by another writer"), "{text}");
        assert!(
            text.contains(fixture.archive.folder().to_str().unwrap()),
            "{text}"
        );
    };

    let lock = fixture.archive.lock().unwrap();
    is_locked(other.lock().unwrap_err());
    is_locked(other.begin(range(1, 10)).unwrap_err());
    is_locked(other.sweep().unwrap_err());
    is_locked(
        other
            .erase(&id_set(&[1]), &erased_by("request 12"))
            .unwrap_err(),
    );
    drop(lock);

    let mut writer = fixture.archive.begin(range(1, 10)).unwrap();
    writer.append(&record(1)).unwrap();
    is_locked(other.begin(range(11, 20)).unwrap_err());
    // Readers need no lock.
    assert!(other.manifests().unwrap().is_empty());
    writer.finish(facts(1)).unwrap();
    drop(other.lock().unwrap());
}

/// The archive that a second process locks.
const FOLDER: &str = "CONSIGN_TEST_LOCKED_ARCHIVE";

#[test]
fn only_one_process_holds_the_lock() {
    let fixture = Fixture::new();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "folder::a_process_with_the_lock", "--nocapture"]);
    command.env(FOLDER, fixture.archive.folder());
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut holder = command.spawn().unwrap();
    let mut output = BufReader::new(holder.stdout.take().unwrap()).lines();
    assert!(output.any(|line| line.unwrap() == "locked"));
    assert!(matches!(fixture.archive.lock(), Err(Error::Locked { .. })));

    // The system releases the lock of a killed process.
    holder.kill().unwrap();
    holder.wait().unwrap();
    drop(fixture.archive.lock().unwrap());
}

/// Not a test by itself: what the second process of the test above runs.
#[test]
fn a_process_with_the_lock() {
    let Ok(folder) = std::env::var(FOLDER) else {
        return;
    };
    let _lock = Archive::open(folder).unwrap().lock().unwrap();
    println!("\nlocked");
    std::io::stdin().lines().for_each(drop);
}

#[test]
fn the_folder_is_created_for_its_owner_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a/b");
    let fixture = Archive::open(&path).unwrap();
    let mut writer = fixture.begin(range(1, 10)).unwrap();
    writer.append(&record(1)).unwrap();
    writer.finish(facts(1)).unwrap();
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o700);
    for entry in fs::read_dir(&path).unwrap() {
        assert_eq!(mode(&entry.unwrap().path()), 0o600);
    }
}

#[test]
fn a_folder_that_cannot_be_created_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "x").unwrap();
    for path in [file.clone(), file.join("archive")] {
        let error = Archive::open(&path).unwrap_err().to_string();
        let expected = format!("cannot create folder {}; name a folder", path.display());
        assert!(error.starts_with(&expected), "{error}");
    }
}
