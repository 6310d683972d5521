//! A disk that is full.

use std::{path::Path, process::Command};

use consign_archive::{Archive, Error, Filter, Record};

use crate::fixture::{Fixture, facts, ids, range, record, with_payload};

/// Where the small disk is mounted.
const DISK: &str = "CONSIGN_TEST_SMALL_DISK";

/// Mounts a disk of 64 KiB where only the process and its children see it.
const MOUNT: &str =
    r#"mount -t tmpfs -o size=64k none "$CONSIGN_TEST_SMALL_DISK" && exec "$0" "$@""#;

#[test]
fn leaves_the_earlier_archive_readable() {
    let fixture = Fixture::new();
    let on_small_disk = |program: &Path| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c", MOUNT]);
        command.arg(program).env(DISK, fixture.archive.folder());
        command
    };
    let is_possible = on_small_disk(Path::new("true")).status();
    if !is_possible.is_ok_and(|status| status.success()) {
        eprintln!("a small disk needs the right to make a namespace; left out");
        return;
    }
    let mut command = on_small_disk(&std::env::current_exe().unwrap());
    command.args(["--exact", "full_disk::on_a_small_disk", "--nocapture"]);
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("the disk was full"), "{text}{error}");
    assert!(output.status.success(), "{text}{error}");
}

/// Not a test by itself: what runs on the small disk of the test above.
#[test]
fn on_a_small_disk() {
    let Ok(disk) = std::env::var(DISK) else {
        return;
    };
    let archive = Archive::open(Path::new(&disk)).unwrap();
    write(&archive, &[record(1), record(2)]).unwrap();
    let manifests = archive.manifests().unwrap();
    let files = || std::fs::read_dir(&disk).unwrap().count();
    let files_before = files();

    let error = write(&archive, &[with_payload(3, &incompressible(200_000))]).unwrap_err();
    assert!(matches!(error, Error::Io { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains(".jsonl.zst.tmp; free space"), "{text}");
    println!("\nthe disk was full: {text}");

    assert_eq!(archive.manifests().unwrap(), manifests);
    archive.verify(&manifests[0]).unwrap();
    assert_eq!(ids(&archive.list(&Filter::default(), 9).unwrap()), [2, 1]);
    assert_eq!(files(), files_before);
    write(&archive, &[record(3)]).unwrap();
    assert_eq!(
        ids(&archive.list(&Filter::default(), 9).unwrap()),
        [3, 2, 1]
    );
}

fn write(archive: &Archive, records: &[Record]) -> consign_archive::Result<()> {
    let mut writer = archive.begin(range(1, 10))?;
    for record in records {
        writer.append(record)?;
    }
    writer.finish(facts(1))?;
    Ok(())
}

/// A JSON text of digits without a pattern.
fn incompressible(length: usize) -> String {
    let mut state = 1_u64;
    let digits = (0..length).map(|_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        char::from(b'0' + (state >> 40) as u8 % 10)
    });
    format!("\"{}\"", digits.collect::<String>())
}
