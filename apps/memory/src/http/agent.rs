//! Agents: authenticated callers of the gateway, with a token of the server or of the gateway.

use consign_server::{
    Scope,
    apps::{Caller as HttpCaller, ServerToken, TokenHolder},
};
use serde_json::json;

use crate::{
    Caller, Correlation, MemoryService,
    tools::{self, ToolAnswer, ToolArguments},
};

/// A caller and its rights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Agent {
    pub(super) caller: Caller,
    /// Whether it may write.
    pub(super) may_write: bool,
}

impl Agent {
    /// A caller of a gateway without tokens.
    fn anonymous() -> Self {
        Self {
            caller: Caller::anonymous(),
            may_write: true,
        }
    }

    /// The caller that the gate authenticated.
    pub(super) fn of(caller: &HttpCaller) -> Self {
        let found = Self::of_tokens(caller.holder.as_ref(), caller.server_token.as_ref());
        found.unwrap_or_else(Self::anonymous)
    }

    /// The holder of a server token acts under its name.
    fn of_server_token(token: &ServerToken) -> Self {
        let has = |scope| token.scopes.contains(&scope);
        Self {
            caller: Caller {
                actor: Some(token.name.clone()),
                is_authenticated: true,
                is_admin: has(Scope::Operator),
                correlation_id: None,
            },
            may_write: has(Scope::Producer) || has(Scope::Operator),
        }
    }

    /// The holder of a gateway token, which may be a server token too.
    fn of_tokens(holder: Option<&TokenHolder>, token: Option<&ServerToken>) -> Option<Self> {
        let of_token = token.map(Self::of_server_token);
        let Some(holder) = holder else {
            return of_token;
        };
        let of_token = of_token.map(|agent| agent.caller).unwrap_or_default();
        let caller = Caller {
            actor: holder.name.clone().or(of_token.actor),
            is_authenticated: true,
            is_admin: holder.is_admin || of_token.is_admin,
            correlation_id: None,
        };
        Some(Self {
            caller,
            may_write: true,
        })
    }

    /// Calls a tool, if the caller may.
    pub(super) async fn call(
        &self,
        service: &MemoryService,
        name: &str,
        arguments: ToolArguments,
        correlation: &Correlation,
    ) -> ToolAnswer {
        let tool = tools::find(service.options(), name);
        if tool.is_some_and(|tool| !tool.is_read_only && !self.may_write) {
            return ToolAnswer {
                ok: false,
                correlation_id: correlation.to_string(),
                body: json!({
                    "ok": false, "success": false, "action": "reject",
                    "error_code": "SCOPE_MISSING", "retryable": false,
                    "message": format!("{name} writes, but the token is read-only"),
                    "correlation_id": correlation,
                }),
            };
        }
        let caller = self.caller.clone().in_request(correlation.as_str());
        tools::call(service, name, arguments, &caller).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_its_name_unless_the_gateway_binds_another() {
        let entry = |scopes: &[Scope]| ServerToken {
            name: "shop".into(),
            scopes: scopes.to_vec(),
        };
        let caller = |name: Option<&str>| TokenHolder {
            name: name.map(str::to_owned),
            label: "gateway",
            is_admin: false,
        };
        let (operator, auditor) = (entry(&[Scope::Operator]), entry(&[Scope::Auditor]));
        let table = [
            (None, Some(&auditor), Some("shop"), false, false),
            (None, Some(&operator), Some("shop"), true, true),
            (Some(caller(None)), None, None, true, false),
            (Some(caller(Some("ada"))), None, Some("ada"), true, false),
            (
                Some(caller(None)),
                Some(&auditor),
                Some("shop"),
                true,
                false,
            ),
            (
                Some(caller(Some("ada"))),
                Some(&operator),
                Some("ada"),
                true,
                true,
            ),
        ];
        for (gateway, entry, actor, may_write, is_admin) in table {
            let agent = Agent::of_tokens(gateway.as_ref(), entry).unwrap();
            assert!(agent.caller.is_authenticated);
            assert_eq!(agent.caller.actor.as_deref(), actor);
            assert_eq!(
                (agent.may_write, agent.caller.is_admin),
                (may_write, is_admin)
            );
        }
        assert_eq!(Agent::of_tokens(None, None), None);
    }
}
