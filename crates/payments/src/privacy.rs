//! What may be shown of what a rail says: bounded, in one line, without account numbers, addresses
//! and tokens.

/// Longest message of an error that is kept, in characters.
const SHOWN_CHARS_MAX: usize = 500;
/// As many digits in a row may be a year, a code or an amount; more are an account's or a card's.
const DIGITS_MAX: usize = 7;
/// Words after which a secret stands.
const SECRET_WORDS: [&str; 5] = ["bearer", "token", "password", "secret", "authorization"];

/// `text` as it may be kept and logged.
pub fn shown(text: &str) -> String {
    let mut words = Vec::new();
    let mut is_secret = false;
    for word in text.split_whitespace() {
        let bare = word.trim_end_matches([':', '=']).to_ascii_lowercase();
        let names_secret = SECRET_WORDS.iter().any(|secret| bare.ends_with(secret));
        words.push(if is_secret && !names_secret {
            "***".to_owned()
        } else {
            masked(word)
        });
        is_secret = names_secret;
    }
    let line = words.join(" ");
    let line = line.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut line: String = line.take(SHOWN_CHARS_MAX + 1).collect();
    if line.chars().count() > SHOWN_CHARS_MAX {
        line = line.chars().take(SHOWN_CHARS_MAX - 1).collect();
        line.push('…');
    }
    line
}

fn masked(word: &str) -> String {
    let lower = word.to_ascii_lowercase();
    let assigned = word.find(['=', ':']).filter(|place| {
        let name = &lower[..*place];
        SECRET_WORDS.iter().any(|secret| name.ends_with(secret))
    });
    if let Some(place) = assigned
        && place + 1 < word.len()
    {
        return format!("{}***", &word[..=place]);
    }
    if let Some(at) = word.find('@') {
        return format!("***{}", &word[at..]);
    }
    digits_masked(word)
}

/// Long runs of digits (grouped by spaces they would be several words) keep their last four.
fn digits_masked(word: &str) -> String {
    let characters: Vec<char> = word.chars().collect();
    let mut shown = String::with_capacity(word.len());
    let mut index = 0;
    while index < characters.len() {
        let run = characters[index..].iter();
        let length = run.take_while(|c| c.is_ascii_digit() || **c == '-').count();
        let run = &characters[index..index + length];
        let digits = run.iter().filter(|c| c.is_ascii_digit()).count();
        if digits > DIGITS_MAX {
            shown.push_str("***");
            shown.extend(&run[length - 4..]);
        } else {
            shown.extend(run);
        }
        index += length;
        if let Some(other) = characters.get(index) {
            shown.push(*other);
            index += 1;
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    /// P-22: bounded and masked.
    #[test]
    fn what_could_name_somebody_is_masked() {
        for (text, expected) in [
            ("no such account 260971234567", "no such account ***4567"),
            ("card 4111-1111-1111-1111 refused", "card ***1111 refused"),
            ("code 1234567 on 2026-11", "code 1234567 on 2026-11"),
            ("write to ada@example.org", "write to ***@example.org"),
            ("Authorization: Bearer abc.def", "Authorization: Bearer ***"),
            ("token=abc&x=1", "token=***"),
            ("password hunter2 wrong", "password *** wrong"),
            ("two\nlines\tand\u{7}bell", "two lines and bell"),
            ("", ""),
        ] {
            assert_eq!(shown(text), expected);
        }
    }

    #[test]
    fn long_texts_are_cut_at_a_character() {
        let cut = shown(&"ä".repeat(10_000));
        assert_eq!(cut.chars().count(), SHOWN_CHARS_MAX);
        assert!(cut.ends_with('…'));
        assert_eq!(shown(&"x".repeat(SHOWN_CHARS_MAX)).len(), SHOWN_CHARS_MAX);
    }
}
