use super::*;

fn root(text: &str) -> Json {
    let document = parse(text.as_bytes()).unwrap();
    assert_eq!(document.repeats, Vec::<String>::new(), "{text}");
    document.root
}

#[test]
fn numbers_stay_as_they_were_written() {
    for text in [
        "10000.0",
        "1e4",
        "0.10",
        "-0",
        "1E+2",
        "123456789012345678901234567890.5",
    ] {
        let Json::Number(number) = root(text) else {
            panic!("{text} is a number");
        };
        assert_eq!(number.as_written(), text);
    }
}

#[test]
fn every_kind_of_value_is_read() {
    let value = root(r#" {"a": [true, false, null, "x\u00e9\n"], "b": {"c": 1}} "#);
    let expected = Json::Object(vec![
        (
            "a".to_owned(),
            Json::List(vec![
                Json::Bool(true),
                Json::Bool(false),
                Json::Null,
                Json::Text("xé\n".to_owned()),
            ]),
        ),
        (
            "b".to_owned(),
            Json::Object(vec![(
                "c".to_owned(),
                Json::Number(Number::parse("1").unwrap()),
            )]),
        ),
    ]);
    assert_eq!(value, expected);
    assert_eq!(value.get("b").unwrap().get("c").unwrap().as_text(), None);
}

/// `é` can be written as one character and as two; both are the same name after NFC.
#[test]
fn duplicate_names_are_rejected() {
    let table: &[(&str, &[&str])] = &[
        (r#"{"a": 1, "b": 2}"#, &[]),
        (r#"{"a": 1, "a": 1}"#, &["a"]),
        (r#"{"a": 1, "a": 2, "a": 3}"#, &["a", "a"]),
        (r#"{"a": 1, "\u0061": 1}"#, &["a"]),
        (
            r#"{"x": {"a": 1, "a": 1}, "y": [{"b": 1, "b": 1}]}"#,
            &["x.a", "y.0.b"],
        ),
        ("{\"\u{e9}\": 1, \"e\u{301}\": 1}", &["e\u{301}"]),
        (r#"{"\u00e9": 1, "e\u0301": 1}"#, &["e\u{301}"]),
        (r#"{"x": {"a": 1}, "y": {"a": 1}}"#, &[]),
    ];
    for (text, repeats) in table {
        assert_eq!(&parse(text.as_bytes()).unwrap().repeats, repeats, "{text}");
    }
}

/// A long name over many repeats: in full, the error would be a thousand times the text.
#[test]
fn an_error_about_repeats_is_short() {
    let repeats = ["\"a\":1"; 5_000].join(",");
    let text = format!("{{\"{}\":{{{repeats}}}}}", "x".repeat(50_000));
    let told = parse(text.as_bytes()).unwrap().repeats;
    assert_eq!(told, vec![format!("{}.a", "x".repeat(64)); 16]);
}

/// Nothing but JSON.
#[test]
fn input_that_is_not_json_is_rejected() {
    let table: &[&[u8]] = &[
        b"",
        b"NaN",
        b"{\"qty\": NaN}",
        b"{\"qty\": Infinity}",
        b"{\"qty\": -Infinity}",
        b"{\"qty\": +1}",
        b"{\"qty\": 01}",
        b"{\"qty\": .5}",
        b"{\"qty\": 1.}",
        b"{\"qty\": 1e}",
        b"{\"qty\": 0x10}",
        b"{'a': 1}",
        b"{a: 1}",
        b"{\"a\": 1,}",
        b"{\"a\": 1} {}",
        b"{\"a\": 1",
        b"{\"a\": \"\x01\"}",
        b"{\"a\": \"\xff\"}",
        b"{\"a\": \"\\ud800\"}",
        b"\xef\xbb\xbf{}",
        b"// a\n{}",
    ];
    for text in table {
        let error = parse(text).unwrap_err();
        let shown = String::from_utf8_lossy(text);
        assert!(matches!(error, JsonError::Syntax(_)), "{shown}: {error}");
    }
}

#[test]
fn depth_is_limited() {
    let nested = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
    assert!(parse(nested(DEPTH_MAX).as_bytes()).is_ok());
    for depth in [DEPTH_MAX + 1, 127, 128, 100_000] {
        let error = parse(nested(depth).as_bytes()).unwrap_err();
        assert!(matches!(error, JsonError::TooDeep), "{depth}: {error}");
    }
    let objects = format!("{}1{}", "{\"a\":".repeat(33), "}".repeat(33));
    let error = parse(objects.as_bytes()).unwrap_err();
    assert!(matches!(error, JsonError::TooDeep), "{error}");
}

#[test]
fn rejects_text_that_no_database_stores() {
    for (text, place) in [
        (r#"{"tags": ["a", "\u0000"]}"#, "tags.1"),
        (r#"{"a\u0000": 1}"#, "a\u{FFFD}"),
        (r#""\u0000""#, "the top level"),
    ] {
        let error = parse(text.as_bytes()).unwrap_err();
        assert!(
            matches!(&error, JsonError::Nul(at) if at == place),
            "{error}"
        );
    }
}

#[test]
fn rejects_exponents_out_of_bounds() {
    let table = [
        "1e1000001",
        "1e-1000001",
        "0e1000001",
        "1e99999999999999999999999999999999999999999999",
        "1e-99999999999999999999999999999999999999999999",
    ];
    for text in table {
        let error = parse(format!("[{text}]").as_bytes()).unwrap_err();
        assert!(
            matches!(&error, JsonError::Exponent(at) if at == "0"),
            "{error}"
        );
    }
    assert!(parse(b"1e000000000000000000000000000000004").is_ok());
}
