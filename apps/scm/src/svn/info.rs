//! Parser for `svn info --xml`.

use super::{program::Reader, xml::Tag};

/// A folder of a repository.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Info {
    /// The newest revision of the repository.
    pub(super) head: i64,
    /// Identity of the repository.
    pub(super) uuid: String,
    /// The folder within the repository: `/trunk`, `/`.
    pub(super) folder: String,
}

impl Reader for Info {
    fn take(&mut self, piece: Tag) -> Result<(), String> {
        match (piece.name.as_str(), piece.is_end) {
            ("entry", false) => {
                let number = piece.attribute("revision").unwrap_or_default();
                self.head = number.parse().map_err(|_| format!("revision {number:?}"))?;
            }
            ("uuid", true) => self.uuid = piece.text,
            ("relative-url", true) => self.folder = decoded(piece.text.trim_start_matches('^')),
            _ => {}
        }
        Ok(())
    }
}

/// A part of a URL as the log has it: without `%20`.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let hex = after.get(..2).filter(|_| *first == b'%');
        let hex = hex.and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::{super::xml::TagReader, *};

    #[test]
    fn a_repository_is_read() {
        let xml = "<info><entry path=\"trunk\" revision=\"7\" kind=\"dir\">\
            <url>file:///r/trunk</url><relative-url>^/b%C3%A9%20%25</relative-url>\
            <repository><root>file:///r</root><uuid>89af</uuid></repository>\
            <commit revision=\"6\"><author>x</author></commit></entry></info>";
        let mut info = Info::default();
        let read = TagReader::default().push(xml.as_bytes(), &mut |piece| info.take(piece));
        read.unwrap();
        let expected = Info {
            head: 7,
            uuid: "89af".into(),
            folder: "/bé %".into(),
        };
        assert_eq!(info, expected);
    }
}
