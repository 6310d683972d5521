//! Quantities and prices: decimal, exact, printed in one form.

use std::{fmt, str::FromStr};

use rust_decimal::{Decimal, RoundingStrategy};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _, ser::Error as _};
use serde_json::value::RawValue;

use crate::json::Number;

/// An exact decimal, serialised as a JSON number. Equal amounts print alike: `0.10` is `0.1`, `0.0`
/// is `0`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Amount(Decimal);

/// Error of a text that is not an amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "not a decimal number of at most {INTEGER_DIGITS_MAX} digits before and {FRACTION_DIGITS_MAX} after the point"
)]
pub struct NotAnAmount;

/// With more digits the product of two amounts would overflow.
const INTEGER_DIGITS_MAX: u32 = 14;
/// More than any price has; with the limit above, rounding stays exact.
const FRACTION_DIGITS_MAX: u32 = 12;

impl Amount {
    /// Zero.
    pub const ZERO: Self = Self(Decimal::ZERO);

    /// `number` divided by ten `scale` times: 1 and 2 are 0.01.
    pub(crate) fn scaled(number: i64, scale: u32) -> Self {
        Self(Decimal::new(number, scale).normalize())
    }

    /// The number, for arithmetic.
    pub fn decimal(self) -> Decimal {
        self.0
    }

    /// Whether it is above zero.
    pub fn is_positive(self) -> bool {
        self.0 > Decimal::ZERO
    }

    /// The sum; `None` on overflow.
    pub fn plus(self, other: Self) -> Option<Self> {
        Self::new(self.0.checked_add(other.0)?)
    }

    /// The absolute difference of two amounts.
    pub fn distance(self, other: Self) -> Decimal {
        (self.0 - other.0).abs()
    }

    /// The nearest amount; `None` if the number is too large.
    fn rounded(number: &Number) -> Option<Self> {
        let places = FRACTION_DIGITS_MAX + 1;
        let cut = number.cut(INTEGER_DIGITS_MAX as usize, places as usize)?;
        let decimal = Decimal::from_str_exact(&cut).ok()?;
        let rounding = RoundingStrategy::MidpointAwayFromZero;
        Self::new(decimal.round_dp_with_strategy(FRACTION_DIGITS_MAX, rounding))
    }

    /// A decimal as an amount, if it is within bounds.
    pub fn new(decimal: Decimal) -> Option<Self> {
        let decimal = decimal.normalize();
        let is_small = decimal.abs() < Decimal::from(10_u64.pow(INTEGER_DIGITS_MAX));
        (is_small && decimal.scale() <= FRACTION_DIGITS_MAX).then_some(Self(decimal))
    }
}

impl TryFrom<&Number> for Amount {
    type Error = NotAnAmount;

    fn try_from(number: &Number) -> Result<Self, NotAnAmount> {
        let digits_max = INTEGER_DIGITS_MAX + FRACTION_DIGITS_MAX;
        let plain = number.plain(digits_max as usize).ok_or(NotAnAmount)?;
        let decimal = Decimal::from_str_exact(&plain).map_err(|_| NotAnAmount)?;
        Self::new(decimal).ok_or(NotAnAmount)
    }
}

impl FromStr for Amount {
    type Err = NotAnAmount;

    /// Parses a number in JSON syntax.
    fn from_str(text: &str) -> Result<Self, NotAnAmount> {
        Self::try_from(&Number::parse(text).ok_or(NotAnAmount)?)
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0.normalize(), f)
    }
}

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw = RawValue::from_string(self.to_string()).map_err(S::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Amount {
    /// Excess digits after the point are rounded.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let amount = Number::parse(raw.get()).and_then(|number| Self::rounded(&number));
        amount.ok_or_else(|| D::Error::custom(NotAnAmount))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_amounts_print_alike() {
        let table = [
            ("10000", "10000"),
            ("10000.0", "10000"),
            ("1e4", "10000"),
            ("0.10", "0.1"),
            ("0.0", "0"),
            ("-0", "0"),
            ("146.1252", "146.1252"),
            ("1E-7", "0.0000001"),
            ("99999999999999.999999999999", "99999999999999.999999999999"),
        ];
        for (text, printed) in table {
            let amount: Amount = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&amount).unwrap(), printed, "{text}");
        }
    }

    /// Floating point of a broker: 0.1 + 0.2, and an average.
    #[test]
    fn rounds_amounts_of_brokers() {
        let table = [
            ("0.30000000000000004", "0.3"),
            ("146.12540000000001", "146.1254"),
            ("1.4612539999999999e2", "146.1254"),
            ("0.0000000000005", "0.000000000001"),
            ("0.00000000000049", "0"),
            ("-0.0000000000005", "-0.000000000001"),
            ("5e-324", "0"),
            ("1e-1000000", "0"),
            (
                "0.1000000000000000055511151231257827021181583404541015625",
                "0.1",
            ),
        ];
        for (text, printed) in table {
            let amount: Amount = serde_json::from_str(text).unwrap();
            assert_eq!(amount.to_string(), printed, "{text}");
        }
        for text in [
            "1e14",
            "99999999999999.9999999999999",
            "1e1000000",
            "\"1\"",
            "null",
        ] {
            assert!(serde_json::from_str::<Amount>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn rejects_amounts_that_do_not_fit() {
        let table = [
            "100000000000000",
            "0.0000000000001",
            "1e30",
            "1e-30",
            "1e999999",
            "\"1\"",
            "NaN",
            "+1",
            "01",
            ".5",
            "1.",
            "",
            " 1",
        ];
        for text in table {
            assert_eq!(text.parse::<Amount>(), Err(NotAnAmount), "{text}");
        }
    }
}
