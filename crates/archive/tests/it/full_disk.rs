//! A disk that is full.

use std::{io::ErrorKind, path::Path, process::Command};

use consign_archive::{Archive, Error, Filter, Record};
use consign_testkit::SmallDisk;

use crate::fixture::{Fixture, facts, ids, range, record, with_payload};

/// The folder on the small disk.
const DISK: &str = "CONSIGN_TEST_SMALL_DISK";

/// No file may grow beyond 64 KiB: every write behind that fails.
const LIMIT: &str = r#"trap '' XFSZ; ulimit -f 128; [ "$(ulimit -f)" -le 128 ] && exec "$0" "$@""#;

#[test]
fn a_full_disk_leaves_the_earlier_archive_readable() {
    let fixture = Fixture::new();
    // Where this process has no right to mount, what follows it shows that writes fail.
    if let Some(disk) = SmallDisk::over(fixture.archive.folder()) {
        run(disk.command("64k", &test_on(fixture.archive.folder())));
    }
}

#[test]
fn a_file_that_cannot_grow_leaves_the_earlier_archive_readable() {
    let fixture = Fixture::new();
    let test = test_on(fixture.archive.folder());
    let mut limited = Command::new("sh");
    limited.args(["-c", LIMIT]);
    limited.arg(test.get_program()).args(test.get_args());
    limited.env(DISK, fixture.archive.folder());
    run(limited);
}

/// This program, which then runs the test below.
fn test_on(folder: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "full_disk::on_a_small_disk", "--nocapture"]);
    command.env(DISK, folder);
    command
}

fn run(mut command: Command) {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("the disk was full"), "{text}{error}");
    assert!(output.status.success(), "{text}{error}");
}

/// Not a test by itself: what runs on the small disk of the tests above.
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
    assert!(text.contains(".jsonl.zst.tmp"), "{text}");
    if matches!(&error, Error::Io { source, .. } if source.kind() == ErrorKind::StorageFull) {
        assert!(
            text.ends_with("; free space on its disk and repeat"),
            "{text}"
        );
    }
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
