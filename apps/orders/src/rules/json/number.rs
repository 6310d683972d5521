//! Numbers as written, and their normal form.

/// Larger exponents are mistakes or attacks. This bounds arithmetic on exponents; nothing is
/// printed at this length.
pub(super) const EXPONENT_MAX: i64 = 1_000_000;

/// From here on the normal form has an exponent, as in RFC 8785: `1e+21`, `1e-7`.
const PLAIN_DIGITS_MAX: i64 = 21;
const PLAIN_ZEROS_MAX: i64 = 6;

/// A JSON number. Compared as written; see [`Number::normal`] for its value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Number {
    text: String,
    /// Whether it is below zero; false for zero.
    is_negative: bool,
    /// Its digits without zeros at either end; empty for zero.
    digits: String,
    /// Position of the point, counted from before the first digit: `digits` × 10^(point − length).
    point: i64,
}

impl Number {
    /// Parses a number in JSON syntax; `None` if it is invalid or its exponent is beyond a million.
    pub fn parse(text: &str) -> Option<Self> {
        let unsigned = text.strip_prefix('-').unwrap_or(text);
        let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, parse_exponent(exponent)?),
            None => (unsigned, 0),
        };
        let (integer, fraction) = match mantissa.split_once('.') {
            Some((_, "")) => return None,
            Some(parts) => parts,
            None => (mantissa, ""),
        };
        let has_spare_zero = integer.len() > 1 && integer.starts_with('0');
        if integer.is_empty() || has_spare_zero || !is_digits(integer) || !is_digits(fraction) {
            return None;
        }
        let all = format!("{integer}{fraction}");
        let significant = all.trim_start_matches('0');
        let leading_zeros = i64::try_from(all.len() - significant.len()).ok()?;
        let digits = significant.trim_end_matches('0').to_owned();
        let point = if digits.is_empty() {
            0
        } else {
            i64::try_from(integer.len()).ok()? - leading_zeros + exponent
        };
        Some(Self {
            text: text.to_owned(),
            is_negative: text.starts_with('-') && !digits.is_empty(),
            digits,
            point,
        })
    }

    /// As it was written.
    pub fn as_written(&self) -> &str {
        &self.text
    }

    /// The normal form of its value: `10000`, `10000.0` and `1e4` are all `10000`.
    ///
    /// No redundant zeros, no `-0`, an exponent only where the plain form would be long. For
    /// numbers that fit a double it equals RFC 8785; others keep all their digits.
    pub fn normal(&self) -> String {
        let is_plain = (-PLAIN_ZEROS_MAX < self.point) && (self.point <= PLAIN_DIGITS_MAX);
        if is_plain {
            return self.spelled_out();
        }
        let sign = if self.is_negative { "-" } else { "" };
        let (first, rest) = self.digits.split_at(1);
        let dot = if rest.is_empty() { "" } else { "." };
        format!("{sign}{first}{dot}{rest}e{:+}", self.point - 1)
    }

    /// The plain form without an exponent; `None` where it needs more than `digits_max` digits.
    pub(crate) fn plain(&self, digits_max: usize) -> Option<String> {
        let max = i64::try_from(digits_max).ok()?;
        let length = i64::try_from(self.digits.len()).ok()?;
        let whole = self.point.max(1);
        let fraction = (length - self.point).max(0);
        (whole.checked_add(fraction)? <= max).then(|| self.spelled_out())
    }

    /// The plain form cut to `places` digits after the point; `None` with more than `integer_max`
    /// digits before it.
    pub(crate) fn cut(&self, integer_max: usize, places: usize) -> Option<String> {
        let integer_max = i64::try_from(integer_max).ok()?;
        if self.point > integer_max {
            return None;
        }
        let kept = self.point + i64::try_from(places).ok()?;
        let Ok(kept @ 1..) = usize::try_from(kept) else {
            return Some("0".to_owned());
        };
        let digits = self.digits.get(..kept).unwrap_or(&self.digits);
        let near = Self {
            digits: digits.to_owned(),
            ..self.clone()
        };
        Some(near.spelled_out())
    }

    /// Without an exponent. Only for points near the digits: zeros are written out.
    fn spelled_out(&self) -> String {
        let sign = if self.is_negative { "-" } else { "" };
        if self.digits.is_empty() {
            return "0".to_owned();
        }
        let Ok(point) = usize::try_from(self.point) else {
            let zeros = "0".repeat(usize::try_from(-self.point).unwrap_or(0));
            return format!("{sign}0.{zeros}{}", self.digits);
        };
        if point == 0 {
            return format!("{sign}0.{}", self.digits);
        }
        if point >= self.digits.len() {
            let zeros = "0".repeat(point - self.digits.len());
            return format!("{sign}{}{zeros}", self.digits);
        }
        let (whole, fraction) = self.digits.split_at(point);
        format!("{sign}{whole}.{fraction}")
    }
}

fn is_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

fn parse_exponent(text: &str) -> Option<i64> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if unsigned.is_empty() || !is_digits(unsigned) {
        return None;
    }
    let digits = unsigned.trim_start_matches('0');
    let exponent: i64 = if digits.is_empty() {
        0
    } else {
        digits.parse().ok()?
    };
    let exponent = if text.starts_with('-') {
        -exponent
    } else {
        exponent
    };
    (exponent.abs() <= EXPONENT_MAX).then_some(exponent)
}
