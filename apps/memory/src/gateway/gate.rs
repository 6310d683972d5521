//! The FULL/DEGRADED gate over HTTP: which capabilities of this gateway work.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::time::timeout;

use super::MemoryService;
use crate::{
    AuditFilter, BackendKind, ReconcileOptions, Search,
    gate::{self, CAPABILITIES, Capability, GateMode, Skips},
};

/// Timeout of the probe of one capability.
const PROBE_MAX: Duration = Duration::from_secs(5);

/// The gate, and the capabilities to skip.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GateRequest {
    /// The mode.
    pub mode: GateMode,
    /// Capabilities to skip, in addition to those of the settings and the environment.
    pub skip: Vec<String>,
}

impl Default for GateRequest {
    fn default() -> Self {
        Self {
            mode: GateMode::Full,
            skip: Vec::new(),
        }
    }
}

impl MemoryService {
    /// Probes every capability that can be probed without storing anything. Degradation is not among them:
    /// `consign verify --full` tests it. Fails for an unknown capability in `skip`.
    pub async fn gate(&self, request: &GateRequest) -> Result<Value, String> {
        let unknown = |name: &&String| !CAPABILITIES.contains(&name.to_ascii_lowercase().as_str());
        if let Some(unknown) = request.skip.iter().find(unknown) {
            let known = CAPABILITIES.join(", ");
            return Err(format!(
                "skip: capability {unknown:?} does not exist; known: {known}"
            ));
        }
        let configured = self.options().skipped();
        let skips = Skips::none()
            .with_request(configured.iter().copied())
            .with_request(request.skip.iter().map(String::as_str));
        let mut reported = Vec::new();
        let mut statuses = Map::new();
        for name in CAPABILITIES {
            let status = if skips.contains(name) {
                Capability::Skipped
            } else {
                self.probe(name).await
            };
            reported.push((name, status));
            statuses.insert(name.to_owned(), json!(status));
        }
        let result = gate::check(request.mode, &CAPABILITIES, &reported, &skips);
        Ok(json!({
            "ok": true, "mode": request.mode, "passed": result.passed, "reason": result.reason,
            "missing": result.missing, "capabilities": statuses,
        }))
    }

    async fn probe(&self, capability: &str) -> Capability {
        let probed = async {
            match capability {
                "openmemory" if self.options().backend() == BackendKind::Embedded => None,
                "audit" => {
                    let audits = self.logbook().audits(&AuditFilter::default(), 1).await;
                    Some(audits.is_ok())
                }
                "outbox" => Some(self.logbook().outbox_counts().await.is_ok()),
                // A search is enough: a probe writes nothing.
                "openmemory" | "memory_query" => {
                    let search = Search {
                        query: "gate".to_owned(),
                        spaces: vec![self.options().team_space()],
                        top_k: 1,
                        ..Search::default()
                    };
                    Some(self.backend().search(&search, PROBE_MAX).await.is_ok())
                }
                "reconcile" => {
                    let options = ReconcileOptions {
                        is_repairing: false,
                        ..self.options().reconcile()
                    };
                    let found = self.logbook().reconcile_memory(&options).await;
                    Some(found.is_ok())
                }
                _ => None,
            }
        };
        match timeout(PROBE_MAX, probed).await {
            Ok(None) => Capability::Skipped,
            Ok(Some(true)) => Capability::Ok,
            Ok(Some(false)) | Err(_) => Capability::Failed,
        }
    }
}
