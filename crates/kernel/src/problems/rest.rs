//! Blocked groups, schedules, alerts and processes.

use super::{
    BlockedGroups, OpenProblem, OverdueSchedule, ProblemKind, Severity, Situation, StuckAlert,
    many, span,
};
use crate::{Process, QueueName};

impl Situation {
    /// What is not about deliveries or deaths.
    pub(super) fn rest(&self) -> Vec<OpenProblem> {
        let attention = &self.attention;
        let mut problems: Vec<OpenProblem> = attention.blocked.iter().map(blocked).collect();
        problems.extend(attention.overdue.iter().map(|late| self.schedule(late)));
        problems.extend(attention.alerts.iter().map(alert));
        problems.extend(self.processes.iter().filter_map(|it| self.gone(it)));
        problems
    }

    fn schedule(&self, late: &OverdueSchedule) -> OpenProblem {
        let (name, queue) = (&late.name, &late.queue);
        let age = span(self.age(late.due_at));
        let text = format!("the tick of schedule {name} has been due for {age} and is not taken");
        let problem = OpenProblem::new(ProblemKind::Schedule, Severity::Medium, Some(queue), text);
        OpenProblem {
            subject: Some(name.to_string()),
            count: 1,
            since: Some(late.due_at),
            ..problem.about(name.as_str())
        }
    }

    /// A process that stopped without a last heartbeat, if no other works all its queues.
    fn gone(&self, process: &Process) -> Option<OpenProblem> {
        if self.live().any(|live| live.name == process.name) {
            return None;
        }
        let is_worked =
            |queue: &&QueueName| self.live().any(|process| process.queues.contains(queue));
        let left: Vec<&str> = (process.queues.iter())
            .filter(|queue| !is_worked(queue))
            .map(QueueName::as_str)
            .collect();
        if left.is_empty() {
            return None;
        }
        let name = &process.name;
        let ago = span(self.age(process.seen_at));
        let queues = left[..left.len().min(5)].join(", ");
        let more = match left.len().saturating_sub(5) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let text = format!(
            "process {name} sent no heartbeat for {ago}, and no other works {queues}{more}"
        );
        let problem = OpenProblem::new(ProblemKind::ProcessGone, Severity::Medium, None, text);
        Some(OpenProblem {
            subject: Some(name.clone()),
            count: left.len() as u64,
            since: Some(process.seen_at),
            ..problem.about(name)
        })
    }
}

fn blocked(blocked: &BlockedGroups) -> OpenProblem {
    let BlockedGroups {
        queue,
        groups,
        since,
    } = blocked;
    let text = format!("{} wait behind a dead message", many(*groups, "group"));
    OpenProblem {
        count: *groups,
        since: Some(*since),
        ..OpenProblem::new(
            ProblemKind::BlockedGroups,
            Severity::Medium,
            Some(queue),
            text,
        )
    }
}

fn alert(alert: &StuckAlert) -> OpenProblem {
    let StuckAlert {
        queue,
        reason,
        failure,
        ..
    } = alert;
    let text = format!("alerts about {reason} are not taken: {failure}");
    let problem = OpenProblem::new(ProblemKind::Alerts, Severity::Medium, Some(queue), text);
    OpenProblem {
        count: alert.pending,
        since: Some(alert.since),
        ..problem.about(&format!("{reason}:{}", alert.code))
    }
}
