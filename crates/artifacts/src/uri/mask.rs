//! Credentials in URIs, and texts without them.
//!
//! A URI is kept because it says where something is; a password or a token in it must not be kept with
//! it. The rules are lenient on purpose: what a sloppy client takes for credentials is masked, too.
//! `logbook.masked` in PostgreSQL does the same for what comes in by SQL, and a test compares the two.

use std::borrow::Cow;

use serde_json::{Map, Value};

/// What stands in the place of credentials.
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
/// Schemes whose user is a login name and no secret, as `ssh://git@host`; a password is one.
const LOGIN_SCHEMES: [&str; 3] = ["ssh", "sftp", "scp"];
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
/// says that it is a secret. Masking twice is masking once.
pub fn mask_credentials(text: &str) -> Cow<'_, str> {
    if !may_hold_credentials(text) {
        return Cow::Borrowed(text);
    }
    let masked = mask_users(text);
    let masked = mask_encoded_users(&masked);
    let masked = match masked.contains("://") {
        true => mask_parameters(&masked),
        false => masked,
    };
    match masked == text {
        true => Cow::Borrowed(text),
        false => Cow::Owned(masked),
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

/// Whether a text, or a document as one, is worth a closer look: nearly none is.
pub fn may_hold_credentials(text: &str) -> bool {
    text.contains('@') || text.contains('%') || (text.contains("://") && text.contains('='))
}

/// Ends an authority.
fn ends_authority(c: char) -> bool {
    matches!(c, '/' | '\\' | '?' | '#')
}

/// Ends a URI in a text.
fn ends_uri(c: char) -> bool {
    c.is_ascii_whitespace() || c == '\u{b}' || matches!(c, '"' | '\'' | '<' | '>' | '`')
}

/// Up to the first character that fits.
fn until(text: &str, is_end: impl Fn(char) -> bool) -> &str {
    &text[..text.find(is_end).unwrap_or(text.len())]
}

/// `scheme://user:password@host` without its user.
fn mask_users(text: &str) -> String {
    let mut masked = String::with_capacity(text.len());
    for piece in text.split_inclusive(ends_uri) {
        match piece.rfind('@') {
            Some(last_at) => mask_users_of(piece, last_at, &mut masked),
            None => masked.push_str(piece),
        }
    }
    masked
}

/// The same for a piece without blanks and quotes, whose last `@` is known. Every character is looked
/// at a fixed number of times: texts come from strangers.
fn mask_users_of(piece: &str, last_at: usize, masked: &mut String) {
    let (mut copied, mut begins) = (0, 0);
    while begins < piece.len() {
        let run = until(&piece[begins..], ends_authority);
        let mut ends = begins + run.len();
        if let Some((start, scheme)) = authority_begins(piece, begins, run) {
            let authority = &piece[start..ends];
            let user_ends = match authority.rfind('@') {
                Some(at) if is_login(&scheme, &authority[..at]) => None,
                Some(at) => Some(start + at),
                None => (is_sloppy(authority) && last_at > ends).then_some(last_at),
            };
            if let Some(at) = user_ends {
                masked.push_str(&piece[copied..start]);
                masked.push_str(MASK);
                (copied, ends) = (at, ends.max(at));
            }
        }
        begins = ends + 1;
    }
    masked.push_str(&piece[copied..]);
}

/// Where in a run a host, or a user before it, begins, and under which scheme.
fn authority_begins(piece: &str, begins: usize, run: &str) -> Option<(usize, String)> {
    if !run.contains(['@', ':']) {
        return None;
    }
    let before = &piece[..begins];
    let is_web = |scheme: &String| WEB_SCHEMES.contains(&scheme.as_str());
    if before.ends_with(['/', '\\']) {
        let slashes = ["\\/\\/", "//", "\\\\", "/\\", "\\/"].into_iter();
        let head = slashes.filter_map(|two| before.strip_suffix(two)).next();
        let scheme = head.and_then(|head| head.strip_suffix(':'));
        if let Some(scheme) = scheme {
            return Some((begins, scheme_at_end(scheme)));
        }
        if head.is_some_and(|head| head.is_empty() || head.ends_with(['(', '=', ',', ';'])) {
            return Some((begins, String::new()));
        }
        // Parsers of web addresses do not count slashes.
        let head = before.trim_end_matches(['/', '\\']).strip_suffix(':')?;
        let scheme = Some(scheme_at_end(head)).filter(is_web)?;
        return Some((begins, scheme));
    }
    let mut colons = run.match_indices(':');
    colons.find_map(|(at, _)| {
        let scheme = Some(scheme_at_end(&run[..at])).filter(is_web)?;
        Some((begins + at + 1, scheme))
    })
}

/// The scheme that a text ends with, in lower case.
fn scheme_at_end(text: &str) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '.' | '-');
    let scheme = text.rsplit(|c| !is_part(c)).next();
    scheme.unwrap_or_default().to_ascii_lowercase()
}

fn is_login(scheme: &str, user: &str) -> bool {
    let scheme = scheme.rsplit('+').next().unwrap_or_default();
    LOGIN_SCHEMES.contains(&scheme) && !user.contains(':')
}

/// Whether it looks like the beginning of a password with an unescaped `/`, `?` or `#`: what follows the
/// colon is no port.
fn is_sloppy(authority: &str) -> bool {
    let is_port = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let port = authority.split_once(':').map(|(_, port)| port);
    port.is_some_and(|port| !is_port(port)) && !authority.starts_with('[')
}

/// A URI inside of another: `?next=https%3A%2F%2Fuser%3Apassword%40host`.
fn mask_encoded_users(text: &str) -> String {
    const BEGINS: &str = "%3a%2f%2f";
    // Of the same length: only ASCII changes.
    let lower = text.to_ascii_lowercase();
    let mut masked = String::with_capacity(text.len());
    let mut copied = 0;
    for (found, _) in lower.match_indices(BEGINS) {
        let begins = found + BEGINS.len();
        let mut user_ends = None;
        for (at, c) in lower[begins..].char_indices() {
            let rest = &lower[begins + at..];
            if ends_uri(c) || ends_authority(c) || c == '&' || encodes_end(rest) {
                break;
            }
            if rest.starts_with("%40") {
                user_ends = Some(begins + at);
            }
        }
        if let Some(at) = user_ends {
            masked.push_str(&text[copied..begins]);
            masked.push_str(MASK);
            copied = at;
        }
    }
    masked.push_str(&text[copied..]);
    masked
}

fn encodes_end(text: &str) -> bool {
    ["%2f", "%3f", "%23"].iter().any(|it| text.starts_with(it))
}

/// `?access_token=…` and its like, without the value.
fn mask_parameters(text: &str) -> String {
    let separates = |c: char| matches!(c, '?' | '&' | ';' | '#');
    let mut masked = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(separates) {
        let (before, after) = rest.split_at(at + 1);
        masked.push_str(before);
        rest = after;
        let name = until(after, |c| c == '=' || separates(c) || ends_uri(c));
        let Some(value) = after[name.len()..].strip_prefix('=') else {
            continue;
        };
        if names_secret(name) {
            let value = until(value, |c| separates(c) || ends_uri(c) || c == '\\');
            masked.push_str(name);
            masked.push('=');
            if !value.is_empty() {
                masked.push_str(MASK);
            }
            rest = &after[name.len() + 1 + value.len()..];
        }
    }
    masked.push_str(rest);
    masked
}

#[cfg(test)]
mod tests;
