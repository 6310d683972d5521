//! Facts of a row for a card.

use consign_artifacts::sha256_of;
use consign_scm::{Change, Repo};
use serde_json::{Map, Value, json};

use super::{MODULE_CHARS_MAX, OWNER_CHARS_MAX, one_line, place, shortened, tame};
use crate::uri::is_sha256;

/// Facts of a row.
pub(super) struct Facts {
    pub(super) owner: String,
    pub(super) module: String,
    pub(super) summary: String,
    /// The rest of the message.
    pub(super) paragraphs: Vec<String>,
    /// Files and lines.
    pub(super) numbers: Option<String>,
    /// The source id and the time of the change.
    pub(super) recorded: String,
    /// Of the record.
    pub(super) sha256: String,
    paths: Vec<String>,
    /// Including those that are not in the list.
    paths_total: u64,
}

impl Facts {
    pub(super) fn of(repo: &Repo, change: &Change) -> Self {
        let meta = change.meta_json.as_object().cloned().unwrap_or_default();
        let paths = paths(&meta);
        let paths_total = number(&meta, "paths_total");
        let paths_total = paths_total.unwrap_or_default().max(paths.len() as u64);
        let (summary, paragraphs) = split_message(&change.message);
        let named = match &repo.project_key {
            Some(project) => project.clone(),
            None => place::name(repo),
        };
        let folder = common_folder(&paths);
        let module = if folder.is_empty() {
            one_line(&named)
        } else {
            one_line(&format!("{named}/{folder}"))
        };
        Self {
            owner: shortened(&owner(&change.author_raw), OWNER_CHARS_MAX),
            module: shortened(&module, MODULE_CHARS_MAX),
            summary,
            paragraphs,
            numbers: numbers(&meta, change.is_merge),
            recorded: match change.ts {
                Some(ts) => format!("{} of {ts}", change.source_id),
                None => change.source_id.clone(),
            },
            sha256: record_sha256(&meta, change),
            paths,
            paths_total,
        }
    }

    /// The first files that were changed.
    pub(super) fn changed(&self, most: usize) -> Option<String> {
        let shown: Vec<String> = self
            .paths
            .iter()
            .take(most)
            .map(|path| one_line(path))
            .collect();
        if shown.is_empty() {
            return None;
        }
        let more = self.paths_total - shown.len() as u64;
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        Some(format!("Changed: {}{more}", shown.join(", ")))
    }
}

/// The address of the author, else the name.
fn owner(author_raw: &str) -> String {
    let author = one_line(author_raw);
    let (name, email) = match author.rsplit_once('<') {
        Some((name, rest)) => (
            name.trim(),
            rest.split('>').next().unwrap_or_default().trim(),
        ),
        None => (author.as_str(), ""),
    };
    let known = [email, name].into_iter().find(|text| !text.is_empty());
    known.unwrap_or("unknown").to_owned()
}

/// The first line and the paragraphs after it.
fn split_message(message: &str) -> (String, Vec<String>) {
    let message = message.trim();
    let (first, rest) = message.split_once('\n').unwrap_or((message, ""));
    let summary = match one_line(first) {
        empty if empty.is_empty() => "(no message)".to_owned(),
        line => tame(&line),
    };
    let rest = tame(rest);
    let mut paragraphs = vec![String::new()];
    for line in rest.lines() {
        match (line.trim().is_empty(), paragraphs.last_mut()) {
            (true, _) | (_, None) => paragraphs.push(String::new()),
            (false, Some(paragraph)) => {
                if !paragraph.is_empty() {
                    paragraph.push('\n');
                }
                paragraph.push_str(line.trim_end());
            }
        }
    }
    paragraphs.retain(|paragraph| !paragraph.is_empty());
    (summary, paragraphs)
}

/// Paths as the record has them: texts, or objects with a `path`.
fn paths(meta: &Map<String, Value>) -> Vec<String> {
    let listed = meta.get("paths").and_then(Value::as_array);
    let path = |entry: &Value| {
        let path = entry.as_str().or_else(|| entry.get("path")?.as_str())?;
        Some(path.trim_start_matches('/').to_owned())
    };
    let paths = listed.into_iter().flatten().filter_map(path);
    paths.filter(|path| !path.is_empty()).collect()
}

fn number(meta: &Map<String, Value>, name: &str) -> Option<u64> {
    meta.get(name)?.as_u64()
}

/// `merge of 2 parents`, `+10 -2 lines`.
fn numbers(meta: &Map<String, Value>, is_merge: bool) -> Option<String> {
    let parents = meta
        .get("parents")
        .and_then(Value::as_array)
        .map_or(0, Vec::len);
    let merge = is_merge.then(|| match parents {
        0 => "merge".to_owned(),
        parents => format!("merge of {parents} parents"),
    });
    let lines = number(meta, "additions").zip(number(meta, "deletions"));
    let lines = lines.map(|(more, less)| format!("+{more} -{less} lines"));
    let parts: Vec<String> = merge.into_iter().chain(lines).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// The longest folder that all paths are in.
fn common_folder(paths: &[String]) -> String {
    let folders = |path: &str| -> Vec<String> {
        let mut parts: Vec<String> = path.split('/').map(str::to_owned).collect();
        parts.pop();
        parts
    };
    let mut paths = paths.iter();
    let Some(first) = paths.next() else {
        return String::new();
    };
    let mut common = folders(first);
    for path in paths {
        let other = folders(path);
        let same = common
            .iter()
            .zip(&other)
            .take_while(|(a, b)| a == b)
            .count();
        common.truncate(same);
    }
    common.join("/")
}

/// The recorded hash; otherwise a hash of these fields.
fn record_sha256(meta: &Map<String, Value>, change: &Change) -> String {
    let recorded = meta.get("record_sha256").and_then(Value::as_str);
    match recorded.filter(|sha| is_sha256(sha)) {
        Some(sha) => sha.to_ascii_lowercase(),
        None => {
            let record = json!([
                change.source_id,
                change.author_raw,
                change.ts,
                change.message,
                change.is_merge
            ]);
            sha256_of(record.to_string().as_bytes())
        }
    }
}
