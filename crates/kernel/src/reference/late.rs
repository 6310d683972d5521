//! Late results: kept beside the attempts, without effect on the message's state.

use jiff::Timestamp;

use super::Reference;
use crate::{
    Fence, LateResult, MessageId, Report, Token, codes, error::Result, plan::reject_repeats,
};

impl Reference {
    /// Keeps results about messages this token held and lost; answers which are on record.
    pub fn record_late(
        &mut self,
        now: Timestamp,
        token: Token,
        reports: &[Report],
    ) -> Result<Vec<MessageId>> {
        let reports: Vec<Report> = reports.iter().cloned().map(Report::bounded).collect();
        reject_repeats(&reports)?;
        let mut kept = Vec::new();
        for report in reports {
            let key = (report.id, token);
            if !self.late.contains_key(&key) {
                let Some((fence, owner)) = self.lost_by(now, token, report.id) else {
                    continue;
                };
                let is_erased = self.erasures.contains_key(&report.id);
                let late = LateResult {
                    message_id: report.id,
                    token,
                    fence,
                    owner,
                    outcome: report.outcome,
                    code: report.code,
                    detail: report.detail.filter(|_| !is_erased),
                    result: report.result.filter(|_| !is_erased),
                    at: now,
                };
                self.late.insert(key, late);
            }
            kept.push(report.id);
        }
        Ok(kept)
    }

    /// The fence and owner of the lease in which this token lost a message, if it did: the lease
    /// is over, whether or not an expiry has recorded that.
    fn lost_by(&self, now: Timestamp, token: Token, id: MessageId) -> Option<(Fence, String)> {
        let over = self.leases.iter().find(|(_, lease)| {
            let holds = lease.entries.iter().any(|entry| entry.id == id);
            lease.token == token && lease.expires_at <= now && holds
        });
        if let Some((fence, lease)) = over {
            return Some((*fence, lease.owner.clone()));
        }
        let history = self.attempts.range((id, 0)..=(id, u32::MAX));
        let lost = history.map(|(_, attempt)| attempt).find(|attempt| {
            attempt.token == token && attempt.code.as_deref() == Some(codes::LEASE_EXPIRED)
        });
        lost.map(|attempt| (attempt.fence, attempt.owner.clone()))
    }

    /// The late results of a message, in order of arrival.
    pub fn late(&self, id: MessageId) -> Vec<LateResult> {
        let of_message = self.late.values().filter(|late| late.message_id == id);
        let mut late: Vec<LateResult> = of_message.cloned().collect();
        late.sort_by_key(|late| (late.at, late.fence));
        late
    }
}
