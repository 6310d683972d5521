//! Reason codes and their HTTP statuses.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

macro_rules! reasons {
    ($($(#[$about:meta])* $name:ident = $code:literal, $http_status:literal;)+) => {
        /// A reason code. Codes are API: they never change their meaning.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Reason {
            $($(#[$about])* $name,)+
        }

        impl Reason {
            /// Every reason.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// The code in answers, attempts and logs.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $code,)+ }
            }

            /// The HTTP status it is answered with.
            pub const fn http_status(self) -> u16 {
                match self { $(Self::$name => $http_status,)+ }
            }

            /// The reason of this code.
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
    /// The key was used with another body before.
    IdempotencyConflict = "IDEMPOTENCY_CONFLICT", 409;
    /// The request is not a valid order.
    ValidationError = "VALIDATION_ERROR", 422;
    /// Too many requests: of the client here, or of ours at the broker.
    RateLimited = "RATE_LIMITED", 429;
    /// The broker rejected the order.
    BrokerRejected = "BROKER_REJECTED", 400;
    /// The outcome is unknown; the order may have been executed.
    BrokerTimeout = "BROKER_TIMEOUT", 504;
    /// The broker is unreachable, or reports that it is out of order.
    BrokerDown = "BROKER_DOWN", 503;
    /// The order expired before it could be sent; it was not executed.
    OrderExpired = "ORDER_EXPIRED", 410;
    /// There is no order with this key.
    OrderUnknown = "ORDER_UNKNOWN", 404;
    /// The message has no ledger row: a send could be a repeat, so it is not sent.
    LedgerMissing = "LEDGER_MISSING", 500;
    /// An unexpected failure.
    InternalError = "INTERNAL_ERROR", 500;
}

impl Reason {
    /// Whether a retry may succeed. Every other reason ends an order at once.
    pub const fn is_retried(self) -> bool {
        matches!(
            self,
            Self::BrokerTimeout | Self::BrokerDown | Self::RateLimited | Self::InternalError
        )
    }

    /// The reason for a broker's code.
    ///
    /// Brokers with other contracts use other codes. An unknown one is an internal error, which is
    /// retried. Codes about our own keys and ledger are mapped to a rejection: a broker cannot
    /// report on them.
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

    /// The label `outcome` of `broker_requests_total`: few values, independent of the codes.
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
    /// Accepts codes of brokers too: see [`Reason::of_broker`].
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let code = String::deserialize(deserializer)?;
        Ok(Self::from_code(&code).unwrap_or_else(|| Self::of_broker(&code)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_its_status_and_is_retried_or_not() {
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
    fn error_codes_of_older_contracts_are_mapped() {
        let table = [
            ("BROKER_REJECTED", Reason::BrokerRejected),
            ("BROKER_UNAUTHORIZED", Reason::BrokerRejected),
            ("BROKER_BAD_REQUEST", Reason::BrokerRejected),
            ("BROKER_5XX", Reason::BrokerDown),
            ("BROKER_RATE_LIMITED", Reason::RateLimited),
            ("NETWORK_TIMEOUT", Reason::BrokerTimeout),
            ("NEVER_HEARD_OF", Reason::InternalError),
            // With the original code the ledger's row would stay accepted forever.
            ("IDEMPOTENCY_CONFLICT", Reason::BrokerRejected),
            ("ORDER_EXPIRED", Reason::BrokerRejected),
        ];
        for (code, reason) in table {
            assert_eq!(Reason::of_broker(code), reason, "{code}");
        }
    }
}
