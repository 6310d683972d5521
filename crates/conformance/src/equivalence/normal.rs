//! Answers with everything a store may choose freely taken out.
//!
//! Stores number messages, leases and audit entries differently, draw their own tokens and start
//! at their own time. Messages and leases become their position in order of appearance, times the
//! time since the start.

use std::collections::HashMap;

use consign_kernel::{
    Alert, AlertStep, Attempt, AuditEntry, BeginAnswer, ClaimedMessage, Counts, DeadCause,
    DeadLetter, Erasure, ErasureResult, Expiry, Explanation, Fence, Finding, LastAttempt,
    LateResult, Lease, LeaseView, Message, MessageId, MessageSummary, MoveResult, Page, Queue,
    QueueHistory, Receipt, RecordedOutcome, Redrive, ReleaseAnswer, RenewAnswer, Schedule,
    SendSlots, SettleAnswer, State, TICK_HEADER, Token, codes,
};
use jiff::Timestamp;
use uuid::Uuid;

/// What one store calls things.
#[derive(Debug)]
pub(super) struct Names {
    pub(super) start: Timestamp,
    ids: HashMap<MessageId, MessageId>,
    fences: HashMap<Fence, Fence>,
    tokens: HashMap<Token, Token>,
}

impl Names {
    pub(super) fn new(start: Timestamp) -> Self {
        Self {
            start,
            ids: HashMap::new(),
            fences: HashMap::new(),
            tokens: HashMap::new(),
        }
    }

    /// Gives a new message its number.
    pub(super) fn add_message(&mut self, id: MessageId) {
        let number = MessageId(self.ids.len() as i64);
        let known = self.ids.insert(id, number);
        assert_eq!(known, None, "message {id} was new before");
    }

    /// Gives a new lease its number.
    pub(super) fn add_lease(&mut self, fence: Fence, token: Token) {
        let number = self.fences.len() as i64;
        let known = self.fences.insert(fence, Fence(number));
        assert_eq!(known, None, "fence {fence} was given before");
        let number = Token(Uuid::from_u64_pair(0, number as u64));
        let known = self.tokens.insert(token, number);
        assert_eq!(known, None, "token {token} was given before");
    }
}

/// Something that can be compared across stores once it is normal.
pub(super) trait Normal {
    fn normal(self, names: &Names) -> Self;
}

impl Normal for MessageId {
    fn normal(self, names: &Names) -> Self {
        names.ids.get(&self).copied().unwrap_or(self)
    }
}

impl Normal for Fence {
    fn normal(self, names: &Names) -> Self {
        names.fences.get(&self).copied().unwrap_or(self)
    }
}

impl Normal for SendSlots {
    fn normal(self, names: &Names) -> Self {
        Self {
            now: self.now.normal(names),
            first_at: self.first_at.normal(names),
            ..self
        }
    }
}

impl Normal for Token {
    fn normal(self, names: &Names) -> Self {
        names.tokens.get(&self).copied().unwrap_or(self)
    }
}

impl Normal for Timestamp {
    fn normal(self, names: &Names) -> Self {
        Timestamp::UNIX_EPOCH + self.duration_since(names.start)
    }
}

impl<T: Normal> Normal for Vec<T> {
    fn normal(self, names: &Names) -> Self {
        self.into_iter().map(|item| item.normal(names)).collect()
    }
}

impl<T: Normal> Normal for Option<T> {
    fn normal(self, names: &Names) -> Self {
        self.map(|item| item.normal(names))
    }
}

impl<A: Normal, B: Normal> Normal for (A, B) {
    fn normal(self, names: &Names) -> Self {
        (self.0.normal(names), self.1.normal(names))
    }
}

impl<T: Normal> Normal for Page<T> {
    fn normal(self, names: &Names) -> Self {
        Self {
            items: self.items.normal(names),
            next: self.next.normal(names),
        }
    }
}

macro_rules! normal_structs {
    ($($kind:ident { $($field:ident),* })*) => {$(
        impl Normal for $kind {
            #[allow(clippy::needless_update, reason = "some structs have all fields listed")]
            fn normal(self, names: &Names) -> Self {
                Self { $($field: self.$field.normal(names),)* ..self }
            }
        }
    )*};
}

normal_structs! {
    ClaimedMessage { message }
    Counts { oldest_due_at }
    DeadCause { example, first_at, last_at }
    DeadLetter { message_id, at }
    ErasureResult { id }
    Receipt { id }
    Explanation { message, state, queue, last_attempt, erased, now }
    Finding { ids }
    Queue { paused_at }
    LastAttempt { finished_at }
    LateResult { message_id, token, fence, at }
    Lease { token, fence, claimed_at, expires_at, messages }
    MessageSummary { id, created_at, expires_at }
    MoveResult { id }
    QueueHistory { oldest_id, oldest_at }
    RecordedOutcome { id, next_due_at }
    Redrive { cursor, started_at, updated_at, finished_at }
    Schedule { created_at, updated_at, paused_at, next_at, last_tick, last_at, last_message_id }
}

impl Normal for Message {
    fn normal(mut self, names: &Names) -> Self {
        if let Some(tick) = self.headers.get_mut(TICK_HEADER) {
            let at: Timestamp = tick.as_str().expect("a text").parse().expect("a time");
            *tick = at.normal(names).to_string().into();
        }
        Self {
            id: self.id.normal(names),
            created_at: self.created_at.normal(names),
            expires_at: self.expires_at.normal(names),
            ..self
        }
    }
}

impl Normal for Erasure {
    fn normal(self, names: &Names) -> Self {
        Self {
            at: self.at.normal(names),
            // Each store has its own text of a payload.
            digest: String::new(),
            ..self
        }
    }
}

impl Normal for LeaseView {
    fn normal(self, names: &Names) -> Self {
        Self {
            fence: self.fence.normal(names),
            // Of a token that each store generated.
            token_prefix: String::new(),
            ids: self.ids.normal(names),
            begun: self.begun.normal(names),
            claimed_at: self.claimed_at.normal(names),
            expires_at: self.expires_at.normal(names),
            ..self
        }
    }
}

impl Normal for Attempt {
    fn normal(self, names: &Names) -> Self {
        // These leases may have ended before they could be numbered: an operator's, and one of which
        // nothing was left.
        let code = self.code.as_deref();
        let is_unnumbered = [codes::RESOLVED, codes::EXPIRED_BEFORE_DELIVERY]
            .map(Some)
            .contains(&code);
        let (fence, token) = if is_unnumbered {
            (Fence(-1), Token(Uuid::nil()))
        } else {
            (self.fence.normal(names), self.token.normal(names))
        };
        Self {
            message_id: self.message_id.normal(names),
            fence,
            token,
            claimed_at: self.claimed_at.normal(names),
            finished_at: self.finished_at.normal(names),
            next_due_at: self.next_due_at.normal(names),
            ..self
        }
    }
}

impl Normal for AuditEntry {
    fn normal(self, names: &Names) -> Self {
        Self {
            id: 0,
            at: self.at.normal(names),
            message_id: self.message_id.normal(names),
            ..self
        }
    }
}

impl Normal for Alert {
    fn normal(self, names: &Names) -> Self {
        Self {
            first_at: self.first_at.normal(names),
            last_at: self.last_at.normal(names),
            oldest_at: self.oldest_at.normal(names),
            message_id: self.message_id.normal(names),
            ..self
        }
    }
}

impl Normal for AlertStep {
    fn normal(self, names: &Names) -> Self {
        Self {
            raised: self.raised.normal(names),
            ..self
        }
    }
}

impl Normal for Expiry {
    fn normal(self, _: &Names) -> Self {
        self
    }
}

impl Normal for RenewAnswer {
    fn normal(self, names: &Names) -> Self {
        match self {
            Self::Renewed { expires_at } => Self::Renewed {
                expires_at: expires_at.normal(names),
            },
            Self::LeaseLost => self,
        }
    }
}

impl Normal for ReleaseAnswer {
    fn normal(self, names: &Names) -> Self {
        match self {
            Self::Released(ids) => Self::Released(ids.normal(names)),
            Self::LeaseLost => self,
        }
    }
}

impl Normal for BeginAnswer {
    fn normal(self, names: &Names) -> Self {
        match self {
            Self::NotInLease(ids) => Self::NotInLease(ids.normal(names)),
            Self::Begun | Self::LeaseLost => self,
        }
    }
}

impl Normal for SettleAnswer {
    fn normal(self, names: &Names) -> Self {
        match self {
            Self::Settled(records) => Self::Settled(records.normal(names)),
            Self::AlreadySettled(records) => Self::AlreadySettled(records.normal(names)),
            Self::NotInLease(ids) => Self::NotInLease(ids.normal(names)),
            Self::LeaseLost => self,
        }
    }
}

impl Normal for State {
    fn normal(self, names: &Names) -> Self {
        match self {
            Self::Waiting { behind } => Self::Waiting {
                behind: behind.normal(names),
            },
            Self::Ready { due_at } => Self::Ready {
                due_at: due_at.normal(names),
            },
            Self::Leased {
                owner,
                fence,
                expires_at,
                begun,
            } => Self::Leased {
                owner,
                fence: fence.normal(names),
                expires_at: expires_at.normal(names),
                begun,
            },
            Self::Held { at, reason } => Self::Held {
                at: at.normal(names),
                reason,
            },
            Self::Dead { at, code, detail } => Self::Dead {
                at: at.normal(names),
                code,
                detail,
            },
            Self::Delivered { at } => Self::Delivered {
                at: at.normal(names),
            },
            Self::Discarded { at, actor, reason } => Self::Discarded {
                at: at.normal(names),
                actor,
                reason,
            },
        }
    }
}
