//! What a protocol keeps beside a message.

use consign_kernel::Message;
use consign_memory::AuditFilter;
use consign_payments::OutboxId;

use crate::{problem::Problem, state::AppState};

/// Audits shown beside one message, at most.
const AUDITS: u32 = 20;

/// A record of a protocol.
pub(super) struct Beside {
    pub(super) title: String,
    pub(super) facts: Vec<(&'static str, String)>,
}

/// Every record that belongs to a message, without what it carries.
pub(super) async fn look(state: &AppState, message: &Message) -> Result<Vec<Beside>, Problem> {
    match message.lane.as_str() {
        consign_payments::LANE => payment(state, message).await,
        consign_memory::LANE => audits(state, message).await,
        _ => Ok(Vec::new()),
    }
}

async fn payment(state: &AppState, message: &Message) -> Result<Vec<Beside>, Problem> {
    let id = message.key.as_deref().map(str::parse::<OutboxId>);
    let (Some(payments), Some(Ok(id))) = (&state.payments, id) else {
        return Ok(Vec::new());
    };
    let Some((payment, _)) = payments.store.payment(id).await? else {
        return Ok(Vec::new());
    };
    let mut facts = vec![
        ("State", payment.state.to_string()),
        ("Participant", payment.participant_id),
        ("Number in its sequence", payment.sequence_id.to_string()),
        ("Rail", payment.rail_type),
        ("Instruction", payment.instruction_id),
        ("Idempotency key", payment.idempotency_key),
    ];
    let known = [
        (
            "Correlation",
            payment.correlation_id.map(|id| id.to_string()),
        ),
        ("Tenant", payment.tenant_id.map(|id| id.to_string())),
        ("Why", payment.reason),
    ];
    facts.extend(
        known
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    let title = format!("Payment {id}");
    Ok(vec![Beside { title, facts }])
}

async fn audits(state: &AppState, message: &Message) -> Result<Vec<Beside>, Problem> {
    let Some(gateway) = &state.memory else {
        return Ok(Vec::new());
    };
    let filter = AuditFilter {
        outbox_id: Some(message.id.0),
        ..AuditFilter::default()
    };
    let logbook = gateway.here.service.logbook();
    let audits = logbook.audits(&filter, AUDITS).await?;
    let records = audits.into_iter().map(|audit| {
        let mut facts = vec![
            ("Status", audit.status.as_str().to_owned()),
            ("Action", audit.action.as_str().to_owned()),
            ("Space", audit.target_space),
            ("Written", audit.created_at.to_string()),
        ];
        let known = [
            ("Who", audit.actor_user_id),
            ("Why", audit.reason),
            ("Correlation", audit.correlation_id),
        ];
        facts.extend(
            known
                .into_iter()
                .filter_map(|(name, value)| Some((name, value?))),
        );
        let title = format!("Write audit {}", audit.audit_id);
        Beside { title, facts }
    });
    Ok(records.collect())
}
