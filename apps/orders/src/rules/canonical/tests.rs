use proptest::prelude::*;

use super::*;
use crate::json::{Number, parse};

fn of(text: &str) -> String {
    let document = parse(text.as_bytes()).unwrap();
    assert_eq!(document.repeats, Vec::<String>::new(), "{text}");
    canonical(&document.root)
}

/// Where a double holds the number, it is the form of RFC 8785.
#[test]
fn equal_numbers_have_one_form() {
    let table: &[(&[&str], &str)] = &[
        (
            &[
                "10000",
                "10000.0",
                "1e4",
                "1E+4",
                "10000.000e0",
                "100e2",
                "0.1e5",
            ],
            "10000",
        ),
        (
            &["0.1", "0.10", "1e-1", "10e-2", "0.01E1", "0.100000"],
            "0.1",
        ),
        (&["0", "-0", "0.0", "-0.0e5", "0e1000000"], "0"),
        (&["-1.50", "-15e-1", "-150E-2"], "-1.5"),
        (&["1.05", "105e-2"], "1.05"),
        (&["0.000001", "1e-6"], "0.000001"),
        (&["0.0000001", "1e-7", "0.1e-6"], "1e-7"),
        (&["0.00000012", "12e-8"], "1.2e-7"),
        (&["100000000000000000000", "1e20"], "100000000000000000000"),
        (&["1000000000000000000000", "1e21"], "1e+21"),
        (
            &["-1234567890123456789012345e-4"],
            "-123456789012345678901.2345",
        ),
        (
            &["123456789012345678901234567890"],
            "1.2345678901234567890123456789e+29",
        ),
        (
            &["0.123456789012345678901234567890"],
            "0.12345678901234567890123456789",
        ),
        (&["1e1000000", "10e999999"], "1e+1000000"),
        (&["1e-1000000"], "1e-1000000"),
        (&["-25e-1000000"], "-2.5e-999999"),
    ];
    for (written, form) in table {
        for text in *written {
            assert_eq!(of(text), *form, "{text}");
        }
    }
}

#[test]
fn members_are_sorted_by_code_point_lists_are_not() {
    let table = [
        (r#"{"b": 1, "a": 2}"#, r#"{"a":2,"b":1}"#),
        (
            r#"{"a": {"d": 1, "c": [3, 1, 2]}}"#,
            r#"{"a":{"c":[3,1,2],"d":1}}"#,
        ),
        (
            r#"{"a": 1, "B": 2, "_": 3, "10": 4, "9": 5}"#,
            r#"{"10":4,"9":5,"B":2,"_":3,"a":1}"#,
        ),
        // By UTF-16 units U+1F600 (a surrogate pair) would come before U+FF01.
        (
            "{\"\u{1F600}\": 1, \"\u{FF01}\": 2}",
            "{\"\u{FF01}\":2,\"\u{1F600}\":1}",
        ),
        // Sorted after NFC: `e` with an accent of its own would come before `z`.
        ("{\"e\u{301}\": 1, \"z\": 2}", "{\"z\":2,\"\u{e9}\":1}"),
        ("{}", "{}"),
        ("[]", "[]"),
    ];
    for (text, expected) in table {
        assert_eq!(of(text), expected, "{text}");
    }
}

#[test]
fn text_is_in_nfc_and_unescaped() {
    let table = [
        (r#""\u00e9""#, "\"é\""),
        ("\"e\u{301}\"", "\"é\""),
        (r#""\u0041\/\ud83d\ude00""#, "\"A/😀\""),
        (r#""\"\\""#, r#""\"\\""#),
        (r#""\b\f\n\r\t""#, r#""\b\f\n\r\t""#),
        (r#""\u001F\u007f""#, "\"\\u001f\u{7f}\""),
        ("\"\u{212A}\"", "\"K\""),
        ("\"円\"", "\"円\""),
    ];
    for (text, expected) in table {
        assert_eq!(of(text), expected, "{text}");
    }
}

#[test]
fn only_members_of_the_top_are_dropped() {
    let text = r#"{"trace_id": 1, "a": {"trace_id": 2}, "b": [{"trace_id": 3}]}"#;
    let value = parse(text.as_bytes()).unwrap().root;
    let expected = r#"{"a":{"trace_id":2},"b":[{"trace_id":3}]}"#;
    assert_eq!(canonical_without(&value, &["trace_id"]), expected);
}

/// A value and the many ways to write it.
fn any_json() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::Bool),
        (any::<i64>(), -30..30_i32).prop_map(|(digits, exponent)| {
            Json::Number(Number::parse(&format!("{digits}e{exponent}")).unwrap())
        }),
        "[a-zé円\"\\\\\n😀]{0,6}".prop_map(Json::Text),
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Json::List),
            prop::collection::btree_map("[a-eé円]{1,3}", inner, 0..5)
                .prop_map(|members| Json::Object(members.into_iter().collect())),
        ]
    })
}

/// Writes a value in another form: `choices` select order, blanks, escapes and number forms.
fn written(value: &Json, choices: &mut impl Iterator<Item = u8>) -> String {
    let mut choose = || choices.next().unwrap_or(0);
    let blank = [" ", "", "\n\t", "  "][usize::from(choose() % 4)];
    match value {
        Json::Null | Json::Bool(_) => format!("{blank}{}{blank}", canonical(value)),
        Json::Number(number) => format!("{blank}{}", other_form(&number.normal(), choose())),
        Json::Text(text) => format!("{}{blank}", other_text(text, choose())),
        Json::List(items) => {
            let items: Vec<String> = items.iter().map(|item| written(item, choices)).collect();
            format!("[{blank}{}]", items.join(","))
        }
        Json::Object(members) => {
            let mut members: Vec<&(String, Json)> = members.iter().collect();
            if choose() % 2 == 0 {
                members.reverse();
            }
            if !members.is_empty() {
                let by = usize::from(choose()) % members.len();
                members.rotate_left(by);
            }
            let members: Vec<String> = members
                .into_iter()
                .map(|(name, value)| {
                    let name = other_text(name, choices.next().unwrap_or(0));
                    format!("{name}{blank}:{}", written(value, choices))
                })
                .collect();
            format!("{{{}{blank}}}", members.join(&format!("{blank},")))
        }
    }
}

/// The same number: zeros at the end, or moved by an exponent.
fn other_form(normal: &str, choice: u8) -> String {
    let (mantissa, exponent) = normal.split_once('e').unwrap_or((normal, "0"));
    let exponent: i64 = exponent.parse().unwrap();
    let mantissa = match (choice % 3, mantissa.contains('.')) {
        (0, _) => mantissa.to_owned(),
        (1, true) | (2, true) => format!("{mantissa}000"),
        (_, _) => format!("{mantissa}.00"),
    };
    match choice / 3 % 4 {
        0 if exponent == 0 => mantissa,
        1 if !mantissa.contains('.') => format!("{mantissa}00E{}", exponent - 2),
        2 => format!("{mantissa}e+0{exponent}").replace("+0-", "-0"),
        _ => format!("{mantissa}E{exponent}"),
    }
}

fn other_text(text: &str, choice: u8) -> String {
    use unicode_normalization::UnicodeNormalization;
    let text: String = match choice % 2 {
        0 => text.nfd().collect(),
        _ => text.to_owned(),
    };
    if (choice / 2).is_multiple_of(2) {
        return serde_json::to_string(&text).unwrap();
    }
    let units = text.encode_utf16().map(|unit| format!("\\u{unit:04X}"));
    format!("\"{}\"", units.collect::<String>())
}

proptest! {
    /// Order of members, blanks, escapes, spellings and number forms do not matter.
    #[test]
    fn every_way_to_write_a_value_has_one_canonical_text(
        value in any_json(),
        choices in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let expected = canonical(&value);
        let text = written(&value, &mut choices.into_iter());
        let read = parse(text.as_bytes());
        prop_assert!(read.is_ok(), "{text}: {read:?}");
        prop_assert_eq!(canonical(&read.unwrap().root), expected.clone(), "{}", text);
        // It is JSON itself, and its own canonical text.
        prop_assert_eq!(canonical(&parse(expected.as_bytes()).unwrap().root), expected);
    }

    #[test]
    fn different_numbers_have_different_forms(
        a in (any::<i32>(), -9..9_i32), b in (any::<i32>(), -9..9_i32),
    ) {
        let normal = |(digits, exponent): (i32, i32)| {
            Number::parse(&format!("{digits}e{exponent}")).unwrap().normal()
        };
        let scaled = |(digits, exponent): (i32, i32)| {
            i128::from(digits) * 10_i128.pow((exponent + 9).unsigned_abs())
        };
        prop_assert_eq!(normal(a) == normal(b), scaled(a) == scaled(b));
    }
}
