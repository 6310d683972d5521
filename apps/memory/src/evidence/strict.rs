//! The checks of evidence in strict mode.

use serde_json::{Value, json};

use super::{Evidence, classify};
use crate::{policy::EvidenceMode, uri::is_sha256};

/// Characters of a malformed hash in an error.
const SHOWN_CHARS: usize = 16;

/// The result of the strict check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StrictReport {
    /// Errors that reject the write: `<CODE>:evidence[i]…`.
    pub errors: Vec<String>,
    /// Warnings for the audit.
    pub warnings: Vec<String>,
}

impl StrictReport {
    /// The reason of a rejection: the first error's code.
    pub fn reason(&self) -> Option<String> {
        let first = self.errors.first()?;
        let code = first.split(':').next().unwrap_or_default();
        Some(format!("EVIDENCE_VALIDATION_FAILED:{code}"))
    }

    /// The value in audits.
    pub fn to_value(&self) -> Value {
        json!({
            "is_valid": self.errors.is_empty(), "error_codes": self.errors,
            "compat_warnings": self.warnings,
        })
    }
}

/// Each item needs a URI and a hash, and the hash has to be that of the URI. Applies to every space,
/// including private ones.
pub fn check_strict(evidence: &Evidence) -> StrictReport {
    let mut report = StrictReport::default();
    let mismatches = classify(evidence).mismatches;
    for (index, item) in evidence.items.iter().enumerate() {
        let (uri, sha256) = (item.uri(), item.sha256());
        let item_path = format!("evidence[{index}]");
        if uri.is_empty() {
            report
                .errors
                .push(format!("EVIDENCE_MISSING_URI:{item_path}"));
        } else if sha256.is_empty() && item.is_legacy() {
            let warning = format!("EVIDENCE_LEGACY_NO_SHA256:{item_path}:{uri}");
            report.warnings.push(warning);
        } else if sha256.is_empty() {
            report
                .errors
                .push(format!("EVIDENCE_MISSING_SHA256:{item_path}:{uri}"));
        } else if !is_sha256(sha256) {
            let shown: String = sha256.chars().take(SHOWN_CHARS).collect();
            report
                .errors
                .push(format!("EVIDENCE_INVALID_SHA256:{item_path}:{shown}..."));
        } else if mismatches.contains(&index) {
            report
                .errors
                .push(format!("EVIDENCE_SHA256_MISMATCH:{item_path}:{uri}"));
        }
    }
    report
}

/// Whether references are validated, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValidateRefs {
    /// Whether they are validated.
    pub is_on: bool,
    /// The value in audits.
    pub reason: &'static str,
}

/// Whether references are validated: always in strict mode if enforced, else as the caller says, else as
/// configured (`validate_evidence_refs`).
pub fn resolve_validate_refs(
    mode: EvidenceMode,
    is_strict_enforced: bool,
    configured: bool,
    caller: Option<bool>,
) -> ValidateRefs {
    let (is_on, reason) = match (mode, caller) {
        (EvidenceMode::Strict, _) if is_strict_enforced => (true, "strict_enforced"),
        (EvidenceMode::Strict, Some(wanted)) => (wanted, "strict_caller_override"),
        (EvidenceMode::Strict, None) => (configured, "strict_env_override"),
        (EvidenceMode::Compat, Some(wanted)) => (wanted, "compat_caller_override"),
        (EvidenceMode::Compat, None) => (configured, "compat_default"),
    };
    ValidateRefs { is_on, reason }
}
