//! `scheme://user:password@host` without its user.

use super::{Extent, MASK, ends_authority, ends_uri, is_web, until};

/// Schemes whose user is a login name and no secret, as `ssh://git@host`; a password is one.
const LOGIN_SCHEMES: [&str; 3] = ["ssh", "sftp", "scp"];

pub(super) fn mask(text: &str, extent: Extent) -> String {
    let mut masked = String::with_capacity(text.len());
    match extent {
        Extent::Whole => mask_line(text, extent, &mut masked),
        Extent::Prose => {
            for line in text.split_inclusive(['\n', '\r']) {
                mask_line(line, extent, &mut masked);
            }
        }
    }
    masked
}

/// Every character is looked at a fixed number of times: texts come from strangers.
fn mask_line(line: &str, extent: Extent, masked: &mut String) {
    let Some(last_at) = line.rfind('@') else {
        masked.push_str(line);
        return;
    };
    let (mut copied, mut begins) = (0, 0);
    while begins < line.len() {
        let run = until(&line[begins..], |c| ends_authority(c) || extent.ends(c));
        let mut ends = begins + run.len();
        if let Some((start, scheme)) = authority_begins(line, begins, run) {
            let authority = &line[start..ends];
            let user_ends = match authority.rfind('@') {
                Some(at) if is_login(&scheme, &authority[..at]) => None,
                Some(at) => Some(start + at),
                None if is_sloppy(authority) && last_at > ends => {
                    // Up to the last `@` before a blank or a quote; if there is none, the password
                    // holds such a character.
                    let piece = until(&line[ends..], |c| extent.ends(c));
                    Some(piece.rfind('@').map_or(last_at, |at| ends + at))
                }
                None => None,
            };
            if let Some(at) = user_ends {
                masked.push_str(&line[copied..start]);
                masked.push_str(MASK);
                (copied, ends) = (at, ends.max(at));
            }
        }
        begins = ends + line[ends..].chars().next().map_or(1, char::len_utf8);
    }
    masked.push_str(&line[copied..]);
}

/// Where in a run a host, or a user before it, begins, and under which scheme.
fn authority_begins(line: &str, begins: usize, run: &str) -> Option<(usize, String)> {
    if !run.contains(['@', ':']) {
        return None;
    }
    let before = &line[..begins];
    if before.ends_with(['/', '\\']) {
        let slashes = ["\\/\\/", "//", "\\\\", "/\\", "\\/"].into_iter();
        let head = slashes.filter_map(|two| before.strip_suffix(two)).next();
        let scheme = head.and_then(|head| head.strip_suffix(':'));
        if let Some(scheme) = scheme {
            return Some((begins, scheme_at_end(scheme)));
        }
        let opens = |c: char| ends_uri(c) || matches!(c, '(' | '=' | ',' | ';');
        if head.is_some_and(|head| head.is_empty() || head.ends_with(opens)) {
            return Some((begins, String::new()));
        }
        // Parsers of web addresses do not count slashes.
        let head = before.trim_end_matches(['/', '\\']).strip_suffix(':')?;
        let scheme = Some(scheme_at_end(head)).filter(|scheme| is_web(scheme))?;
        return Some((begins, scheme));
    }
    let mut colons = run.match_indices(':');
    colons.find_map(|(at, _)| {
        let scheme = Some(scheme_at_end(&run[..at])).filter(|scheme| is_web(scheme))?;
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

/// Whether it looks like the beginning of a password with an unescaped `/`, `?`, `#`, blank or quote:
/// what follows the colon is no port.
fn is_sloppy(authority: &str) -> bool {
    let is_port = |text: &str| {
        let digits = text.trim_end_matches(['.', ',', ';', ':', '!', ')', ']', '}']);
        digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    let port = authority.split_once(':').map(|(_, port)| port);
    port.is_some_and(|port| !is_port(port)) && !authority.starts_with('[')
}
