//! The one text of a JSON document: names sorted, no white space, numbers written out.
//!
//! One pass over the given text, without building values: what it costs is bounded by the text's
//! length, and what it writes by `bytes_max`.

use std::ops::Range;

use super::{
    error::{Fault, FaultAt},
    number::Number,
};
use crate::PAYLOAD_DEPTH_MAX;

/// The canonical text of the document `text`.
pub(super) fn canonical(text: &str, bytes_max: usize) -> Result<String, FaultAt> {
    let mut reader = Reader {
        text,
        at: 0,
        depth: 0,
        // As long as it came, as a rule.
        out: String::with_capacity(text.len().min(bytes_max)),
        bytes_max,
    };
    reader.value()?;
    reader.skip_space();
    if reader.at < text.len() {
        return Err(Fault::Syntax.into());
    }
    Ok(reader.out)
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
    out: String,
    bytes_max: usize,
}

/// A member that has been written: where its name and the whole of it are.
struct Member {
    name: Range<usize>,
    whole: Range<usize>,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    /// The next byte after white space, which is taken.
    fn next_token(&mut self) -> Option<u8> {
        self.skip_space();
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    fn push(&mut self, text: &str) -> Result<(), Fault> {
        if self.out.len() + text.len() > self.bytes_max {
            return Err(Fault::TooLong(self.bytes_max));
        }
        self.out.push_str(text);
        Ok(())
    }

    fn value(&mut self) -> Result<(), FaultAt> {
        self.skip_space();
        match self.peek() {
            Some(b'{') => self.nested(Self::object),
            Some(b'[') => self.nested(Self::list),
            Some(b'"') => Ok(self.string()?),
            Some(b'-' | b'0'..=b'9') => Ok(self.number()?),
            Some(b't') => Ok(self.word("true")?),
            Some(b'f') => Ok(self.word("false")?),
            Some(b'n') => Ok(self.word("null")?),
            _ => Err(Fault::Syntax.into()),
        }
    }

    fn nested(&mut self, read: impl Fn(&mut Self) -> Result<(), FaultAt>) -> Result<(), FaultAt> {
        if self.depth == PAYLOAD_DEPTH_MAX {
            return Err(Fault::TooDeep.into());
        }
        self.depth += 1;
        self.at += 1;
        read(self)?;
        self.depth -= 1;
        Ok(())
    }

    fn list(&mut self) -> Result<(), FaultAt> {
        self.push("[")?;
        self.skip_space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(self.push("]")?);
        }
        for index in 0.. {
            self.value().map_err(|fault| fault.in_element(index))?;
            match self.next_token() {
                Some(b',') => self.push(",")?,
                Some(b']') => return Ok(self.push("]")?),
                _ => return Err(Fault::Syntax.into()),
            }
        }
        Ok(())
    }

    fn object(&mut self) -> Result<(), FaultAt> {
        self.push("{")?;
        let begin = self.out.len();
        self.skip_space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(self.push("}")?);
        }
        let mut members = Vec::new();
        loop {
            members.push(self.member()?);
            match self.next_token() {
                Some(b',') => self.push(",")?,
                Some(b'}') => break,
                _ => return Err(Fault::Syntax.into()),
            }
        }
        self.sort(begin, members)?;
        Ok(self.push("}")?)
    }

    fn member(&mut self) -> Result<Member, FaultAt> {
        self.skip_space();
        let begin = self.out.len();
        if self.peek() != Some(b'"') {
            return Err(Fault::Syntax.into());
        }
        self.string()?;
        let name = begin + 1..self.out.len() - 1;
        if self.next_token() != Some(b':') {
            return Err(Fault::Syntax.into());
        }
        self.push(":")?;
        if let Err(fault) = self.value() {
            return Err(fault.in_member(&self.out[name]));
        }
        let whole = begin..self.out.len();
        Ok(Member { name, whole })
    }

    /// Puts the members of the object that begins at `begin` in the order of their names.
    fn sort(&mut self, begin: usize, mut members: Vec<Member>) -> Result<(), FaultAt> {
        let out = &self.out;
        let name = |member: &Member| &out[member.name.clone()];
        if members.is_sorted_by(|a, b| name(a) < name(b)) {
            return Ok(());
        }
        members.sort_by(|a, b| name(a).cmp(name(b)));
        for pair in members.windows(2) {
            if name(&pair[0]) == name(&pair[1]) {
                return Err(FaultAt::from(Fault::DuplicateName).in_member(name(&pair[0])));
            }
        }
        let mut sorted = String::with_capacity(out.len() - begin);
        for (index, member) in members.iter().enumerate() {
            if index > 0 {
                sorted.push(',');
            }
            sorted.push_str(&out[member.whole.clone()]);
        }
        self.out.truncate(begin);
        self.out.push_str(&sorted);
        Ok(())
    }

    fn word(&mut self, word: &str) -> Result<(), Fault> {
        if !self.text[self.at..].starts_with(word) {
            return Err(Fault::Syntax);
        }
        self.at += word.len();
        self.push(word)
    }

    fn number(&mut self) -> Result<(), Fault> {
        let (number, length) = Number::read(&self.text[self.at..])?;
        self.at += length;
        number.write(&mut self.out, self.bytes_max)
    }

    /// A text, escaped where JSON demands it and nowhere else.
    fn string(&mut self) -> Result<(), Fault> {
        self.at += 1;
        self.push("\"")?;
        loop {
            let from = self.at;
            let rest = &self.text.as_bytes()[from..];
            let is_special = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..0x20);
            let plain = rest.iter().position(is_special).ok_or(Fault::Syntax)?;
            self.at += plain;
            self.push(&self.text[from..self.at])?;
            let special = rest[plain];
            self.at += 1;
            match special {
                b'"' => return self.push("\""),
                b'\\' => self.escape()?,
                _ => return Err(Fault::Syntax),
            }
        }
    }

    /// An escape whose backslash has been taken.
    fn escape(&mut self) -> Result<(), Fault> {
        let kind = self.peek().ok_or(Fault::Syntax)?;
        self.at += 1;
        match kind {
            b'"' => self.push("\\\""),
            b'\\' => self.push("\\\\"),
            b'/' => self.push("/"),
            b'b' => self.push("\\b"),
            b'f' => self.push("\\f"),
            b'n' => self.push("\\n"),
            b'r' => self.push("\\r"),
            b't' => self.push("\\t"),
            b'u' => {
                let character = self.character()?;
                self.push_character(character)
            }
            _ => Err(Fault::Syntax),
        }
    }

    /// The character of one `\u` escape, or of two that are a surrogate pair.
    fn character(&mut self) -> Result<char, Fault> {
        let first = self.unit()?;
        let code = match first {
            0xD800..0xDC00 => {
                if !self.text[self.at..].starts_with("\\u") {
                    return Err(Fault::LoneSurrogate);
                }
                self.at += 2;
                match self.unit()? {
                    second @ 0xDC00..0xE000 => {
                        0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00)
                    }
                    _ => return Err(Fault::LoneSurrogate),
                }
            }
            code => code,
        };
        char::from_u32(code).ok_or(Fault::LoneSurrogate)
    }

    fn unit(&mut self) -> Result<u32, Fault> {
        let digits = self.text.get(self.at..self.at + 4).ok_or(Fault::Syntax)?;
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(Fault::Syntax);
        }
        self.at += 4;
        u32::from_str_radix(digits, 16).map_err(|_| Fault::Syntax)
    }

    fn push_character(&mut self, character: char) -> Result<(), Fault> {
        match character {
            '\0' => Err(Fault::Nul),
            '"' => self.push("\\\""),
            '\\' => self.push("\\\\"),
            '\u{8}' => self.push("\\b"),
            '\u{c}' => self.push("\\f"),
            '\n' => self.push("\\n"),
            '\r' => self.push("\\r"),
            '\t' => self.push("\\t"),
            '\u{1}'..='\u{1f}' => self.push(&format!("\\u{:04x}", u32::from(character))),
            plain => self.push(plain.encode_utf8(&mut [0; 4])),
        }
    }
}
