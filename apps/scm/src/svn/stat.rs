//! Line counts of a unified diff, read line by line.

use crate::hunks::Hunks;

/// Only the beginnings of lines and file names matter.
const LINE_BYTES_MAX: usize = 8 << 10;

/// Counts the lines of `svn diff` output.
#[derive(Debug, Default)]
pub(super) struct Stat {
    line: Vec<u8>,
    file: Option<File>,
}

#[derive(Debug)]
struct File {
    path: Vec<u8>,
    hunks: Hunks,
    is_binary: bool,
}

impl Stat {
    /// Adds a piece of the diff; returns the completed files, one per line: lines added, lines
    /// deleted, path.
    pub(super) fn push(&mut self, mut bytes: &[u8]) -> Vec<u8> {
        let mut lines = Vec::new();
        while !bytes.is_empty() {
            let ends = bytes.iter().position(|&byte| byte == b'\n');
            let (part, rest) = bytes.split_at(ends.unwrap_or(bytes.len()));
            let room = LINE_BYTES_MAX - self.line.len();
            self.line.extend_from_slice(&part[..part.len().min(room)]);
            bytes = rest.get(1..).unwrap_or_default();
            if ends.is_some() {
                self.end_line(&mut lines);
            }
        }
        lines
    }

    /// The rest.
    pub(super) fn finish(mut self) -> Vec<u8> {
        let mut lines = Vec::new();
        self.end_line(&mut lines);
        self.end_file(&mut lines);
        lines
    }

    fn end_line(&mut self, lines: &mut Vec<u8>) {
        let line = std::mem::take(&mut self.line);
        if let Some(file) = &mut self.file
            && file.hunks.take(&line)
        {
            return;
        }
        if let Some(path) = line.strip_prefix(b"Index: ") {
            self.end_file(lines);
            let path = path.strip_suffix(b"\r").unwrap_or(path).to_vec();
            self.file = Some(File {
                path,
                hunks: Hunks::default(),
                is_binary: false,
            });
        } else if line.starts_with(b"Cannot display: file marked as a binary type")
            && let Some(file) = &mut self.file
        {
            file.is_binary = true;
        }
    }

    fn end_file(&mut self, lines: &mut Vec<u8>) {
        let Some(file) = self.file.take() else {
            return;
        };
        let numbers = if file.is_binary {
            "-\t-\t".to_owned()
        } else {
            format!("{}\t{}\t", file.hunks.added, file.hunks.deleted)
        };
        lines.extend_from_slice(numbers.as_bytes());
        lines.extend_from_slice(&file.path);
        lines.push(b'\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIFF: &str = "Index: trunk/a b.txt\n\
        ===================================================================\n\
        --- trunk/a b.txt\t(revision 1)\n\
        +++ trunk/a b.txt\t(revision 2)\n\
        @@ -1,3 +1,3 @@\n one\n--- trunk\n+++ b\n+@@ -9 +9 @@\n three\n\\ No newline at end of file\n\
        @@ -9 +9,0 @@\n-Index: no\n\
        Index: trunk/bin\n\
        ===================================================================\n\
        Cannot display: file marked as a binary type.\n\
        svn:mime-type = application/octet-stream\n\
        \n\
        Property changes on: trunk/bin\n\
        ___________________________________________________________________\n\
        Added: note\n## -0,0 +1,2 ##\n+Index: no file\n+x\n\
        Index: .\n\
        Property changes on: .\n## -0,0 +1 ##\n+x\n";

    #[test]
    fn lines_are_counted_wherever_the_pieces_end() {
        let expected = "2\t2\ttrunk/a b.txt\n-\t-\ttrunk/bin\n0\t0\t.\n";
        for cut in 0..DIFF.len() {
            let mut stat = Stat::default();
            let mut lines = stat.push(&DIFF.as_bytes()[..cut]);
            lines.extend(stat.push(&DIFF.as_bytes()[cut..]));
            lines.extend(stat.finish());
            assert_eq!(String::from_utf8(lines).unwrap(), expected, "{cut}");
        }
    }

    #[test]
    fn nothing_is_nothing() {
        assert_eq!(Stat::default().finish(), b"");
        let mut stat = Stat::default();
        let long = vec![b'x'; 3 * LINE_BYTES_MAX];
        assert_eq!(stat.push(&long), b"");
        assert!(stat.line.len() <= LINE_BYTES_MAX);
    }
}
