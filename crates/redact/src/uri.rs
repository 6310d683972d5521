//! Credentials in URIs, and texts without them: a rule set of its own, because PostgreSQL has the same.
//!
//! A URI is kept because it locates something; a password or a token in it must not be kept with
//! it. The rules are lenient on purpose: what a sloppy client takes for credentials is masked, too, and
//! rather too much is masked than too little.
//! `logbook.masked` in PostgreSQL does the same for what comes in by SQL, and a test compares the two.

mod encoded;
mod parameters;
mod users;

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Map, Value};

/// The replacement of credentials.
pub const MASK: &str = "[REDACTED]";

/// What names of secrets end with, in lower case and without `-`, `_` and `.`.
const SECRET_NAMES: [&str; 24] = [
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "pwd",
    "secret",
    "token",
    "tokens",
    "apikey",
    "adminkey",
    "accesskey",
    "privatekey",
    "secretkey",
    "authkey",
    "accountkey",
    "sharedkey",
    "clientkey",
    "authorization",
    "cookie",
    "credential",
    "credentials",
    "signature",
    "dsn",
    "jwt",
];
/// Names of secrets that are too short to be looked for at the end of others.
const SHORT_NAMES: [&str; 2] = ["sig", "auth"];
/// Last words of parameters' names that are secrets in a URI; elsewhere they may be plain words.
const PARAMETER_WORDS: [&str; 2] = ["pass", "pw"];
/// Schemes whose parsers do not care how many slashes there are.
const WEB_SCHEMES: [&str; 6] = ["http", "https", "ftp", "ftps", "ws", "wss"];

/// Whether a field, a header or a parameter of this name holds a secret.
pub fn names_secret(name: &str) -> bool {
    let plain: String = name
        .chars()
        .filter(|c| !matches!(c, '-' | '_' | '.'))
        .map(|c| c.to_ascii_lowercase())
        .collect();
    SHORT_NAMES.contains(&plain.as_str())
        || SECRET_NAMES.iter().any(|secret| plain.ends_with(secret))
}

/// A text in which no URI holds credentials: neither before its host nor in a parameter whose name
/// suggests a secret. Masking twice is masking once.
pub fn mask_credentials(text: &str) -> Cow<'_, str> {
    if !may_hold_credentials(text) {
        return Cow::Borrowed(text);
    }
    let extent = Extent::of(text);
    let masked = users::mask(text, extent);
    let masked = encoded::mask_users(&masked, extent);
    let has_uri = extent == Extent::Whole || masked.contains("://") || encoded::has_uri(&masked);
    let masked = if has_uri {
        parameters::mask(&masked, extent)
    } else {
        masked
    };
    if masked == text {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(masked)
    }
}

/// The same for every text of a document, names of fields included.
pub fn mask_credentials_in(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Cow::Owned(masked) = mask_credentials(text) {
                *text = masked;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(mask_credentials_in),
        Value::Object(fields) => mask_credentials_in_fields(fields),
        _ => {}
    }
}

/// The same for the fields of an object.
pub fn mask_credentials_in_fields(fields: &mut Map<String, Value>) {
    fields.values_mut().for_each(mask_credentials_in);
    let is_masked = |name: &String| matches!(mask_credentials(name), Cow::Owned(_));
    if fields.keys().any(is_masked) {
        let named = std::mem::take(fields).into_iter();
        *fields = named
            .map(|(name, value)| (mask_credentials(&name).into_owned(), value))
            .collect();
    }
}

/// A document as text in which no URI holds credentials.
pub fn masked_json(document: &impl Serialize) -> String {
    let text = serde_json::to_string(document).expect("invariant: a document serialises");
    if !may_hold_credentials(&text) {
        return text;
    }
    let value = serde_json::to_value(document);
    let mut value = value.expect("invariant: what has a text has a value");
    mask_credentials_in(&mut value);
    value.to_string()
}

/// Whether a text, or a document as one, is worth a closer look: nearly none is.
pub fn may_hold_credentials(text: &str) -> bool {
    text.contains(['@', '%']) || (text.contains('=') && text.contains(['?', '&', ';', '#']))
}

/// How far a URI may reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    /// The text begins with a URI: blanks and quotes in it are taken for a part of that.
    Whole,
    /// A URI is somewhere in the text: blanks and quotes end it, but for those in a password.
    Prose,
}

impl Extent {
    fn of(text: &str) -> Self {
        let text = text.trim_start();
        let is_scheme = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '.' | '-' | ':');
        let scheme = until(text, |c| !is_scheme(c));
        let is_web = scheme.split_once(':').is_some_and(|(name, _)| is_web(name));
        let is_uri = match &text.as_bytes()[scheme.len()..] {
            [b'/' | b'\\', ..] if scheme.ends_with(':') && scheme.len() > 1 => true,
            [b'/' | b'\\', b'/' | b'\\', ..] => scheme.is_empty(),
            _ => false,
        };
        if is_uri || is_web {
            Self::Whole
        } else {
            Self::Prose
        }
    }

    /// Ends a URI.
    fn ends(self, c: char) -> bool {
        self == Self::Prose && ends_uri(c)
    }
}

/// Ends a URI in prose.
fn ends_uri(c: char) -> bool {
    c.is_ascii_whitespace() || c == '\u{b}' || matches!(c, '"' | '\'' | '<' | '>' | '`')
}

/// Ends an authority.
fn ends_authority(c: char) -> bool {
    matches!(c, '/' | '\\' | '?' | '#')
}

/// Up to the first character that fits.
fn until(text: &str, is_end: impl Fn(char) -> bool) -> &str {
    &text[..text.find(is_end).unwrap_or(text.len())]
}

fn is_web(scheme: &str) -> bool {
    let mut known = WEB_SCHEMES.iter();
    known.any(|known| scheme.eq_ignore_ascii_case(known))
}

#[cfg(test)]
mod tests;
