//! Parser for `svn log --xml --verbose`.

use consign_artifacts::{hex, sha256_of};
use ring::digest::{Context, SHA256};
use serde_json::{Value, json};

use super::{program::Reader, xml::Tag};
use crate::{
    NewRevision,
    derive::{self, PATHS_MAX},
};

/// A revision with more changed paths is a bulk change.
const BULK_PATHS: u64 = 100;

/// Maximum text of a batch, except for its last revision.
const BATCH_BYTES_MAX: usize = 4 << 20;

/// The revisions of a log.
pub(super) struct Log {
    /// Of the repository.
    uuid: String,
    /// The folder that is read, as `/trunk/`; `/` for everything.
    folder: String,
    current: Option<Draft>,
    revisions: Vec<NewRevision>,
    /// Size of their texts.
    bytes: usize,
}

struct Draft {
    rev_num: i64,
    author: String,
    date: String,
    message: String,
    is_lossy: bool,
    is_cut: bool,
    action: String,
    is_property: bool,
    properties_only: bool,
    paths_digest: Context,
    all: Paths,
    inside: Paths,
}

/// The first paths, and how many there are.
#[derive(Default)]
struct Paths {
    first: Vec<String>,
    /// Of the first ones.
    bytes: usize,
    total: u64,
}

impl Paths {
    fn add(&mut self, path: &str) {
        self.total += 1;
        if self.first.len() < PATHS_MAX {
            self.bytes += path.len();
            self.first.push(path.to_owned());
        }
    }
}

impl Log {
    /// The log of a folder, as a path within the repository: `/trunk`, `/`.
    pub(super) fn new(uuid: &str, folder: &str) -> Self {
        Self {
            uuid: uuid.to_owned(),
            folder: format!("{}/", folder.trim_end_matches('/')),
            current: None,
            revisions: Vec::new(),
            bytes: 0,
        }
    }

    /// The revisions, oldest first.
    pub(super) fn into_revisions(self) -> Vec<NewRevision> {
        self.revisions
    }
}

impl Reader for Log {
    fn take(&mut self, piece: Tag) -> Result<(), String> {
        match (piece.name.as_str(), piece.is_end) {
            // Input after the batch is full.
            _ if self.is_full() => {}
            ("logentry", false) => self.current = Some(Draft::begin(&piece)?),
            ("logentry", true) => {
                let draft = self.current.take().ok_or("the end of no revision")?;
                // Revision 0 is the empty repository.
                if draft.rev_num > 0 {
                    self.bytes += draft.bytes();
                    self.revisions.push(draft.finish(&self.uuid));
                }
            }
            _ => {
                if let Some(draft) = &mut self.current {
                    draft.take(piece, &self.folder);
                }
            }
        }
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.bytes >= BATCH_BYTES_MAX
    }
}

impl Draft {
    fn bytes(&self) -> usize {
        self.author.len() + self.message.len() + self.all.bytes.max(self.inside.bytes)
    }

    fn begin(piece: &Tag) -> Result<Self, String> {
        let number = piece.attribute("revision").unwrap_or_default();
        let rev_num = number.parse();
        Ok(Self {
            rev_num: rev_num.map_err(|_| format!("revision {number:?}"))?,
            author: String::new(),
            date: String::new(),
            message: String::new(),
            is_lossy: false,
            is_cut: false,
            action: String::new(),
            is_property: false,
            properties_only: true,
            paths_digest: Context::new(&SHA256),
            all: Paths::default(),
            inside: Paths::default(),
        })
    }

    fn take(&mut self, piece: Tag, folder: &str) {
        match (piece.name.as_str(), piece.is_end) {
            ("author", true) => self.author = self.text(piece),
            ("date", true) => self.date = self.text(piece),
            ("msg", true) => self.message = self.text(piece),
            ("path", false) => {
                self.action = piece.attribute("action").unwrap_or_default().to_owned();
                self.is_property = self.action == "M"
                    && piece.attribute("text-mods") == Some("false")
                    && piece.attribute("prop-mods") == Some("true");
            }
            ("path", true) => {
                let path = self.text(piece);
                let line = format!("{} {path}\n", self.action);
                self.paths_digest.update(line.as_bytes());
                self.properties_only &= self.is_property;
                self.all.add(&path);
                if format!("{path}/").starts_with(folder) {
                    self.inside.add(&path);
                }
            }
            _ => {}
        }
    }

    fn text(&mut self, piece: Tag) -> String {
        self.is_lossy |= piece.is_lossy;
        self.is_cut |= piece.is_cut;
        piece.text
    }

    fn finish(self, uuid: &str) -> NewRevision {
        let paths_digest = self.paths_digest.finish();
        let paths_sha256 = hex(paths_digest.as_ref());
        // In alphabetical order, so that the same record gives the same text.
        let record = json!({
            "author": self.author, "date": self.date, "message": self.message,
            "paths_sha256": paths_sha256, "paths_total": self.all.total, "revision": self.rev_num,
            "uuid": uuid,
        });
        // A moved folder has its older history under another name.
        let paths = if self.inside.total > 0 {
            self.inside
        } else {
            self.all
        };
        let mut meta = json!({
            "paths": paths.first, "paths_total": paths.total,
            "record_sha256": sha256_of(record.to_string().as_bytes()),
        });
        if self.properties_only && paths.total > 0 {
            meta["properties_only"] = Value::Bool(true);
        }
        if self.is_lossy {
            meta["lossy"] = Value::Bool(true);
        }
        if self.is_cut {
            meta["truncated"] = Value::Bool(true);
        }
        let is_bulk = paths.total > BULK_PATHS;
        NewRevision {
            rev_num: self.rev_num,
            author_raw: self.author,
            ts: self.date.parse().ok().and_then(derive::time),
            message: self.message,
            bulk_reason: is_bulk.then(|| format!("large_changeset:{}", paths.total)),
            meta_json: meta,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::xml::TagReader, *};

    fn read(xml: &[u8], folder: &str) -> Vec<NewRevision> {
        let mut log = Log::new("u-1", folder);
        TagReader::default()
            .push(xml, &mut |piece| log.take(piece))
            .unwrap();
        log.into_revisions()
    }

    fn entry(rev: i64, paths: &str, rest: &str) -> String {
        format!("<logentry\n revision=\"{rev}\">{rest}<paths>{paths}</paths></logentry>")
    }

    fn path(action: &str, text: bool, property: bool, path: &str) -> String {
        format!(
            "<path prop-mods=\"{property}\" text-mods=\"{text}\" action=\"{action}\">{path}</path>"
        )
    }

    #[test]
    fn a_revision_is_read() {
        let rest =
            "<author>alice</author><date>2026-11-16T09:57:45.333784Z</date><msg>a\n\nb</msg>";
        let xml = entry(7, &path("A", true, false, "/trunk/a b.txt"), rest);
        let [revision] = read(xml.as_bytes(), "/").try_into().unwrap();
        assert_eq!(
            (revision.rev_num, revision.author_raw.as_str()),
            (7, "alice")
        );
        assert_eq!(
            revision.ts.unwrap().to_string(),
            "2026-11-16T09:57:45.333784Z"
        );
        assert_eq!(
            (revision.message.as_str(), revision.bulk_reason),
            ("a\n\nb", None)
        );
        let meta = &revision.meta_json;
        assert_eq!(meta["paths"], json!(["/trunk/a b.txt"]));
        assert_eq!((&meta["paths_total"], meta.get("lossy")), (&json!(1), None));
        assert_eq!(meta.get("properties_only"), None);
        assert_eq!(meta["record_sha256"].as_str().unwrap().len(), 64);
        let other = entry(7, &path("M", true, false, "/trunk/a b.txt"), rest);
        let [other] = read(other.as_bytes(), "/").try_into().unwrap();
        assert_ne!(other.meta_json["record_sha256"], meta["record_sha256"]);
    }

    #[test]
    fn what_a_revision_lacks_is_empty() {
        let xml =
            entry(0, "", "<date>2026-01-01T00:00:00Z</date>") + &entry(1, "", "<date>never</date>");
        let [revision] = read(xml.as_bytes(), "/").try_into().unwrap();
        assert_eq!(revision.rev_num, 1, "revision 0 is the empty repository");
        assert_eq!(
            (revision.author_raw.as_str(), revision.message.as_str()),
            ("", "")
        );
        assert_eq!((revision.ts, revision.bulk_reason), (None, None));
        assert_eq!(revision.meta_json["paths_total"], 0);
        assert_eq!(revision.meta_json.get("properties_only"), None);
    }

    #[test]
    fn property_changes_are_distinguished() {
        let table = [
            (vec![("M", false, true)], true),
            (vec![("M", false, true), ("M", true, true)], false),
            (vec![("A", false, true)], false),
            (vec![("M", true, false)], false),
        ];
        for (paths, expected) in table {
            let paths: String = paths
                .iter()
                .map(|(action, text, property)| path(action, *text, *property, "/a"))
                .collect();
            let [revision] = read(entry(3, &paths, "").as_bytes(), "/")
                .try_into()
                .unwrap();
            let is_told = revision.meta_json.get("properties_only").is_some();
            assert_eq!(is_told, expected, "{paths}");
        }
    }

    /// More than 100 changed paths.
    #[test]
    fn many_paths_are_a_bulk_change() {
        for (count, reason) in [(100, None), (101, Some("large_changeset:101"))] {
            let paths: String = (0..count)
                .map(|n| path("A", true, false, &format!("/f{n}")))
                .collect();
            let [revision] = read(entry(1, &paths, "").as_bytes(), "/")
                .try_into()
                .unwrap();
            assert_eq!(revision.bulk_reason.as_deref(), reason);
            assert_eq!(
                revision.meta_json["paths"].as_array().unwrap().len(),
                PATHS_MAX
            );
            assert_eq!(revision.meta_json["paths_total"], count);
        }
    }

    #[test]
    fn a_log_is_full_at_some_size_of_its_texts() {
        let message = format!("<msg>{}</msg>", "x".repeat(1 << 20));
        let xml: String = (1..=6).map(|rev| entry(rev, "", &message)).collect();
        let found = read(xml.as_bytes(), "/");
        assert_eq!(found.len(), 4);
        assert_eq!(found[3].meta_json.get("truncated"), None);
        let message = format!("<msg>{}</msg>", "x".repeat((1 << 20) + 1));
        let [cut] = read(entry(1, "", &message).as_bytes(), "/")
            .try_into()
            .unwrap();
        assert_eq!(cut.meta_json["truncated"], true);
        assert_eq!(
            (cut.message.len(), cut.meta_json.get("lossy")),
            (1 << 20, None)
        );
    }

    #[test]
    fn times_that_no_ledger_keeps_are_none() {
        for (date, is_kept) in [
            ("-005000-01-01T00:00:00Z", false),
            ("0001-01-01T00:00:00Z", true),
        ] {
            let date = format!("<date>{date}</date>");
            let [revision] = read(entry(1, "", &date).as_bytes(), "/")
                .try_into()
                .unwrap();
            assert_eq!(revision.ts.is_some(), is_kept, "{date}");
        }
    }

    #[test]
    fn a_folder_counts_what_is_in_it() {
        let paths = ["/trunk", "/trunk/a", "/trunk2/b", "/other"];
        let paths: String = paths
            .iter()
            .map(|name| path("A", true, false, name))
            .collect();
        let [revision] = read(entry(1, &paths, "").as_bytes(), "/trunk")
            .try_into()
            .unwrap();
        assert_eq!(revision.meta_json["paths"], json!(["/trunk", "/trunk/a"]));
        let [moved] = read(entry(1, &paths, "").as_bytes(), "/new")
            .try_into()
            .unwrap();
        assert_eq!(moved.meta_json["paths_total"], 4, "its older name");
    }
}
