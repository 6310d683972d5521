//! The kernel's payloads and the server's `jsonb` draw the same distinctions.

use consign_kernel::Payload;
use proptest::{
    prelude::*,
    sample::select,
    strategy::ValueTree,
    test_runner::{RngSeed, TestRunner},
};
use sqlx::{Connection, PgConnection};

use crate::harness::database;

const DOCUMENTS: usize = 3_000;

/// What `jsonb` makes of a text; NULL if it refuses it.
const READ: &str = "
CREATE FUNCTION pg_temp.read(p_text text) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
    RETURN p_text::jsonb;
EXCEPTION WHEN OTHERS THEN
    RETURN NULL;
END $$";

fn digits() -> impl Strategy<Value = String> {
    prop_oneof![4 => "[0-9]{1,3}", 1 => "[0-9]{18,40}", 1 => "0{1,5}[1-9]0{1,5}"]
}

/// Numbers around every edge, with and without exponents.
fn number() -> impl Strategy<Value = String> {
    let exponents: &[&str] = &[
        "0",
        "1",
        "2",
        "5",
        "007",
        "30",
        "16380",
        "16382",
        "16383",
        "16384",
        "131070",
        "131071",
        "131072",
        "200000",
        "1073741822",
        "1073741823",
        "99999999999999999999",
    ];
    let exponent = prop_oneof![
        6 => Just(String::new()),
        2 => ("[eE]", select(&["", "+", "-"][..]), "[0-9]{1,2}").prop_map(|(e, sign, n)| format!("{e}{sign}{n}")),
        1 => (select(&["", "+", "-"][..]), select(exponents)).prop_map(|(sign, n)| format!("e{sign}{n}")),
    ];
    let whole = digits().prop_map(|digits| match digits.trim_start_matches('0') {
        "" => "0".to_owned(),
        digits => digits.to_owned(),
    });
    let fraction = proptest::option::of(digits()).prop_map(|fraction| match fraction {
        Some(digits) => format!(".{digits}"),
        None => String::new(),
    });
    (select(&["", "", "-"][..]), whole, fraction, exponent)
        .prop_map(|(sign, whole, fraction, exponent)| format!("{sign}{whole}{fraction}{exponent}"))
}

/// Texts in every spelling, as JSON.
fn string() -> impl Strategy<Value = String> {
    let good: &[&str] = &[
        "a",
        "b",
        "1",
        ".",
        "0",
        "ä",
        "e\u{301}",
        "🦀",
        "\u{7f}",
        "\\n",
        "\\u000a",
        "\\b",
        "\\u0041",
        "\\u00E4",
        "\\ud83e\\udd80",
        "\\/",
        "/",
        "\\\"",
        "\\u0022",
        "\\\\",
        "\\u001f",
        "\\u007f",
    ];
    let bad: &[&str] = &[
        "\\u0000",
        "\\ud800",
        "\\udc00x",
        "\\ud800\\u0041",
        "\\x",
        "\n",
    ];
    let piece = prop_oneof![60 => select(good), 1 => select(bad)];
    proptest::collection::vec(piece, 0..6).prop_map(|pieces| format!("\"{}\"", pieces.concat()))
}

fn document() -> impl Strategy<Value = String> {
    let space = || select(&["", "", " ", "\n\t"][..]);
    let leaf = prop_oneof![
        3 => number(),
        2 => string(),
        1 => select(&["true", "false", "null", "[]", "{}"][..]).prop_map(str::to_owned),
    ];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        let list = (proptest::collection::vec(inner.clone(), 0..4), space())
            .prop_map(|(items, space)| format!("[{space}{}]", items.join(&format!(",{space}"))));
        let member = (string(), space(), inner)
            .prop_map(|(name, space, value)| format!("{name}{space}:{space}{value}"));
        let object = proptest::collection::vec(member, 0..4)
            .prop_map(|members| format!("{{{}}}", members.join(" , ")));
        prop_oneof![list, object]
    })
}

fn samples(strategy: &impl Strategy<Value = String>) -> Vec<String> {
    let seed: u64 = std::env::var("CONSIGN_TEST_SEED").map_or(15, |seed| seed.parse().unwrap());
    let config = ProptestConfig {
        rng_seed: RngSeed::Fixed(seed),
        ..ProptestConfig::default()
    };
    let mut runner = TestRunner::new(config);
    let sample = |_| strategy.new_tree(&mut runner).unwrap().current();
    (0..DOCUMENTS).map(sample).collect()
}

/// Whether a text is refused here only for a name that comes twice: `jsonb` keeps the last.
fn repeats_a_name(text: &str) -> bool {
    Payload::parse(text).is_err_and(|error| error.why.contains("duplicate name"))
}

#[tokio::test]
async fn a_payload_has_the_text_that_jsonb_has() {
    let database = database().await;
    let mut connection = PgConnection::connect(database.url()).await.unwrap();
    sqlx::raw_sql(READ).execute(&mut connection).await.unwrap();
    let mut texts = samples(&document());
    texts.extend(samples(&number()));
    let kept: Vec<Option<String>> = sqlx::query_scalar(
        "SELECT pg_temp.read(t)::text FROM unnest($1::text[]) WITH ORDINALITY u (t, n) ORDER BY n",
    )
    .bind(&texts)
    .fetch_all(&mut connection)
    .await
    .unwrap();
    let mut refused = 0;
    for (text, kept) in texts.iter().zip(kept) {
        if repeats_a_name(text) {
            continue;
        }
        let ours = Payload::parse(text).ok();
        let theirs = kept.map(|kept| Payload::parse(&kept).unwrap());
        refused += usize::from(ours.is_none());
        assert_eq!(
            ours.as_ref().map(Payload::as_str),
            theirs.as_ref().map(Payload::as_str),
            "{text}"
        );
    }
    assert!(
        (100..texts.len() / 2).contains(&refused),
        "{refused} were refused"
    );
}

#[tokio::test]
async fn payloads_are_equal_that_jsonb_calls_equal() {
    let database = database().await;
    let mut connection = PgConnection::connect(database.url()).await.unwrap();
    sqlx::raw_sql(READ).execute(&mut connection).await.unwrap();
    // Few documents, so that pairs are often equal, and every number in several spellings.
    let small = prop_oneof![
        "-?[01](\\.[01]{1,2})?(e[+-]?[012])?",
        "\"[01](\\.0)?\"",
        "\\[[01](\\.0)?,[01]\\]",
        "\\{\"a\":[01](\\.0)?(,\"b\":[01])?\\}",
        "\\{\"b\":[01],\"a\":[01]e0\\}",
    ];
    let texts = samples(&small);
    let pairs: Vec<(&str, &str)> = (texts.chunks_exact(2))
        .map(|pair| (pair[0].as_str(), pair[1].as_str()))
        .collect();
    let (a, b): (Vec<&str>, Vec<&str>) = pairs.iter().copied().unzip();
    let equal: Vec<bool> = sqlx::query_scalar(
        "SELECT pg_temp.read(a) = pg_temp.read(b) FROM unnest($1::text[], $2::text[]) WITH ORDINALITY u (a, b, n) ORDER BY n",
    )
    .bind(a)
    .bind(b)
    .fetch_all(&mut connection)
    .await
    .unwrap();
    for ((a, b), equal) in pairs.iter().zip(&equal) {
        let payloads = [a, b].map(|text| Payload::parse(text).unwrap());
        assert_eq!(payloads[0] == payloads[1], *equal, "{a} and {b}");
    }
    let count = equal.iter().filter(|equal| **equal).count();
    assert!(
        (50..pairs.len()).contains(&count),
        "{count} of {}",
        pairs.len()
    );
}
