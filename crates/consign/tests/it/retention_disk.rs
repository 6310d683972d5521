//! An archive that cannot be written: a full disk, and a folder in the place of its file.

use std::{path::PathBuf, process::Command};

use consign_kernel::{By, NewMessage, Outcome, QueuePolicy};
use consign_testkit::{SmallDisk, eventually};
use serde_json::{Value, json};

use crate::{
    leaving_kills::{counts, end_lease, files, killed_at},
    orders::bench::{Bench, metric, on_both},
    service::{SOON, Service},
    support::{CommandOutput, finish, queue, work},
};

const SETTINGS: &str = "[retention]\narchive = \"archive\"\ninterval_ms = 100\nrange_age_ms = 0\n\
                        [telemetry]\nsample_interval_ms = 100\n";
const MESSAGES: usize = 3;
const RUN: &[&str] = &["retention", "run", "--json"];

/// Why the archive cannot be written.
enum Fault {
    /// Processes see a disk of 64 KiB in the place of the folder.
    FullDisk(SmallDisk),
    /// Another user's folder has the name of the file that is to be written.
    Occupied(PathBuf),
}

/// Where this process may not mount a disk, the other fault is left.
#[test]
fn a_full_archive_disk_keeps_every_message_until_there_is_room() {
    on_both(async |mut bench| {
        let folder = history(&mut bench).await;
        if let Some(disk) = SmallDisk::over(&folder) {
            keeps_every_message(&bench, Fault::FullDisk(disk)).await;
        }
    });
}

#[test]
fn an_archive_file_that_cannot_be_made_keeps_every_message_until_it_can() {
    on_both(async |mut bench| {
        let folder = history(&mut bench).await;
        // A writer that was killed leaves the name.
        killed_at(&bench, &["retention", "run"], "archive_written");
        end_lease(&bench).await;
        let name = files(&bench).into_iter().next().unwrap();
        let path = folder.join(name);
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join("occupied"), "").unwrap();
        keeps_every_message(&bench, Fault::Occupied(path)).await;
    });
}

/// Messages that may leave and do not fit on the small disk; returns the archive's folder.
async fn history(bench: &mut Bench) -> PathBuf {
    bench.configure(SETTINGS);
    let store = bench.consign.store().await;
    let mail = queue("mail");
    let policy = QueuePolicy {
        keep_ms: Some(0),
        ..QueuePolicy::default()
    };
    let by = By::new("tess", "test");
    store.put_queue(&mail, &policy, &by).await.unwrap();
    for n in 0..MESSAGES {
        let letter = NewMessage::new(mail.clone(), json!(incompressible(n as u64, 100_000)));
        store.enqueue(&[letter]).await.unwrap();
        work(&*store, &mail, Outcome::Delivered, "http_200").await;
    }
    let folder = bench.consign.folder().join("archive");
    std::fs::create_dir(&folder).unwrap();
    folder
}

async fn keeps_every_message(bench: &Bench, fault: Fault) {
    for _ in 0..3 {
        let failed = fault.run(bench, RUN).expect(3);
        let (code, message) = failed.error();
        assert_eq!(code, "archive", "{message}");
        assert!(message.contains(fault.why()), "{message}");
        assert!(
            message.ends_with("; the messages stay in the database"),
            "{message}"
        );
    }
    assert_eq!(counts(bench, "mail"), (json!(0), json!(MESSAGES)));
    let doctor = bench.consign.json(["doctor"]);
    assert_eq!(doctor["findings"], json!([]), "{doctor}");
    let hint = doctor["hints"][0].as_str().unwrap();
    assert!(
        hint.starts_with("the maintenance ends with failed since"),
        "{doctor}"
    );
    let status = bench.consign.json(["retention", "status"]);
    assert_eq!(status["pass"]["end"], "failed", "{status}");

    let service = Service::start(
        &bench.consign,
        &["serve", "--listen", "127.0.0.1:0"],
        |command| {
            fault.apply(command);
        },
    )
    .await;
    service.logs("the maintenance failed").await;
    eventually("the metrics show it", SOON, async || {
        metric(&service, "consign_retention_failures_total", "").await > 0.0
            && metric(&service, "consign_retention_stuck_passes", "").await >= 3.0
    })
    .await;
    assert_eq!(counts(bench, "mail"), (json!(0), json!(MESSAGES)));

    fault.end(service.child.id());
    eventually("they have left", SOON, async || {
        counts(bench, "mail") == (json!(MESSAGES), json!(0))
    })
    .await;
    let listed = fault.beside(
        bench,
        &["ls", "--archive", "archive", "--json"],
        service.child.id(),
    );
    assert_eq!(ids(&listed.expect(0).json()), [3, 2, 1]);
    eventually("the metrics show that it ended", SOON, async || {
        metric(&service, "consign_retention_stuck_passes", "").await == 0.0
    })
    .await;
    service.stop().await;
    bench.doctor();
}

fn ids(listed: &Value) -> Vec<i64> {
    let items = listed["items"].as_array().unwrap();
    items
        .iter()
        .map(|item| item["id"].as_i64().unwrap())
        .collect()
}

impl Fault {
    /// What an error has to name.
    fn why(&self) -> &str {
        match self {
            Self::FullDisk(_) => ".jsonl.zst.tmp; free space on its disk and repeat",
            Self::Occupied(_) => ".jsonl.zst.tmp",
        }
    }

    /// Lets a command meet it.
    fn apply(&self, command: &mut Command) {
        if let Self::FullDisk(disk) = self {
            *command = disk.command("64k", command);
        }
    }

    fn run(&self, bench: &Bench, arguments: &[&str]) -> CommandOutput {
        let mut command = command(bench, arguments);
        self.apply(&mut command);
        finish(command, b"")
    }

    /// Runs a command that sees the archive of a process.
    fn beside(&self, bench: &Bench, arguments: &[&str], process: u32) -> CommandOutput {
        let command = command(bench, arguments);
        match self {
            Self::FullDisk(disk) => finish(disk.command_beside(process, &command), b""),
            Self::Occupied(_) => finish(command, b""),
        }
    }

    /// Ends it, for a process that has met it.
    fn end(&self, process: u32) {
        match self {
            Self::FullDisk(disk) => disk.resize(process, "8m"),
            Self::Occupied(path) => std::fs::remove_dir_all(path).unwrap(),
        }
    }
}

fn command(bench: &Bench, arguments: &[&str]) -> Command {
    let mut command = bench.consign.command();
    command.arg("--database").arg(bench.consign.database());
    command.args(arguments);
    command
}

/// Text without a pattern.
fn incompressible(seed: u64, length: usize) -> String {
    let mut state = seed + 1;
    let letters = (0..length).map(|_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        char::from(b'a' + (state >> 40) as u8 % 16)
    });
    letters.collect()
}
