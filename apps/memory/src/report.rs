//! The reliability report: outcomes of all writes.

use std::collections::BTreeMap;

use consign_kernel::Error;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use crate::MemoryCounts;

/// The report, in the shape of its schema.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[expect(missing_docs, reason = "named by the schema")]
pub struct ReliabilityReport {
    /// Audits of `memory_store`.
    pub total_writes: u64,
    /// The share of allowed ones; `None` without any.
    pub success_rate: Option<f64>,
    pub outbox_stats: OutboxStats,
    pub audit_stats: AuditStats,
    pub v2_evidence_stats: EvidenceStats,
    pub content_intercept_stats: InterceptStats,
    /// Whether the deferrals in audits match the outbox rows.
    pub invariants: Invariants,
    pub generated_at: Timestamp,
}

/// The outbox.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[expect(missing_docs, reason = "named by the schema")]
pub struct OutboxStats {
    pub total: u64,
    pub by_status: BTreeMap<&'static str, u64>,
    /// Rows that have left, by the status they had; they are in none of the other figures.
    pub departed: BTreeMap<&'static str, u64>,
    pub avg_retry_count: f64,
    pub oldest_pending_age_seconds: Option<f64>,
    /// Rows for another backend than this gateway's, by backend: no worker here delivers them.
    pub waiting_for_other_backends: BTreeMap<String, u64>,
}

/// The audits.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[expect(missing_docs, reason = "named by the schema")]
pub struct AuditStats {
    pub total: u64,
    pub by_action: BTreeMap<&'static str, u64>,
    pub recent_24h: u64,
    pub by_reason: BTreeMap<&'static str, u64>,
    pub pending: u64,
}

/// Coverage by valid references.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[expect(missing_docs, reason = "named by the schema")]
pub struct Coverage {
    pub total: u64,
    pub with_evidence_uri: u64,
    pub coverage_pct: f64,
}

impl Coverage {
    fn new((total, with_evidence_uri): (u64, u64)) -> Self {
        Self {
            total,
            with_evidence_uri,
            coverage_pct: percent(with_evidence_uri, total),
        }
    }
}

/// The evidence.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[expect(missing_docs, reason = "named by the schema")]
pub struct EvidenceStats {
    pub patch_blobs: Coverage,
    pub attachments: Coverage,
    pub v2_coverage_pct: f64,
    pub invalid_evidence_count: u64,
    pub total_with_evidence: u64,
    pub audit_mode_stats_7d: ModeStats,
}

/// Policies of the writes.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[expect(missing_docs, reason = "named by the schema")]
pub struct ModeStats {
    pub total: u64,
    pub strict_mode_count: u64,
    pub compat_mode_count: u64,
    pub with_v2_evidence: u64,
}

/// Texts that were shortened because they were a diff or a log.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[expect(missing_docs, reason = "named by the schema")]
pub struct InterceptStats {
    pub diff_reject_count: u64,
    pub log_reject_count: u64,
    pub diff_log_reject_count: u64,
    pub total_intercept_count: u64,
    pub recent_24h_intercept: u64,
}

/// Counts that must be equal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Invariants {
    /// Distinct outbox rows in audits of deferred writes.
    pub deferred_audits: u64,
    /// Outbox rows of requests, also those that have left.
    pub deferred_rows: u64,
    /// Whether they are equal.
    pub redirects_match_outbox: bool,
}

impl ReliabilityReport {
    /// The report of these counts, for a gateway with this `backend`.
    pub fn new(counts: &MemoryCounts, backend: &str, generated_at: Timestamp) -> Self {
        let total_writes = counts.writes.values().sum();
        let allowed = counts.writes.get("allow").copied().unwrap_or(0);
        let (deferred_audits, deferred_rows) = counts.deferred;
        let (with_evidence, invalid) = counts.evidence;
        let (total, strict_mode_count, compat_mode_count, with_v2_evidence) = counts.modes_7d;
        let (diff, log, either, recent) = counts.intercepted;
        Self {
            total_writes,
            success_rate: (total_writes > 0).then(|| allowed as f64 / total_writes as f64),
            outbox_stats: OutboxStats {
                total: counts.outbox.values().sum(),
                by_status: only(&counts.outbox, ["pending", "sent", "dead"]),
                departed: only(&counts.departed, ["sent", "dead"]),
                avg_retry_count: counts.average_retry_count,
                oldest_pending_age_seconds: counts.oldest_pending_age_seconds,
                waiting_for_other_backends: {
                    let mut others = counts.pending_by_backend.clone();
                    others.remove(backend);
                    others
                },
            },
            audit_stats: AuditStats {
                total: counts.audits.values().sum(),
                by_action: only(&counts.audits, ["allow", "redirect", "reject"]),
                recent_24h: counts.audits_24h,
                by_reason: only(
                    &counts.reasons,
                    [
                        "policy",
                        "openmemory_write_failed",
                        "outbox_flush_success",
                        "dedup_hit",
                        "other",
                    ],
                ),
                pending: counts.pending_audits,
            },
            v2_evidence_stats: EvidenceStats {
                patch_blobs: Coverage::new(counts.patch_blobs),
                attachments: Coverage::new(counts.attachments),
                v2_coverage_pct: percent(with_v2_evidence, total),
                invalid_evidence_count: invalid,
                total_with_evidence: with_evidence,
                audit_mode_stats_7d: ModeStats {
                    total,
                    strict_mode_count,
                    compat_mode_count,
                    with_v2_evidence,
                },
            },
            content_intercept_stats: InterceptStats {
                diff_reject_count: diff,
                log_reject_count: log,
                diff_log_reject_count: either,
                total_intercept_count: either,
                recent_24h_intercept: recent,
            },
            invariants: Invariants {
                deferred_audits,
                deferred_rows,
                redirects_match_outbox: deferred_audits == deferred_rows,
            },
            generated_at,
        }
    }
}

/// The answer instead of a report.
pub(crate) fn failed(error: &Error) -> Value {
    let code = if error.is_retryable() {
        "RELIABILITY_REPORT_DEPENDENCY_UNAVAILABLE"
    } else {
        "RELIABILITY_REPORT_EXECUTION_FAILED"
    };
    json!({
        "ok": false, "error_code": code, "message": error.to_string(),
        "retryable": error.is_retryable(), "total_writes": 0, "success_rate": null,
        "outbox_stats": {}, "audit_stats": {}, "v2_evidence_stats": {},
        "content_intercept_stats": {}, "invariants": {}, "generated_at": "",
    })
}

/// Exactly these names.
fn only<const N: usize>(
    counts: &BTreeMap<String, u64>,
    names: [&'static str; N],
) -> BTreeMap<&'static str, u64> {
    let count = |name: &'static str| (name, counts.get(name).copied().unwrap_or(0));
    names.into_iter().map(count).collect()
}

fn percent(part: u64, whole: u64) -> f64 {
    match whole {
        0 => 0.0,
        whole => (part as f64 / whole as f64 * 10_000.0).round() / 100.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(pairs: &[(&str, u64)]) -> BTreeMap<String, u64> {
        let pairs = pairs
            .iter()
            .map(|(name, count)| ((*name).to_owned(), *count));
        pairs.collect()
    }

    /// `total_writes` and `success_rate` are over the audits of writes.
    #[test]
    fn both_equations_hold() {
        let figures = MemoryCounts {
            writes: counts(&[("allow", 6), ("redirect", 3), ("reject", 1)]),
            audits: counts(&[("allow", 8), ("redirect", 5), ("reject", 2)]),
            outbox: counts(&[("pending", 1), ("sent", 2)]),
            departed: counts(&[("sent", 7)]),
            patch_blobs: (4, 1),
            attachments: (3, 2),
            pending_by_backend: counts(&[("embedded", 2), ("openmemory:http://m", 1)]),
            deferred: (3, 3),
            ..MemoryCounts::default()
        };
        let report = ReliabilityReport::new(&figures, "embedded", Timestamp::UNIX_EPOCH);
        assert_eq!(report.total_writes, 10);
        assert_eq!(report.success_rate, Some(0.6));
        assert_eq!(report.audit_stats.total, 15);
        assert_eq!(report.outbox_stats.total, 3);
        assert_eq!(
            report.outbox_stats.departed,
            [("dead", 0), ("sent", 7)].into()
        );
        assert_eq!(report.outbox_stats.by_status["dead"], 0);
        assert_eq!(report.v2_evidence_stats.attachments.coverage_pct, 66.67);
        assert_eq!(report.v2_evidence_stats.patch_blobs.coverage_pct, 25.0);
        let others = &report.outbox_stats.waiting_for_other_backends;
        assert_eq!(*others, counts(&[("openmemory:http://m", 1)]));
        assert!(report.invariants.redirects_match_outbox);
    }

    /// Every key is present in an empty logbook.
    #[test]
    fn an_empty_logbook_has_a_whole_report() {
        let report =
            ReliabilityReport::new(&MemoryCounts::default(), "embedded", Timestamp::UNIX_EPOCH);
        let report = serde_json::to_value(&report).unwrap();
        assert_eq!(report["success_rate"], Value::Null);
        assert_eq!(
            report["audit_stats"]["by_reason"]
                .as_object()
                .unwrap()
                .len(),
            5
        );
        assert_eq!(report["generated_at"], "1970-01-01T00:00:00Z");
        assert_eq!(report["content_intercept_stats"]["diff_reject_count"], 0);
    }
}
