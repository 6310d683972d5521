//! Why something did not go as asked: codes for programs, and the status each is answered with.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

macro_rules! reasons {
    ($($(#[$about:meta])* $name:ident = $code:literal, $http_status:literal;)+) => {
        /// A reason code. Codes are interface: they never change their meaning.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Reason {
            $($(#[$about])* $name,)+
        }

        impl Reason {
            /// Every reason.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// The code, as in answers, attempts and logs.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $code,)+ }
            }

            /// The HTTP status it is answered with.
            pub const fn http_status(self) -> u16 {
                match self { $(Self::$name => $http_status,)+ }
            }

            /// The reason of this code, if there is one.
            pub fn from_code(code: &str) -> Option<Self> {
                match code { $($code => Some(Self::$name),)+ _ => None }
            }
        }
    };
}

reasons! {
    /// The request has no `Idempotency-Key` header.
    IdempotencyKeyMissing = "IDEMPOTENCY_KEY_MISSING", 400;
    /// The header and the body name different keys.
    IdempotencyMismatch = "IDEMPOTENCY_MISMATCH", 422;
    /// The key came with another body before.
    IdempotencyConflict = "IDEMPOTENCY_CONFLICT", 409;
    /// The request is not a valid order.
    ValidationError = "VALIDATION_ERROR", 422;
    /// Too many requests: of the client here, or of ours at the broker.
    RateLimited = "RATE_LIMITED", 429;
    /// The broker does not want the order.
    BrokerRejected = "BROKER_REJECTED", 400;
    /// Nobody knows what became of the order; it may have been executed.
    BrokerTimeout = "BROKER_TIMEOUT", 504;
    /// The broker cannot be reached, or says that it is out of order.
    BrokerDown = "BROKER_DOWN", 503;
    /// The order waited for longer than it may; it was not executed.
    OrderExpired = "ORDER_EXPIRED", 410;
    /// No order is known by this key.
    OrderUnknown = "ORDER_UNKNOWN", 404;
    /// A message whose ledger row is gone: nothing tells whether it may be sent, so it is not.
    LedgerMissing = "LEDGER_MISSING", 500;
    /// Something that should not happen.
    InternalError = "INTERNAL_ERROR", 500;
}

impl Reason {
    /// Whether another attempt may do better. Everything else ends an order at once.
    pub const fn is_retried(self) -> bool {
        matches!(
            self,
            Self::BrokerTimeout | Self::BrokerDown | Self::RateLimited | Self::InternalError
        )
    }

    /// What a broker's word for a failure means here.
    ///
    /// Brokers of other contracts have words of their own. What nobody knows is an internal error,
    /// which is tried again. Words that speak about our own keys and ledger are not the broker's to
    /// say: from there they mean that it does not want the order.
    pub fn of_broker(code: &str) -> Self {
        match code {
            "BROKER_BAD_REQUEST" | "BROKER_UNAUTHORIZED" => Self::BrokerRejected,
            "BROKER_5XX" => Self::BrokerDown,
            "BROKER_RATE_LIMITED" => Self::RateLimited,
            "NETWORK_TIMEOUT" => Self::BrokerTimeout,
            code => match Self::from_code(code) {
                None => Self::InternalError,
                Some(
                    Self::IdempotencyKeyMissing
                    | Self::IdempotencyMismatch
                    | Self::IdempotencyConflict
                    | Self::OrderExpired
                    | Self::OrderUnknown
                    | Self::LedgerMissing,
                ) => Self::BrokerRejected,
                Some(reason) => reason,
            },
        }
    }

    /// The value of the label `outcome` of `broker_requests_total`: few, whatever codes there are.
    pub const fn broker_outcome(self) -> &'static str {
        match self {
            Self::BrokerTimeout => "timeout",
            Self::BrokerDown => "down",
            Self::BrokerRejected | Self::ValidationError => "rejected",
            Self::RateLimited => "rate_limited",
            _ => "internal",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Reason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Reason {
    /// Reads what brokers write too: see [`Reason::of_broker`].
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let code = String::deserialize(deserializer)?;
        Ok(Self::from_code(&code).unwrap_or_else(|| Self::of_broker(&code)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Facts A9 with the side that was taken, and O-05, O-11.
    #[test]
    fn a9_each_reason_has_its_status_and_is_retried_or_not() {
        use Reason::*;
        let table = [
            (IdempotencyKeyMissing, 400, false, "internal"),
            (IdempotencyMismatch, 422, false, "internal"),
            (IdempotencyConflict, 409, false, "internal"),
            (ValidationError, 422, false, "rejected"),
            (RateLimited, 429, true, "rate_limited"),
            (BrokerRejected, 400, false, "rejected"),
            (BrokerTimeout, 504, true, "timeout"),
            (BrokerDown, 503, true, "down"),
            (OrderExpired, 410, false, "internal"),
            (OrderUnknown, 404, false, "internal"),
            (LedgerMissing, 500, false, "internal"),
            (InternalError, 500, true, "internal"),
        ];
        assert_eq!(table.len(), Reason::ALL.len());
        for (reason, http_status, is_retried, outcome) in table {
            assert_eq!(reason.http_status(), http_status, "{reason}");
            assert_eq!(reason.is_retried(), is_retried, "{reason}");
            assert_eq!(reason.broker_outcome(), outcome, "{reason}");
            assert_eq!(Reason::from_code(reason.as_str()), Some(reason));
        }
    }

    #[test]
    fn a_reason_is_read_back_as_it_was_written() {
        for reason in Reason::ALL {
            let text = serde_json::to_string(reason).unwrap();
            assert_eq!(serde_json::from_str::<Reason>(&text).unwrap(), *reason);
        }
    }

    #[test]
    fn a8_words_of_other_contracts_are_understood() {
        let table = [
            ("BROKER_REJECTED", Reason::BrokerRejected),
            ("BROKER_UNAUTHORIZED", Reason::BrokerRejected),
            ("BROKER_BAD_REQUEST", Reason::BrokerRejected),
            ("BROKER_5XX", Reason::BrokerDown),
            ("BROKER_RATE_LIMITED", Reason::RateLimited),
            ("NETWORK_TIMEOUT", Reason::BrokerTimeout),
            ("NEVER_HEARD_OF", Reason::InternalError),
            // Recorded by this code, the ledger's row would stay as it is: accepted for ever.
            ("IDEMPOTENCY_CONFLICT", Reason::BrokerRejected),
            ("ORDER_EXPIRED", Reason::BrokerRejected),
        ];
        for (code, reason) in table {
            assert_eq!(Reason::of_broker(code), reason, "{code}");
        }
    }
}
