//! Settings of an app in types: one source for their defaults and bounds.

use consign_kernel::{Error, Result};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{Section, Setting, file};

impl Section {
    /// Options that are set to `values` (an object) and have their declared defaults otherwise.
    ///
    /// The switch `enabled` is not one of them: it decides whether the app is on.
    pub fn options<T: DeserializeOwned>(&self, values: Value) -> serde_json::Result<T> {
        let default = |setting: &Setting| {
            let value = file::value(setting.default?)?;
            Some((setting.name().to_owned(), value))
        };
        let mut options: serde_json::Map<_, _> = self.plain().filter_map(default).collect();
        if let Value::Object(values) = values {
            options.extend(values);
        }
        options.remove("enabled");
        serde_json::from_value(Value::Object(options))
    }

    /// Rejects options of which a value is not of the declared kind or out of its bounds; the error names
    /// the setting.
    pub fn check(&self, options: &impl Serialize) -> Result<()> {
        let values = serde_json::to_value(options);
        let values = values.map_err(|error| Error::invalid(self.name, error.to_string()))?;
        for setting in self.plain() {
            let value = values.get(setting.name());
            let is_absent = |value: &Value| value.is_null() && setting.default.is_none();
            if let Some(value) = value.filter(|value| !is_absent(value)) {
                let checked = setting.kind.check(value);
                checked.map_err(|why| Error::invalid(setting.key, why))?;
            }
        }
        Ok(())
    }

    /// Its settings that the user does not name.
    fn plain(&self) -> impl Iterator<Item = &'static Setting> {
        self.settings
            .iter()
            .filter(|setting| !setting.key.contains('*'))
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;
    use crate::config::Kind;

    static SHOP: Section = Section {
        name: "shop",
        about: "",
        capitals: false,
        settings: &[
            Setting::new("shop.enabled", Kind::Flag, "").default("true"),
            Setting::new("shop.clerks", Kind::Whole(1, 9), "").default("2"),
            Setting::new("shop.share", Kind::Number(0.0, 1.0), "").default("0.5"),
            Setting::new("shop.url", Kind::Url, ""),
            Setting::new("shop.shelves.*", Kind::Text, "").default("\"wood\""),
        ],
        open: &[],
    };

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Options {
        clerks: u32,
        share: f64,
        url: Option<String>,
    }

    fn options(values: Value) -> serde_json::Result<Options> {
        SHOP.options(values)
    }

    #[test]
    fn what_is_not_set_has_its_declared_default() {
        let expected = Options {
            clerks: 3,
            share: 0.5,
            url: None,
        };
        assert_eq!(
            options(json!({"clerks": 3, "enabled": false})).unwrap(),
            expected
        );
        assert!(options(json!({"clerk": 3})).is_err());
    }

    #[test]
    fn a_value_out_of_its_bounds_is_rejected_by_name() {
        for (values, error) in [
            (json!({}), None),
            (
                json!({"clerks": 10}),
                Some("shop.clerks: expected a whole number from 1 to 9, found 10"),
            ),
            (
                json!({"share": 1.5}),
                Some("shop.share: expected a number from 0 to 1, found 1.5"),
            ),
        ] {
            let checked = SHOP.check(&options(values).unwrap());
            assert_eq!(checked.err().map(|e| e.to_string()).as_deref(), error);
        }
        let unknown = Options {
            share: f64::NAN,
            ..options(json!({})).unwrap()
        };
        assert!(SHOP.check(&unknown).is_err());
    }
}
