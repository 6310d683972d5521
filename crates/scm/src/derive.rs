//! What is derived from a record in the same way whatever it comes from (facts 1.8).

/// More lines than this make a commit one of many.
const BULK_LINES: u64 = 1000;
/// How many paths of a record are written down.
pub(crate) const PATHS_MAX: usize = 50;

/// Why a commit counts as one of many, if it does.
pub(crate) fn bulk_reason_of_lines(additions: u64, deletions: u64) -> Option<String> {
    let lines = additions.saturating_add(deletions);
    (lines > BULK_LINES).then(|| format!("large_diff:{lines}"))
}

/// Bytes as text that databases take, and whether something had to be replaced for it: what is no
/// UTF-8, and U+0000.
pub(crate) fn text(bytes: &[u8]) -> (String, bool) {
    let mut text = String::with_capacity(bytes.len());
    let mut is_lossy = false;
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        if !chunk.invalid().is_empty() {
            text.push(char::REPLACEMENT_CHARACTER);
            is_lossy = true;
        }
    }
    if text.contains('\0') {
        text = text.replace('\0', "\u{fffd}");
        is_lossy = true;
    }
    (text, is_lossy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_text_is_replaced_and_said() {
        let table: [(&[u8], &str, bool); 5] = [
            (b"plain", "plain", false),
            ("Gr\u{fc}n".as_bytes(), "Gr\u{fc}n", false),
            (b"Gr\xfcn", "Gr\u{fffd}n", true),
            (b"a\0b", "a\u{fffd}b", true),
            (b"", "", false),
        ];
        for (bytes, expected, is_lossy) in table {
            assert_eq!(text(bytes), (expected.to_owned(), is_lossy), "{bytes:?}");
        }
    }

    /// Facts 1.8: additions and deletions together, more than a thousand.
    #[test]
    fn many_lines_make_one_of_many() {
        assert_eq!(bulk_reason_of_lines(600, 400), None);
        let reason = bulk_reason_of_lines(600, 401);
        assert_eq!(reason.as_deref(), Some("large_diff:1001"));
    }
}
