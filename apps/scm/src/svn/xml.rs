//! Parser for the XML of `svn`.
//!
//! It has elements, attributes and text, and escapes `<`, `>` and `&` outside of markup: so every
//! `>` ends a tag. Invalid UTF-8 is passed through by `svn`, which XML parsers reject; here it is
//! replaced and marked. Only the current tag and the text before it are held in memory.

use std::borrow::Cow;

use crate::derive;

/// Longer than any message written by hand; the rest is dropped.
const TEXT_BYTES_MAX: usize = 1 << 20;
/// Longer than any path.
const TAG_BYTES_MAX: usize = 256 << 10;

/// `&quot;`, `&#x10ffff;`.
const ESCAPE_BYTES_MAX: usize = 10;

/// A tag and the text before it. The text of an element comes with its end.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Tag {
    /// The text before the tag.
    pub(super) text: String,
    /// Whether bytes of the text were replaced.
    pub(super) is_lossy: bool,
    /// Whether the text was longer than it is.
    pub(super) is_cut: bool,
    /// The element's name.
    pub(super) name: String,
    /// Whether this is its end.
    pub(super) is_end: bool,
    /// Its attributes, unescaped.
    pub(super) attributes: Vec<(String, String)>,
}

impl Tag {
    /// An attribute.
    pub(super) fn attribute(&self, name: &str) -> Option<&str> {
        let found = self.attributes.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// Takes bytes, returns tags.
#[derive(Debug, Default)]
pub(super) struct TagReader {
    text: Vec<u8>,
    is_cut: bool,
    /// The bytes after a `<`.
    tag: Option<Vec<u8>>,
}

impl TagReader {
    /// Adds bytes and passes on every complete tag. Returns a message if the input is invalid.
    pub(super) fn push(
        &mut self,
        mut bytes: &[u8],
        on_tag: &mut impl FnMut(Tag) -> Result<(), String>,
    ) -> Result<(), String> {
        while !bytes.is_empty() {
            let wanted = if self.tag.is_some() { b'>' } else { b'<' };
            let found = bytes.iter().position(|&byte| byte == wanted);
            let (part, rest) = bytes.split_at(found.unwrap_or(bytes.len()));
            self.add(part)?;
            bytes = rest.get(1..).unwrap_or_default();
            if found.is_none() {
                break;
            }
            match self.tag.take() {
                None => self.tag = Some(Vec::new()),
                Some(tag) => self.end_tag(&tag, on_tag)?,
            }
        }
        Ok(())
    }

    /// Whether the output may end here.
    pub(super) fn is_between(&self) -> bool {
        self.tag.is_none()
    }

    fn add(&mut self, part: &[u8]) -> Result<(), String> {
        let Some(tag) = &mut self.tag else {
            let room = TEXT_BYTES_MAX - self.text.len();
            self.is_cut |= part.len() > room;
            self.text.extend_from_slice(&part[..part.len().min(room)]);
            return Ok(());
        };
        if tag.len() + part.len() > TAG_BYTES_MAX {
            return Err(format!("a tag has more than {TAG_BYTES_MAX} bytes"));
        }
        tag.extend_from_slice(part);
        Ok(())
    }

    fn end_tag(
        &mut self,
        tag: &[u8],
        on_tag: &mut impl FnMut(Tag) -> Result<(), String>,
    ) -> Result<(), String> {
        let is_cut = std::mem::take(&mut self.is_cut);
        let mut text = std::mem::take(&mut self.text);
        if is_cut {
            drop_half(&mut text);
        }
        let (text, is_lossy) = derive::text(&text);
        let tag = String::from_utf8_lossy(tag);
        if tag.starts_with(['?', '!']) {
            return Ok(());
        }
        let (tag, is_end) = match tag.strip_prefix('/') {
            Some(tag) => (tag, true),
            None => (tag.as_ref(), false),
        };
        let (tag, is_empty) = match tag.strip_suffix('/') {
            Some(tag) => (tag, true),
            None => (tag, false),
        };
        let (name, attributes) = tag.split_once(char::is_whitespace).unwrap_or((tag, ""));
        if name.is_empty() {
            return Err("a tag has no name".into());
        }
        on_tag(Tag {
            text: unescaped(&text).into_owned(),
            is_lossy,
            is_cut,
            name: name.to_owned(),
            is_end,
            attributes: read_attributes(attributes)?,
        })?;
        if !is_empty {
            return Ok(());
        }
        on_tag(Tag {
            text: String::new(),
            is_lossy: false,
            is_cut: false,
            name: name.to_owned(),
            is_end: true,
            attributes: Vec::new(),
        })
    }
}

/// Drops a character that was cut in its middle: `\xc3`, `&am`.
fn drop_half(text: &mut Vec<u8>) {
    if let Some(chunk) = text.utf8_chunks().last()
        && !chunk.invalid().is_empty()
        && std::str::from_utf8(chunk.invalid()).is_err_and(|error| error.error_len().is_none())
    {
        text.truncate(text.len() - chunk.invalid().len());
    }
    let tail = text.len().saturating_sub(ESCAPE_BYTES_MAX);
    let escape = text[tail..].iter().rposition(|byte| *byte == b'&');
    if let Some(at) = escape.filter(|at| !text[tail + at..].contains(&b';')) {
        text.truncate(tail + at);
    }
}

fn read_attributes(mut rest: &str) -> Result<Vec<(String, String)>, String> {
    let mut attributes = Vec::new();
    loop {
        rest = rest.trim_start();
        if rest.is_empty() {
            return Ok(attributes);
        }
        let quoted = rest.split_once('=').and_then(|(name, value)| {
            let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''))?;
            let (value, rest) = value[1..].split_once(quote)?;
            Some((name.trim(), value, rest))
        });
        let Some((name, value, after)) = quoted else {
            return Err(format!("malformed attributes: {rest:?}"));
        };
        attributes.push((name.to_owned(), unescaped(value).into_owned()));
        rest = after;
    }
}

fn unescaped(text: &str) -> Cow<'_, str> {
    if !text.contains('&') {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        plain.push_str(&rest[..at]);
        rest = &rest[at..];
        let named = rest[1..].split_once(';');
        match named.and_then(|(name, after)| Some((character(name)?, after))) {
            Some((character, after)) => {
                plain.push(character);
                rest = after;
            }
            None => {
                plain.push('&');
                rest = &rest[1..];
            }
        }
    }
    plain.push_str(rest);
    Cow::Owned(plain)
}

fn character(name: &str) -> Option<char> {
    let number = match name {
        "lt" => return Some('<'),
        "gt" => return Some('>'),
        "amp" => return Some('&'),
        "quot" => return Some('"'),
        "apos" => return Some('\''),
        _ => name.strip_prefix('#')?,
    };
    let code = match number.strip_prefix(['x', 'X']) {
        Some(hex) => u32::from_str_radix(hex, 16),
        None => number.parse(),
    };
    char::from_u32(code.ok()?).filter(|c| *c != '\0')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(chunks: &[&[u8]]) -> Result<Vec<Tag>, String> {
        let (mut reader, mut found) = (TagReader::default(), Vec::new());
        for chunk in chunks {
            reader.push(chunk, &mut |piece| {
                found.push(piece);
                Ok(())
            })?;
        }
        assert!(reader.is_between());
        Ok(found)
    }

    #[test]
    fn the_cuts_between_reads_do_not_matter() {
        let xml = b"<?xml version=\"1.0\"?>\n<log>\n<path\n   kind=\"file\"\n   action='A'>/a&lt;b \xc3\xa9</path>\n<msg></msg><none/></log>";
        let whole = pieces(&[xml]).unwrap();
        assert_eq!(whole.len(), 8);
        assert_eq!(whole[1].attribute("kind"), Some("file"));
        assert_eq!(whole[1].attribute("action"), Some("A"));
        assert_eq!(
            (whole[2].text.as_str(), whole[2].is_lossy),
            ("/a<b é", false)
        );
        assert!(whole[2].is_end && whole[2].name == "path");
        assert!(!whole[5].is_end && whole[6].is_end && whole[6].name == "none");
        for cut in 0..xml.len() {
            assert_eq!(pieces(&[&xml[..cut], &xml[cut..]]).unwrap(), whole, "{cut}");
        }
    }

    #[test]
    fn texts_are_unescaped_and_made_readable() {
        let table: [(&[u8], &str, bool); 8] = [
            (b"a &amp;lt; b", "a &lt; b", false),
            (b"&lt;&gt;&quot;&apos;&#13;&#x41;", "<>\"'\rA", false),
            (
                b"a & b &unknown; &#xD800; &#0;",
                "a & b &unknown; &#xD800; &#0;",
                false,
            ),
            (b"bad \xff\xfe utf8", "bad \u{fffd}\u{fffd} utf8", true),
            (b"nul \0", "nul \u{fffd}", true),
            (b"?\\001 as svn writes it", "?\\001 as svn writes it", false),
            ("\u{fffd} was there".as_bytes(), "\u{fffd} was there", false),
            (b"", "", false),
        ];
        for (text, expected, is_lossy) in table {
            let xml = [b"<m>", text, b"</m>"].concat();
            let found = pieces(&[&xml]).unwrap();
            assert_eq!(
                (found[1].text.as_str(), found[1].is_lossy),
                (expected, is_lossy)
            );
        }
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        for (cut, left) in [("é", 1), ("\u{1f600}", 3), ("&lt;", 3), ("&amp;", 1)] {
            let begin = TEXT_BYTES_MAX - left;
            let text = ["a".repeat(begin).as_str(), cut, "more"].concat();
            let found = pieces(&[b"<m>", text.as_bytes(), b"</m>"]).unwrap();
            assert_eq!(found[1].text, "a".repeat(begin), "{cut}");
            assert!(found[1].is_cut && !found[1].is_lossy, "{cut}");
        }
    }

    #[test]
    fn what_has_no_end_does_not_fill_the_memory() {
        let long = vec![b'a'; TEXT_BYTES_MAX + 10];
        let found = pieces(&[b"<m>", &long, &long, b"</m><n>x</n>"]).unwrap();
        assert_eq!(found[1].text.len(), TEXT_BYTES_MAX);
        assert!(found[1].is_cut && !found[1].is_lossy && !found[3].is_cut);
        let refused = TagReader::default().push(&[b"<", long.as_slice()].concat(), &mut |_| Ok(()));
        assert!(refused.is_err());
        for bad in [&b"<>"[..], b"<a b>", b"<a b=c>", b"<a b=\"c>"] {
            assert!(pieces(&[bad]).is_err());
        }
    }
}
