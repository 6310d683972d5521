//! Counts the lines of a unified diff by its hunk headers, so that content that looks like a header
//! is counted as content.

/// Counts added and deleted lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hunks {
    /// Lines that were added.
    pub(crate) added: u64,
    /// Lines that were deleted.
    pub(crate) deleted: u64,
    /// Remaining lines of the current hunk, of the old and the new file.
    awaited: (u64, u64),
}

impl Hunks {
    /// Takes a line without its end; its first bytes are enough. Returns whether it belongs to a
    /// hunk.
    pub(crate) fn take(&mut self, line: &[u8]) -> bool {
        if self.awaited == (0, 0) {
            let Some(awaited) = announced(line) else {
                return false;
            };
            self.awaited = awaited;
            return true;
        }
        let (of_old, of_new) = match line.first() {
            Some(b'+') => (0, 1),
            Some(b'-') => (1, 0),
            // "\ No newline at end of file"
            Some(b'\\') => (0, 0),
            _ => (1, 1),
        };
        let (old, new) = &mut self.awaited;
        *old = old.saturating_sub(of_old);
        *new = new.saturating_sub(of_new);
        self.added += u64::from(of_new > of_old);
        self.deleted += u64::from(of_old > of_new);
        true
    }
}

/// `@@ -1,3 +1 @@`: three lines of the old file, one of the new.
fn announced(line: &[u8]) -> Option<(u64, u64)> {
    let line = line.strip_prefix(b"@@ ")?;
    let mut words = line.split(|byte| *byte == b' ');
    let mut count = |sign: u8| {
        let range = words.next()?.strip_prefix(&[sign])?;
        match std::str::from_utf8(range).ok()?.split_once(',') {
            Some((_, count)) => count.parse().ok(),
            None => Some(1),
        }
    };
    Some((count(b'-')?, count(b'+')?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted() {
        let table: [(&str, u64, u64); 6] = [
            (
                "@@ -1,2 +1,2 @@ fn x\n a\n-b\n+c\n\\ No newline at end of file",
                1,
                1,
            ),
            ("@@ -0,0 +1 @@\n+@@ -1 +1 @@", 1, 0),
            ("@@ -1,2 +0,0 @@\n--- a\n-+++ b", 0, 2),
            ("--- a\n+++ b\n@@ -1 +1 @@\n-x\n+y\n+behind", 1, 1),
            ("@@ nonsense\n+x", 0, 0),
            ("", 0, 0),
        ];
        for (diff, added, deleted) in table {
            let mut hunks = Hunks::default();
            for line in diff.split('\n') {
                hunks.take(line.as_bytes());
            }
            assert_eq!((hunks.added, hunks.deleted), (added, deleted), "{diff}");
        }
    }
}
