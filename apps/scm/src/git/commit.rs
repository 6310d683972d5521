//! Parser for commit objects.

use jiff::Timestamp;

use crate::derive;

/// Fields of a commit object.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Commit {
    pub(super) parents: Vec<String>,
    /// `Name <email>`.
    pub(super) author: String,
    /// Commit time; otherwise the author time.
    pub(super) ts: Option<Timestamp>,
    pub(super) message: String,
    /// Whether something was replaced.
    pub(super) is_lossy: bool,
}

impl Commit {
    /// Parses an object. Never fails: repositories contain malformed commits.
    pub(super) fn parse(object: &[u8]) -> Self {
        let (headers, message) = match object.windows(2).position(|pair| pair == b"\n\n") {
            Some(end) => (&object[..end], &object[end + 2..]),
            None => (object, &object[object.len()..]),
        };
        let mut parents = Vec::new();
        let (mut author, mut committer, mut is_latin_1) = (&b""[..], &b""[..], false);
        // Lines that begin with a blank continue the header before: signatures, tags of merged
        // commits.
        for line in headers.split(|byte| *byte == b'\n') {
            let name_ends = line.iter().position(|byte| *byte == b' ');
            let (name, value) = line.split_at(name_ends.unwrap_or(line.len()));
            let value = value.get(1..).unwrap_or_default();
            match name {
                b"parent" => parents.push(String::from_utf8_lossy(value).into_owned()),
                b"author" => author = value,
                b"committer" => committer = value,
                b"encoding" => is_latin_1 = is_latin_1_name(value),
                _ => {}
            }
        }
        let decode = |bytes: &[u8]| {
            if is_latin_1 && std::str::from_utf8(bytes).is_err() {
                let text: String = bytes.iter().map(|byte| char::from(*byte)).collect();
                derive::text(text.as_bytes())
            } else {
                derive::text(bytes)
            }
        };
        let (who, written) = person(author);
        let (_, committed) = person(committer);
        let ((author, is_author_lossy), (message, is_message_lossy)) =
            (decode(who), decode(message));
        Self {
            parents,
            author,
            ts: committed.or(written),
            message,
            is_lossy: is_author_lossy || is_message_lossy,
        }
    }
}

fn is_latin_1_name(encoding: &[u8]) -> bool {
    let names: [&[u8]; 3] = [b"ISO-8859-1", b"ISO8859-1", b"latin1"];
    names.iter().any(|name| encoding.eq_ignore_ascii_case(name))
}

/// `Name <email> 1700000000 +0100`: name and time. An invalid time is `None`.
fn person(line: &[u8]) -> (&[u8], Option<Timestamp>) {
    let Some(end) = line.iter().rposition(|byte| *byte == b'>') else {
        return (line, None);
    };
    let (who, when) = line.split_at(end + 1);
    let seconds = std::str::from_utf8(when).ok();
    let seconds = seconds.and_then(|when| when.split_ascii_whitespace().next()?.parse().ok());
    let time = seconds.and_then(|seconds| Timestamp::from_second(seconds).ok());
    (who, time.and_then(derive::time))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message_of(object: &str) -> Commit {
        Commit::parse(object.as_bytes())
    }

    #[test]
    fn a_plain_commit() {
        let commit = message_of(
            "tree 1\nparent aa\nparent bb\nauthor A U <a@u> 1700000000 +0100\n\
             committer C <c@c> 1700000100 +0100\ngpgsig -----BEGIN\n parent no\n \n -----END\n\nOne\n\ntwo\n",
        );
        assert_eq!(commit.parents, ["aa", "bb"]);
        assert_eq!(commit.author, "A U <a@u>");
        assert_eq!(commit.ts, Timestamp::from_second(1_700_000_100).ok());
        assert_eq!(commit.message, "One\n\ntwo\n");
        assert!(!commit.is_lossy);
    }

    #[test]
    fn times_that_make_no_sense_are_none() {
        let when = |author: &str, committer: &str| {
            message_of(&format!(
                "author A <a> {author}\ncommitter C <c> {committer}\n\nx"
            ))
            .ts
        };
        let some = Timestamp::from_second(5).ok();
        assert_eq!(when("5 +0000", "99999999999999999999 +0000"), some);
        assert_eq!(when("5 +0000", "999999999999999 +0000"), some);
        assert_eq!(when("5 +0000", ""), some);
        assert_eq!(when("5 +0000", "-377000000000 +0000"), some, "10 000 BC");
        assert_eq!(when("-220000000000 +0000", ""), None, "before 4713 BC");
        assert_eq!(when("x", "-5 +0000"), Timestamp::from_second(-5).ok());
        assert_eq!(when("", ""), None);
    }

    #[test]
    fn nothing_makes_it_fail() {
        for object in [
            "",
            "\n",
            "\n\n",
            "author",
            "author \n",
            "tree",
            "author a\n\n",
            "parent",
        ] {
            message_of(object);
        }
        assert_eq!(message_of("author nobody\n\nx").author, "nobody");
        assert_eq!(message_of("author A <a> 1 +0000").message, "");
    }

    /// A commit with invalid UTF-8 has a defined result.
    #[test]
    fn invalid_utf_8_is_replaced_or_decoded_by_its_encoding() {
        let lossy = Commit::parse(b"author J\xfcrg <j> 1 +0000\n\nGr\xfcn\0");
        assert_eq!(lossy.author, "J\u{fffd}rg <j>");
        assert_eq!(lossy.message, "Gr\u{fffd}n\u{fffd}");
        assert!(lossy.is_lossy);
        let decoded = Commit::parse(b"author J\xfcrg <j> 1 +0000\nencoding ISO-8859-1\n\nGr\xfcn");
        assert_eq!(decoded.author, "J\u{fc}rg <j>");
        assert_eq!(decoded.message, "Gr\u{fc}n");
        assert!(!decoded.is_lossy);
    }
}
