//! The fields of a submitted form.

use axum::{
    extract::{FromRequest, Request},
    http::HeaderMap,
};

use crate::{
    extract::{check_type, whole},
    problem::{Problem, codes},
};

const KIND: &str = "application/x-www-form-urlencoded";

/// The fields of a form, as sent. Its CSRF code was checked by the gate.
#[derive(Debug)]
pub struct Form(Vec<(String, String)>);

impl Form {
    pub(crate) fn read(headers: &HeaderMap, bytes: &[u8]) -> Result<Self, Problem> {
        check_type(headers, KIND)?;
        let text = std::str::from_utf8(bytes).map_err(|_| malformed("text is not UTF-8"))?;
        Self::parse(text)
    }

    /// The fields of an address, after its question mark.
    pub(super) fn parse(text: &str) -> Result<Self, Problem> {
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        let fields = pairs.map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            Ok((decoded(name)?, decoded(value)?))
        });
        Ok(Self(fields.collect::<Result<_, Problem>>()?))
    }

    /// What was filled in, if anything was.
    pub fn get(&self, name: &str) -> Option<&str> {
        let field = self.0.iter().find(|(known, _)| known == name);
        field
            .map(|(_, value)| value.as_str())
            .filter(|value| !value.is_empty())
    }

    /// Everything that was chosen under a name.
    pub(super) fn all<'f>(&'f self, name: &'f str) -> impl Iterator<Item = &'f str> {
        let fields = self.0.iter().filter(move |(known, _)| known == name);
        fields.map(|(_, value)| value.as_str())
    }

    /// The reason that was filled in.
    pub fn reason(&self) -> Option<String> {
        self.get("reason").map(str::to_owned)
    }

    /// A whole number, if one was filled in.
    pub(crate) fn number<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>, Problem> {
        let Some(text) = self.get(name) else {
            return Ok(None);
        };
        let number = text.trim().parse().map(Some);
        number.map_err(|_| {
            Problem::out_of_bounds(name, consign_kernel::quoted(text), "must be a whole number")
        })
    }
}

impl<S: Send + Sync> FromRequest<S> for Form {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        let (headers, bytes) = whole(request).await?;
        Self::read(&headers, &bytes)
    }
}

fn decoded(text: &str) -> Result<String, Problem> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                let (Some(high), Some(low)) = (digit(), digit()) else {
                    return Err(malformed("% without two hexadecimal digits"));
                };
                (high * 16 + low) as u8
            }
            plain => plain,
        });
    }
    String::from_utf8(bytes).map_err(|_| malformed("text is not UTF-8"))
}

fn malformed(cause: &str) -> Problem {
    Problem::new(
        codes::INVALID_INPUT,
        format!("form body is malformed: {cause}"),
    )
}

/// Text as part of a URL.
pub fn encoded(text: &str) -> String {
    let mut url = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'/' => {
                url.push(char::from(byte));
            }
            other => url.push_str(&format!("%{other:02X}")),
        }
    }
    url
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::{HeaderValue, header};

    fn read(body: &[u8]) -> Result<Form, Problem> {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(KIND));
        Form::read(&headers, body)
    }

    #[test]
    fn fields_are_read_as_browsers_write_them() {
        let form = read(b"reason=r%C3%A9try+100%25+%26+more&rate=&n=%2012&x").unwrap();
        assert_eq!(form.get("reason"), Some("rétry 100% & more"));
        assert_eq!(form.get("rate"), None);
        assert_eq!(form.number::<u32>("n").unwrap(), Some(12));
        assert_eq!(form.get("x"), None);
        assert!(form.number::<u32>("reason").is_err());
        for bad in [&b"a=%"[..], b"a=%zz", b"a=%ff", b"\xff=1", b"a=%+1"] {
            assert!(read(bad).is_err(), "{bad:?}");
        }
        assert!(Form::read(&HeaderMap::new(), b"a=1").is_err());
    }

    #[test]
    fn what_is_encoded_is_decoded_to_the_same() {
        let text = "/ui/messages?q=a b&c=\"<ü>'#%";
        assert_eq!(decoded(&encoded(text)).unwrap(), text);
        assert!(!encoded(text).contains(['?', '&', '"', '<', '#', ' ']));
    }
}
