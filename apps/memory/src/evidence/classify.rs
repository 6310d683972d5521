//! Evidence by where it is: changes, attachments, elsewhere.

use serde_json::{Map, Value, json};

use super::{Evidence, EvidenceItem, GIVEN_FIELD};
use crate::uri::{parse_attachment_evidence_uri, parse_evidence_uri};

/// Fields that go with a reference elsewhere.
const EXTERNAL_FIELDS: [&str; 4] = ["event_id", "svn_rev", "git_commit", "mr"];

/// Evidence as audits keep it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Classified {
    /// Changes to repositories.
    pub patches: Vec<Value>,
    /// Attachments of items.
    pub attachments: Vec<Value>,
    /// Everything else.
    pub external: Vec<Value>,
    /// Items, by place, whose hash is not that of their URI.
    pub mismatches: Vec<usize>,
}

impl Classified {
    /// The lists that are not empty, by their names.
    pub fn lists(&self) -> Map<String, Value> {
        let lists = [
            ("patches", &self.patches),
            ("attachments", &self.attachments),
            ("external", &self.external),
        ];
        let filled = lists.into_iter().filter(|(_, list)| !list.is_empty());
        filled
            .map(|(name, list)| (name.to_owned(), json!(list)))
            .collect()
    }
}

/// Sorts evidence. A URI that can be read says its own source and hash; a hash given beside it that
/// differs is kept under `sha256_given` and flagged with `sha256_mismatch`, never put in its place.
pub fn classify(evidence: &Evidence) -> Classified {
    let mut classified = Classified::default();
    for (index, item) in evidence.items.iter().enumerate() {
        if let Some((mut reference, is_patch)) = readable(item) {
            let own = reference["sha256"].as_str().unwrap_or_default();
            let given = item.sha256();
            if !given.is_empty() && !given.eq_ignore_ascii_case(own) {
                classified.mismatches.push(index);
                reference["sha256_given"] = json!(given);
                reference["sha256_mismatch"] = json!(true);
            }
            match is_patch {
                true => classified.patches.push(reference),
                false => classified.attachments.push(reference),
            }
        } else {
            classified.external.push(external(item));
        }
    }
    classified
}

/// The reference of an item whose URI is ours, and whether it is a change.
fn readable(item: &EvidenceItem) -> Option<(Value, bool)> {
    let uri = item.uri();
    if let Some(patch) = parse_evidence_uri(uri).filter(|patch| patch.is_strong()) {
        let mut reference = json!({
            "artifact_uri": patch.to_string(),
            "sha256": patch.sha256.to_ascii_lowercase(),
            "source_id": patch.source_id,
            "source_type": patch.source_type.to_ascii_lowercase(),
        });
        copy(item, &mut reference, &["kind"]);
        return Some((reference, true));
    }
    let attachment = parse_attachment_evidence_uri(uri)?;
    let mut reference = json!({
        "artifact_uri": attachment.to_string(),
        "sha256": attachment.sha256,
        "attachment_id": attachment.attachment_id,
    });
    copy(item, &mut reference, &["source_id", "source_type", "kind"]);
    Some((reference, false))
}

fn external(item: &EvidenceItem) -> Value {
    let mut reference = json!({"uri": item.uri()});
    copy(item, &mut reference, &["sha256", GIVEN_FIELD]);
    copy(item, &mut reference, &EXTERNAL_FIELDS);
    reference
}

fn copy(item: &EvidenceItem, reference: &mut Value, names: &[&str]) {
    for name in names {
        if let Some(value) = item.given(name) {
            reference[*name] = value.clone();
        }
    }
}
