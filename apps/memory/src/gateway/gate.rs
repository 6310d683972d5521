//! Whether this gateway can do all that it must, asked from outside (seed 003, the FULL gate).

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::time::timeout;

use super::MemoryService;
use crate::{
    AuditFilter, BackendKind, ReconcileOptions, Search,
    gate::{self, CAPABILITIES, Capability, GateMode, Skips},
};

/// How long a look at one capability may take.
const LOOK_MAX: Duration = Duration::from_secs(5);

/// Which gate, and what need not be tried.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GateRequest {
    /// How much must work.
    pub mode: GateMode,
    /// Capabilities that are not tried, beside those that the settings and the environment name.
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
    /// Tries every capability that can be tried without storing anything, and says whether one may go
    /// on. That a memory survives an outage only `consign verify --full` can try. The error names a
    /// capability that there is none of.
    pub async fn gate(&self, request: &GateRequest) -> Result<Value, String> {
        let unknown = |name: &&String| !CAPABILITIES.contains(&name.to_ascii_lowercase().as_str());
        if let Some(unknown) = request.skip.iter().find(unknown) {
            let known = CAPABILITIES.join(", ");
            return Err(format!(
                "skip: there is no capability {unknown:?}; there are {known}"
            ));
        }
        let configured = self.options().skipped();
        let skips = Skips::none()
            .with_request(configured.iter().copied())
            .with_request(request.skip.iter().map(String::as_str));
        let mut reported = Vec::new();
        let mut told = Map::new();
        for name in CAPABILITIES {
            let status = match skips.contains(name) {
                true => Capability::Skipped,
                false => self.look_at(name).await,
            };
            reported.push((name, status));
            told.insert(name.to_owned(), json!(status));
        }
        let result = gate::check(request.mode, &CAPABILITIES, &reported, &skips);
        Ok(json!({
            "ok": true, "mode": request.mode, "passed": result.passed, "reason": result.reason,
            "missing": result.missing, "capabilities": told,
        }))
    }

    async fn look_at(&self, capability: &str) -> Capability {
        let looked = async {
            match capability {
                "openmemory" if self.options().backend() == BackendKind::Embedded => None,
                "audit" => {
                    let audits = self.logbook().audits(&AuditFilter::default(), 1).await;
                    Some(audits.is_ok())
                }
                "outbox" => Some(self.logbook().outbox_counts().await.is_ok()),
                // Whoever answers a search is there; nothing is written to find out more.
                "openmemory" | "memory_query" => {
                    let search = Search {
                        query: "gate".to_owned(),
                        spaces: vec![self.options().team_space()],
                        top_k: 1,
                        ..Search::default()
                    };
                    Some(self.backend().search(&search, LOOK_MAX).await.is_ok())
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
        match timeout(LOOK_MAX, looked).await {
            Ok(None) => Capability::Skipped,
            Ok(Some(true)) => Capability::Ok,
            Ok(Some(false)) | Err(_) => Capability::Failed,
        }
    }
}
