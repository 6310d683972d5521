//! Fuzz tests: output of `git` for foreign repositories and foreign URLs never causes a panic.

use proptest::prelude::*;
use serde_json::Value;

use super::{commit::Commit, guard, numstat, remote};
use crate::{Reach, Watermark, hunks::Hunks};

/// Fragments of commits, numbers and URLs, and fragments that break them.
const PARTS: [&[u8]; 26] = [
    b"tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n",
    b"parent ",
    b"author ",
    b"committer ",
    b"A <a@b> ",
    b"1700000000 +0100\n",
    b"-99999999999999999999 +0000\n",
    b"encoding latin1\n",
    b"gpgsig x\n y\n",
    b"\n\n",
    b"\n",
    b"\xff\xfe",
    b"3\t1\ta",
    b"-\t-\tb",
    b"18446744073709551615\t1\tc",
    b"0\t0\t",
    b"\0",
    b"ae8e65d4",
    b"https://",
    b"ssh://",
    b"file://",
    b"git@h:",
    b"[::1]",
    b"%40",
    b"@@ -1,2 +3 @@",
    b"\\",
];

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        6 => proptest::sample::select(&PARTS[..]).prop_map(<[u8]>::to_vec),
        1 => any::<Vec<u8>>(),
    ];
    proptest::collection::vec(part, 0..30).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn a_commit_is_always_read(bytes in bytes()) {
        let commit = Commit::parse(&bytes);
        prop_assert!(!commit.message.contains('\0') && !commit.author.contains('\0'));
        let mut numbers = numstat::Numbers::default();
        for part in bytes.split(|byte| *byte == 0) {
            if let Some(numstat::Field::File { lines, path }) = numstat::field(part) {
                numbers.add(lines, path.unwrap_or_default());
            }
        }
        prop_assert!(numbers.paths.len() as u64 <= numbers.paths_total);
        let mut hunks = Hunks::default();
        for line in bytes.split(|byte| *byte == b'\n') {
            hunks.take(line);
        }
    }

    /// A URL added by a database role never leads to a host that the settings exclude.
    #[test]
    fn a_url_is_refused_or_taken(bytes in bytes()) {
        let url = String::from_utf8_lossy(&bytes).into_owned();
        let closed = Reach { allowed: Default::default(), local_roots: Some(Vec::new()) };
        for url in [url.clone(), format!("http://127.0.0.1/{url}"), format!("ssh://{url}@127.0.0.1/a")] {
            let Ok(place) = remote::place(&url) else { continue };
            let is_allowed = guard::check(&closed, &url, place).is_ok();
            prop_assert!(!(is_allowed && url.contains("127.0.0.1/a")), "{url}");
            prop_assert!(!(is_allowed && url.starts_with("http://127.0.0.1/")), "{url}");
        }
        drop(remote::check_branch(&url));
    }

    #[test]
    fn a_watermark_is_read_as_it_is_written(text in any::<String>(), count in any::<u64>()) {
        let stored: Value = serde_json::from_str(&text).unwrap_or_else(|_| Value::from(text.clone()));
        let mut watermark = Watermark::read(Some(&stored));
        watermark.place.insert("last_commit_sha".into(), text.into());
        watermark.last_sync_count = count;
        prop_assert_eq!(Watermark::read(Some(&watermark.to_value())), watermark);
    }
}
