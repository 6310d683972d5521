//! Fuzz tests: output of `svn` for foreign repositories never causes a panic, and does not depend
//! on read boundaries.

use proptest::prelude::*;

use super::{failure, info::Info, log::Log, program::Reader, stat::Stat, url, xml::TagReader};

/// Fragments of its output, and fragments that break it.
const PARTS: [&[u8]; 30] = [
    b"<log>",
    b"<logentry revision=\"7\">",
    b"<logentry\n   revision=\"9999999999999999999\">",
    b"</logentry>",
    b"<author>",
    b"</author>",
    b"<date>2026-11-17T10:00:00.000000Z</date>",
    b"<date>9999-99-99</date>",
    b"<paths>",
    b"<path action=\"M\" text-mods=\"true\">/trunk/a",
    b"</path>",
    b"</paths>",
    b"<msg>",
    b"</msg>",
    b"</log>",
    b"<info>",
    b"<entry revision=\"3\">",
    b"<uuid>",
    b"</uuid>",
    b"<root>file:///r%2</root>",
    b"&lt;",
    b"&#x0;",
    b"&#x110000;",
    b"&amp",
    b"\xff\xc3",
    b"<",
    b">",
    b"Index: a\n",
    b"@@ -1,18446744073709551615 +1 @@\n",
    b"+x\n-y\n",
];

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        6 => proptest::sample::select(&PARTS[..]).prop_map(<[u8]>::to_vec),
        1 => any::<Vec<u8>>(),
    ];
    proptest::collection::vec(part, 0..40).prop_map(|parts| parts.concat())
}

/// The same bytes in two reads give the same result.
fn read<R: Reader>(bytes: &[u8], cut: usize, mut reader: R) -> (bool, R) {
    let mut pieces = TagReader::default();
    let (first, second) = bytes.split_at(cut.min(bytes.len()));
    let mut is_read = true;
    for part in [first, second] {
        is_read = is_read && pieces.push(part, &mut |piece| reader.take(piece)).is_ok();
    }
    (is_read, reader)
}

proptest! {
    #[test]
    fn a_log_is_read_the_same_wherever_it_is_cut(bytes in bytes(), cut in 0_usize..2_000) {
        let whole = read(&bytes, 0, Log::new("u", "/trunk/"));
        let parts = read(&bytes, cut, Log::new("u", "/trunk/"));
        prop_assert_eq!(whole.0, parts.0);
        prop_assert_eq!(whole.1.into_revisions(), parts.1.into_revisions());
        read(&bytes, cut, Info::default());
    }

    #[test]
    fn a_diff_is_counted_the_same_wherever_it_is_cut(bytes in bytes(), cut in 0_usize..2_000) {
        let count = |parts: &[&[u8]]| {
            let mut stat = Stat::default();
            let mut lines: Vec<u8> = parts.iter().flat_map(|part| stat.push(part)).collect();
            lines.extend(stat.finish());
            lines
        };
        let (first, second) = bytes.split_at(cut.min(bytes.len()));
        prop_assert_eq!(count(&[&bytes]), count(&[first, second]));
    }

    #[test]
    fn errors_and_urls_are_refused_or_taken(bytes in bytes(), text in any::<String>()) {
        failure::of("r", &String::from_utf8_lossy(&bytes));
        for url in [text.clone(), format!("svn://{text}"), format!("file://{text}")] {
            if let Ok(checked) = url::checked(&url) {
                prop_assert_eq!(url::checked(&checked).unwrap(), checked.clone());
                url::host(&checked);
            }
        }
    }
}
