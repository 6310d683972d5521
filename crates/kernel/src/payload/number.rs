//! JSON numbers, written as PostgreSQL's `numeric` prints them.

use super::error::Fault;

/// Most digits before and after the point that `numeric` holds.
const WHOLE_DIGITS_MAX: i64 = 131_072;
const SCALE_MAX: i64 = 16_383;
/// PostgreSQL refuses exponents from here on, whatever they multiply.
const EXPONENT_END: i64 = (i32::MAX / 2) as i64;

/// A number in its parts, as it stands in a text.
///
/// Its printed form has no exponent and keeps its scale: `1.50e1` is `15.0`, `1e-2` is `0.01`,
/// `-0.0` is `0.0`.
pub(super) struct Number<'t> {
    is_negative: bool,
    whole: &'t str,
    fraction: &'t str,
    exponent: i64,
}

impl<'t> Number<'t> {
    /// The number at the beginning of `text`, and its length there.
    pub(super) fn read(text: &'t str) -> Result<(Self, usize), Fault> {
        let is_negative = text.starts_with('-');
        let start = usize::from(is_negative);
        let digits = |from: usize| {
            let bytes = text.as_bytes().get(from..).unwrap_or_default();
            from + bytes
                .iter()
                .take_while(|byte| byte.is_ascii_digit())
                .count()
        };
        let at = |place: usize| text.as_bytes().get(place).copied();
        let mut end = digits(start);
        let whole = &text[start..end];
        if whole.is_empty() || (whole.len() > 1 && whole.starts_with('0')) {
            return Err(Fault::Syntax);
        }
        let mut fraction = "";
        if at(end) == Some(b'.') {
            let from = end + 1;
            end = digits(from);
            fraction = &text[from..end];
            if fraction.is_empty() {
                return Err(Fault::Syntax);
            }
        }
        let mut exponent = 0;
        if matches!(at(end), Some(b'e' | b'E')) {
            let sign = at(end + 1).filter(|sign| matches!(sign, b'+' | b'-'));
            let from = end + 1 + usize::from(sign.is_some());
            end = digits(from);
            exponent = exponent_of(&text[from..end], sign == Some(b'-'))?;
        }
        let number = Self {
            is_negative: is_negative && !(is_zero(whole) && is_zero(fraction)),
            whole,
            fraction,
            exponent,
        };
        Ok((number, end))
    }

    /// Digits of `whole` and `fraction` that stand before the point once the exponent is applied.
    fn point(&self) -> i64 {
        length(self.whole) + self.exponent
    }

    /// Digits before the point without leading zeros, and after it.
    fn extent(&self) -> Result<(i64, i64), Fault> {
        let leading_zeros = match self.whole {
            "0" => 1 + length(self.fraction) - length(self.fraction.trim_start_matches('0')),
            _ => 0,
        };
        let is_zero = leading_zeros == length(self.whole) + length(self.fraction);
        let whole = if is_zero {
            0
        } else {
            (self.point() - leading_zeros).max(0)
        };
        let scale = (length(self.fraction) - self.exponent).max(0);
        if whole > WHOLE_DIGITS_MAX || scale > SCALE_MAX {
            return Err(Fault::BeyondNumeric);
        }
        Ok((whole, scale))
    }

    /// Appends the printed form; refuses what `numeric` cannot hold, and what would make `out`
    /// longer than `bytes_max` before it does.
    pub(super) fn write(&self, out: &mut String, bytes_max: usize) -> Result<(), Fault> {
        let (whole, scale) = self.extent()?;
        let point = if scale > 0 { 1 } else { 0 };
        let bytes = i64::from(self.is_negative) + whole.max(1) + point + scale;
        if out.len() + usize::try_from(bytes).unwrap_or(usize::MAX) > bytes_max {
            return Err(Fault::TooLong(bytes_max));
        }
        if self.is_negative {
            out.push('-');
        }
        if self.exponent == 0 {
            out.push_str(self.whole);
            if scale > 0 {
                out.push('.');
                out.push_str(self.fraction);
            }
            return Ok(());
        }
        self.write_shifted(out, whole, scale);
        Ok(())
    }

    fn write_shifted(&self, out: &mut String, whole: i64, scale: i64) {
        let digits = || {
            self.whole
                .bytes()
                .chain(self.fraction.bytes())
                .map(char::from)
        };
        let point = self.point();
        let before = usize::try_from(point).unwrap_or(0);
        if whole == 0 {
            out.push('0');
        } else {
            let zeros = usize::try_from(point - whole).expect("invariant: zeros lead the digits");
            let given = digits().chain(std::iter::repeat('0'));
            out.extend(given.take(before).skip(zeros));
        }
        if scale > 0 {
            let scale = usize::try_from(scale).expect("invariant: positive and bounded");
            let zeros = usize::try_from(-point).unwrap_or(0).min(scale);
            out.push('.');
            out.extend(std::iter::repeat_n('0', zeros));
            out.extend(digits().skip(before).take(scale - zeros));
        }
    }
}

fn exponent_of(digits: &str, is_negative: bool) -> Result<i64, Fault> {
    if digits.is_empty() {
        return Err(Fault::Syntax);
    }
    let exponent = digits.trim_start_matches('0');
    let exponent: i64 = match exponent {
        "" => 0,
        text => text.parse().unwrap_or(i64::MAX),
    };
    if exponent >= EXPONENT_END {
        return Err(Fault::BeyondNumeric);
    }
    Ok(if is_negative { -exponent } else { exponent })
}

fn is_zero(digits: &str) -> bool {
    digits.bytes().all(|digit| digit == b'0')
}

fn length(digits: &str) -> i64 {
    i64::try_from(digits.len()).expect("invariant: a text is shorter than that")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(text: &str) -> String {
        let (number, end) = Number::read(text).unwrap();
        assert_eq!(end, text.len(), "{text}");
        let mut out = String::new();
        number.write(&mut out, usize::MAX).unwrap();
        out
    }

    #[test]
    fn numbers_are_printed_as_numeric_prints_them() {
        for (text, expected) in [
            ("0", "0"),
            ("-0", "0"),
            ("-0.0", "0.0"),
            ("-0e-3", "0.000"),
            ("0e500000", "0"),
            ("0.000e2", "0.0"),
            ("1", "1"),
            ("1.0", "1.0"),
            ("1e0", "1"),
            ("1E+2", "100"),
            ("1.50e1", "15.0"),
            ("1.50e2", "150"),
            ("1.50e4", "15000"),
            ("-12.5e-1", "-1.25"),
            ("1e-2", "0.01"),
            ("0.001e2", "0.1"),
            ("0.001e3", "1"),
            ("0.0015e5", "150"),
            ("123e-5", "0.00123"),
            ("100e-2", "1.00"),
            ("1e0000000000000000000005", "100000"),
            ("12345678901234567890123", "12345678901234567890123"),
            ("0.12345678901234567890", "0.12345678901234567890"),
        ] {
            assert_eq!(printed(text), expected, "{text}");
        }
    }

    #[test]
    fn numbers_end_where_numeric_ends() {
        let refused = |text: &str| {
            let written = Number::read(text)
                .and_then(|(number, _)| number.write(&mut String::new(), usize::MAX));
            matches!(written, Err(Fault::BeyondNumeric))
        };
        assert_eq!(printed("1e131071").len(), 131_072);
        assert!(refused("1e131072"));
        assert_eq!(printed("0.01e131073").len(), 131_072);
        assert_eq!(printed("1e-16383").len(), 16_385);
        assert!(refused("1e-16384"));
        assert!(refused("0e-16384"));
        assert!(refused("1.0e-16383"));
        assert!(refused("0e1073741823"));
        assert!(refused("1e99999999999999999999999"));
    }

    #[test]
    fn a_number_is_measured_before_it_is_written() {
        let (number, _) = Number::read("1e131071").unwrap();
        let mut out = String::new();
        let long = number.write(&mut out, 131_071);
        assert!(matches!(long, Err(Fault::TooLong(131_071))));
        assert_eq!(out.capacity(), 0);
    }
}
