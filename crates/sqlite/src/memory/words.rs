//! Words as they are searched for.

/// Words of a query that are looked for; the rest adds nothing but work.
const WORDS_MAX: usize = 64;

/// The text with every character of a script that is written without spaces by itself; none if
/// there is no such character, and the text is searched as it is.
pub(super) fn apart(text: &str) -> Option<String> {
    if !text.contains(is_unspaced) {
        return None;
    }
    let mut apart = String::with_capacity(text.len() * 2);
    for c in text.chars() {
        if is_unspaced(c) {
            apart.extend([' ', c, ' ']);
        } else {
            apart.push(c);
        }
    }
    Some(apart)
}

/// The words of a query in the language of FTS5, each in quotes, where nothing is an operator. What
/// is taken apart within a word is a phrase.
pub(super) fn words(query: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in query.split(|c: char| !(c.is_alphanumeric() || is_unspaced(c))) {
        let word = word.to_lowercase();
        let quoted = format!("\"{}\"", apart(&word).unwrap_or(word.clone()).trim());
        if !word.is_empty() && words.len() < WORDS_MAX && !words.contains(&quoted) {
            words.push(quoted);
        }
    }
    words
}

/// Thai, Lao, Khmer, CJK and its radicals, kana, hangul.
fn is_unspaced(c: char) -> bool {
    matches!(c, '\u{0E00}'..='\u{0EFF}' | '\u{1780}'..='\u{17FF}' | '\u{2E80}'..='\u{2FDF}'
        | '\u{3005}'..='\u{3007}' | '\u{3021}'..='\u{302F}' | '\u{3031}'..='\u{9FFF}'
        | '\u{AC00}'..='\u{D7AF}' | '\u{F900}'..='\u{FAFF}' | '\u{20000}'..='\u{3FFFF}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_query_is_an_operator() {
        for (query, expected) in [
            ("", &[][..]),
            (" \t\0", &[]),
            ("* - ( ) \" _ %", &[]),
            ("Lease lease", &["\"lease\""]),
            (
                "a AND b* NEAR(c)",
                &["\"a\"", "\"and\"", "\"b\"", "\"near\"", "\"c\""],
            ),
            ("say \"no\"", &["\"say\"", "\"no\""]),
            ("title:x", &["\"title\"", "\"x\""]),
            ("租约 过期x", &["\"租  约\"", "\"过  期 x\""]),
        ] {
            assert_eq!(words(query), expected, "{query:?}");
        }
        let many: Vec<String> = (0..100).map(|n| format!("w{n}")).collect();
        assert_eq!(words(&many.join(" ")).len(), WORDS_MAX);
    }

    #[test]
    fn scripts_without_spaces_are_taken_apart() {
        assert_eq!(apart("plain text"), None);
        assert_eq!(apart("a租约b").as_deref(), Some("a 租  约 b"));
    }
}
