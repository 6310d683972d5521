//! Detects diffs and logs.

/// Log levels at the start of a line. The reference accepts any word in capitals and so treats
/// every line with `NOTE: ` as a log; such words are not listed here.
const LEVELS: [&str; 12] = [
    "TRACE", "DEBUG", "INFO", "NOTICE", "WARN", "WARNING", "ERROR", "SEVERE", "CRITICAL", "FATAL",
    "ALERT", "PANIC",
];

/// Content that is not a memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentKind {
    /// A unified diff.
    Diff,
    /// Output of a program.
    Log,
}

impl ContentKind {
    /// The name in pointers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Diff => "diff",
            Self::Log => "log",
        }
    }

    /// The replacement text.
    pub(super) fn pointer(self, sha256: &str) -> String {
        let kind = self.as_str();
        format!("[{kind} left out]\n- uri: memory://local/content\n- sha256: {sha256}")
    }
}

/// The kind of a text that is not a memory: one matching line is enough.
pub fn content_kind(text: &str) -> Option<ContentKind> {
    if text.lines().any(is_of_diff) {
        return Some(ContentKind::Diff);
    }
    text.lines().any(is_of_log).then_some(ContentKind::Log)
}

fn is_of_diff(line: &str) -> bool {
    let beginnings = ["--- ", "+++ ", "@@ ", "diff --git", "Index: "];
    beginnings
        .iter()
        .any(|beginning| line.starts_with(beginning))
}

fn is_of_log(line: &str) -> bool {
    let is_level = |word: &str| LEVELS.contains(&word);
    if let Some(inside) = line.strip_prefix('[') {
        let word = inside.split(']').next().unwrap_or_default();
        return is_shaped(inside, "dddd-dd-dd") || is_level(word);
    }
    let level = line.split_once(": ").map(|(word, _)| word);
    is_shaped(line, "dddd-dd-ddTdd:dd") || level.is_some_and(is_level)
}

/// Whether a text begins in this shape, `d` being a digit.
fn is_shaped(text: &str, shape: &str) -> bool {
    let fits = |(expected, byte): (u8, u8)| match expected {
        b'd' => byte.is_ascii_digit(),
        _ => byte == expected,
    };
    text.len() >= shape.len() && shape.bytes().zip(text.bytes()).all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distinguishes_diffs_and_logs_from_memories() {
        let diffs = [
            "--- a/x.c",
            "+++ b/x.c",
            "@@ -1,2 +1,3 @@",
            "diff --git a/x b/x",
            "Index: trunk/x",
            "as follows:\n--- a/x.c",
        ];
        let logs = [
            "[2026-01-30 10:00:00] started",
            "2026-01-30T10:00:00Z started",
            "ERROR: it broke",
            "[INFO] started",
            "[WARNING] slow",
            "it said\nFATAL: no more memory",
        ];
        let memories = [
            // The reference takes these for logs.
            "NOTE: never press twice",
            "TODO: press once",
            "API: returns a list",
            "----",
            "---",
            "++i",
            "@mention",
            "[Info] as a heading",
            "[2026] was a good year",
            "2026-01-30 was a Friday",
            "An ERROR: in the middle",
            "",
        ];
        let check = |texts: &[&str], kind| {
            for text in texts {
                assert_eq!(content_kind(text), kind, "{text:?}");
            }
        };
        check(&diffs, Some(ContentKind::Diff));
        check(&logs, Some(ContentKind::Log));
        check(&memories, None);
    }
}
