//! "Did you mean": the nearest known name to a mistyped one.

/// The candidate closest to `word`, if it is close enough to be worth suggesting.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let close_enough = (word.chars().count() / 3).max(1) + 1;
    candidates
        .into_iter()
        .map(|candidate| (edits(word, candidate), candidate))
        .filter(|(distance, _)| *distance <= close_enough)
        .min()
        .map(|(_, candidate)| candidate)
}

/// Levenshtein distance, one row at a time.
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let substitute = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = substitute.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typo_finds_its_word_and_a_stranger_finds_none() {
        let queues = ["emails", "invoices", "parcels"];
        assert_eq!(nearest("emials", queues), Some("emails"));
        assert_eq!(nearest("parcel", queues), Some("parcels"));
        assert_eq!(nearest("webhooks", queues), None);
        assert_eq!(nearest("", []), None);
    }
}
