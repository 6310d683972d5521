//! Evidence by kind: patches, attachments, external.

use serde_json::{Map, Value, json};

use super::{Evidence, EvidenceItem, GIVEN_FIELD};
use crate::uri::{parse_attachment_evidence_uri, parse_evidence_uri};

/// Fields of an external reference.
const EXTERNAL_FIELDS: [&str; 4] = ["event_id", "svn_rev", "git_commit", "mr"];

/// Evidence as audits store it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClassifiedEvidence {
    /// Changes to repositories.
    pub patches: Vec<Value>,
    /// Attachments of items.
    pub attachments: Vec<Value>,
    /// External references.
    pub external: Vec<Value>,
    /// Indexes of items whose hash differs from that of their URI.
    pub mismatches: Vec<usize>,
}

impl ClassifiedEvidence {
    /// The non-empty lists by name.
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

/// Sorts evidence. Source and hash come from a URI that can be parsed; a different hash in the item is
/// kept as `sha256_given` with `sha256_mismatch`, and never replaces that of the URI.
pub fn classify(evidence: &Evidence) -> ClassifiedEvidence {
    let mut classified = ClassifiedEvidence::default();
    for (index, item) in evidence.items.iter().enumerate() {
        if let Some((mut reference, is_patch)) = parsed(item) {
            let own = reference["sha256"].as_str().unwrap_or_default();
            let given = item.sha256();
            if !given.is_empty() && !given.eq_ignore_ascii_case(own) {
                classified.mismatches.push(index);
                reference["sha256_given"] = json!(given);
                reference["sha256_mismatch"] = json!(true);
            }
            if is_patch {
                classified.patches.push(reference);
            } else {
                classified.attachments.push(reference);
            }
        } else {
            classified.external.push(external(item));
        }
    }
    classified
}

/// The reference of an item with a `memory://` URI, and whether it is a patch.
fn parsed(item: &EvidenceItem) -> Option<(Value, bool)> {
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
