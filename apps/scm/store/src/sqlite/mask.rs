//! Texts without the credentials that URIs in them hold.

use consign_artifacts::uri::{mask_credentials_in, may_hold_credentials};
use consign_sqlite::extension::rows;
use serde::Serialize;

/// A document as a column holds it.
pub(super) fn masked_json(document: &impl Serialize) -> String {
    let text = rows::json(document);
    if !may_hold_credentials(&text) {
        return text;
    }
    let value = serde_json::to_value(document);
    let mut value = value.expect("invariant: what has a text has a value");
    mask_credentials_in(&mut value);
    rows::json(&value)
}
