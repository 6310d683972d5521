//! Tradable instruments with their quantity step and price tick.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::Amount;

/// The grid of one instrument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Instrument {
    /// Quantities are multiples of this.
    #[serde(with = "written")]
    pub qty_step: Amount,
    /// The smallest quantity.
    #[serde(with = "written")]
    pub qty_min: Amount,
    /// Prices are multiples of this.
    #[serde(with = "written")]
    pub price_tick: Amount,
}

/// Instruments by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "BTreeMap<String, Instrument>")]
pub struct Instruments(BTreeMap<String, Instrument>);

/// Why a list of instruments is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("instrument {name:?}: {why}")]
pub struct BadInstrument {
    /// Name of the instrument.
    pub name: String,
    /// What is wrong.
    pub why: &'static str,
}

impl Instruments {
    /// A list. Names and grids are checked here, once, instead of with every order.
    pub fn new(
        instruments: impl IntoIterator<Item = (String, Instrument)>,
    ) -> Result<Self, BadInstrument> {
        let instruments: BTreeMap<_, _> = instruments.into_iter().collect();
        for (name, instrument) in &instruments {
            let amounts = [
                instrument.qty_step,
                instrument.qty_min,
                instrument.price_tick,
            ];
            let why = match () {
                () if !is_name(name) => "a name is 3 to 20 of A-Z, 0-9, `.`, `_` and `-`",
                () if !amounts.iter().all(|amount| amount.is_positive()) => {
                    "qty_step, qty_min and price_tick must be above zero"
                }
                () => continue,
            };
            let name = name.clone();
            return Err(BadInstrument { name, why });
        }
        Ok(Self(instruments))
    }

    /// The grid of an instrument; `None` if it is not tradable.
    pub fn get(&self, name: &str) -> Option<&Instrument> {
        self.0.get(name)
    }

    /// Their names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

impl TryFrom<BTreeMap<String, Instrument>> for Instruments {
    type Error = BadInstrument;

    fn try_from(instruments: BTreeMap<String, Instrument>) -> Result<Self, BadInstrument> {
        Self::new(instruments)
    }
}

/// Valid names: `^[A-Z0-9._-]{3,20}$`.
pub(crate) fn is_name(name: &str) -> bool {
    let is_allowed = |byte: u8| {
        byte.is_ascii_uppercase() || byte.is_ascii_digit() || matches!(byte, b'.' | b'_' | b'-')
    };
    (3..=20).contains(&name.len()) && name.bytes().all(is_allowed)
}

impl Default for Instruments {
    /// Common currency pairs: hundredths of a lot, tenths of a pip.
    fn default() -> Self {
        let hundredth = Amount::scaled(1, 2);
        let with_tick = |price_tick| Instrument {
            qty_step: hundredth,
            qty_min: hundredth,
            price_tick,
        };
        let yen = with_tick(Amount::scaled(1, 3));
        let dollar = with_tick(Amount::scaled(1, 5));
        let pairs = [
            ("USDJPY", yen),
            ("EURJPY", yen),
            ("EURUSD", dollar),
            ("GBPUSD", dollar),
        ];
        Self(
            pairs
                .map(|(name, instrument)| (name.to_owned(), instrument))
                .into(),
        )
    }
}

/// Amounts in a configuration: text, or a TOML number. The shortest decimal of the floating point
/// number is the one that was written, so nothing is lost.
mod written {
    use super::*;

    pub(super) fn serialize<S: Serializer>(amount: &Amount, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(amount)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Amount, D::Error> {
        d.deserialize_any(DecimalVisitor)
    }

    struct DecimalVisitor;

    impl de::Visitor<'_> for DecimalVisitor {
        type Value = Amount;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a decimal number such as \"0.01\"")
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<Amount, E> {
            text.parse().map_err(E::custom)
        }

        fn visit_i64<E: de::Error>(self, number: i64) -> Result<Amount, E> {
            self.visit_str(&number.to_string())
        }

        fn visit_u64<E: de::Error>(self, number: u64) -> Result<Amount, E> {
            self.visit_str(&number.to_string())
        }

        fn visit_f64<E: de::Error>(self, number: f64) -> Result<Amount, E> {
            self.visit_str(&number.to_string())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_are_read_from_text_and_numbers() {
        let json = r#"{"BTC-USD": {"qty_step": "0.001", "qty_min": 0.01, "price_tick": 1}}"#;
        let instruments: Instruments = serde_json::from_str(json).unwrap();
        let expected = Instrument {
            qty_step: "0.001".parse().unwrap(),
            qty_min: "0.01".parse().unwrap(),
            price_tick: "1".parse().unwrap(),
        };
        assert_eq!(instruments.get("BTC-USD"), Some(&expected));
    }

    #[test]
    fn grids_that_cannot_be_used_are_refused() {
        let table = [
            (
                r#"{"usdjpy": {"qty_step": 1, "qty_min": 1, "price_tick": 1}}"#,
                "usdjpy",
            ),
            (
                r#"{"US": {"qty_step": 1, "qty_min": 1, "price_tick": 1}}"#,
                "US",
            ),
            (
                r#"{"USDJPY": {"qty_step": 0, "qty_min": 1, "price_tick": 1}}"#,
                "USDJPY",
            ),
            (
                r#"{"USDJPY": {"qty_step": 1, "qty_min": 1, "price_tick": -1}}"#,
                "USDJPY",
            ),
        ];
        for (json, name) in table {
            let error = serde_json::from_str::<Instruments>(json).unwrap_err();
            let expected = format!("instrument {name:?}: ");
            assert!(error.to_string().starts_with(&expected), "{json}: {error}");
        }
        let half = r#"{"USDJPY": {"qty_step": 1, "qty_min": 1}}"#;
        assert!(serde_json::from_str::<Instruments>(half).is_err());
    }

    #[test]
    fn the_usual_pairs_are_there_without_configuration() {
        let instruments = Instruments::default();
        for name in ["USDJPY", "EURUSD"] {
            assert!(instruments.get(name).is_some(), "{name}");
        }
    }
}
