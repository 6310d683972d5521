//! Sessions of the dashboard. None is kept: a cookie says whose it is and until when, and carries a
//! code that only who knows the configuration can compute. Taking a token out of the configuration
//! ends its sessions on every server.

use std::{fmt, sync::Arc};

use axum::http::{HeaderMap, header};
use jiff::Timestamp;
use ring::{
    hmac,
    rand::{SecureRandom, SystemRandom},
};

use crate::{
    options::{ServerOptions, TokenEntry},
    token::Scope,
};

/// The name of the cookie. It counts on pages only, never for the API.
pub(crate) const COOKIE: &str = "consign_session";

/// Changes with the meaning of the rest of a cookie.
const VERSION: &str = "v1";

type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Opens sessions, and knows them again.
pub(crate) struct Sessions {
    clock: Clock,
    ttl_s: i64,
    /// Whether browsers may send the cookie over HTTPS only.
    is_secure: bool,
    /// The key of those who have not logged in, or need not: theirs only ties forms to browsers.
    nobody: hmac::Key,
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions").finish_non_exhaustive()
    }
}

/// Somebody who looks at a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Visit {
    /// The token they have logged in with; none where none is needed.
    pub(crate) name: Option<String>,
    /// Whether they may do more than look.
    pub(crate) may_operate: bool,
    /// What their forms must carry. None for who sends a bearer token with each request, which no
    /// other page can make a browser do.
    pub(crate) csrf: Option<String>,
    /// The cookie to be set, if they came without one.
    pub(crate) cookie: Option<String>,
}

/// What a cookie says.
struct Session<'c> {
    name: &'c str,
    expires_at: &'c str,
    id: &'c str,
}

impl Sessions {
    pub(crate) fn new(options: &ServerOptions, clock: Clock) -> Self {
        Self {
            clock,
            ttl_s: i64::try_from(options.session_ttl_ms / 1_000).unwrap_or(i64::MAX),
            is_secure: options.has_tls() || options.dashboard_secure_cookie,
            nobody: nobodys_key(&options.tokens),
        }
    }

    /// Somebody who needs no token, or has not shown theirs yet.
    pub(crate) fn anybody(&self, headers: &HeaderMap) -> Visit {
        let known = cookies(headers).find_map(|cookie| {
            let session = self.proven(cookie, &self.nobody)?;
            session.name.is_empty().then(|| session.csrf(&self.nobody))
        });
        let (csrf, cookie) = match known {
            Some(csrf) => (csrf, None),
            None => {
                let (cookie, csrf) = self.opened("", &self.nobody);
                (csrf, Some(cookie))
            }
        };
        Visit {
            name: None,
            may_operate: true,
            csrf: Some(csrf),
            cookie,
        }
    }

    /// Whoever has logged in, with the token they did it with.
    pub(crate) fn known<'t>(
        &self,
        tokens: &'t [TokenEntry],
        headers: &HeaderMap,
    ) -> Option<(&'t TokenEntry, Visit)> {
        cookies(headers).find_map(|cookie| {
            let name = Session::read(cookie)?.0.name;
            let entry = tokens
                .iter()
                .find(|entry| hex(entry.name.as_bytes()) == name)?;
            let key = key_of(entry);
            let session = self.proven(cookie, &key)?;
            let visit = Visit {
                csrf: Some(session.csrf(&key)),
                ..Visit::bearer(entry)
            };
            Some((entry, visit))
        })
    }

    /// The cookie of a new session of whoever has shown this token.
    pub(crate) fn open(&self, entry: &TokenEntry) -> String {
        let name = hex(entry.name.as_bytes());
        self.opened(&name, &key_of(entry)).0
    }

    /// The cookie that takes the session away from its browser.
    pub(crate) fn ended(&self) -> String {
        self.cookie("", 0)
    }

    /// A new session: its cookie, and what its forms carry.
    fn opened(&self, name: &str, key: &hmac::Key) -> (String, String) {
        let mut id = [0; 16];
        let filled = SystemRandom::new().fill(&mut id);
        filled.expect("invariant: the operating system has randomness");
        let expires_at = (self.clock)().as_second().saturating_add(self.ttl_s);
        let session = Session {
            name,
            expires_at: &expires_at.to_string(),
            id: &hex(&id),
        };
        let proof = session.code("session", key);
        let Session {
            name,
            expires_at,
            id,
        } = session;
        let value = format!("{VERSION}.{name}.{expires_at}.{id}.{proof}");
        (self.cookie(&value, self.ttl_s), session.csrf(key))
    }

    fn cookie(&self, value: &str, age_s: i64) -> String {
        let secure = if self.is_secure { "; Secure" } else { "" };
        format!("{COOKIE}={value}; Path=/; Max-Age={age_s}; HttpOnly; SameSite=Strict{secure}")
    }

    /// What a cookie says, if it is true and still holds.
    fn proven<'c>(&self, cookie: &'c str, key: &hmac::Key) -> Option<Session<'c>> {
        let (session, proof) = Session::read(cookie)?;
        hmac::verify(key, session.text("session").as_bytes(), &unhex(proof)?).ok()?;
        let expires_at: i64 = session.expires_at.parse().ok()?;
        let now = (self.clock)().as_second();
        // Nobody is given a longer one.
        (expires_at > now && expires_at <= now + self.ttl_s).then_some(session)
    }
}

impl Visit {
    /// Whoever shows this token with each request.
    pub(crate) fn bearer(entry: &TokenEntry) -> Self {
        Self {
            name: Some(entry.name.clone()),
            may_operate: entry.scopes.contains(&Scope::Operator),
            csrf: None,
            cookie: None,
        }
    }

    /// Whether a form was made for this session.
    pub(crate) fn owns(&self, csrf: Option<&str>) -> bool {
        use subtle::ConstantTimeEq as _;
        match &self.csrf {
            None => true,
            Some(own) => csrf.is_some_and(|said| own.as_bytes().ct_eq(said.as_bytes()).into()),
        }
    }
}

impl<'c> Session<'c> {
    fn read(cookie: &'c str) -> Option<(Self, &'c str)> {
        let mut parts = cookie.split('.');
        let mut next = || parts.next();
        let (VERSION, name, expires_at, id, proof) = (next()?, next()?, next()?, next()?, next()?)
        else {
            return None;
        };
        let session = Self {
            name,
            expires_at,
            id,
        };
        parts.next().is_none().then_some((session, proof))
    }

    fn text(&self, purpose: &str) -> String {
        let Self {
            name,
            expires_at,
            id,
        } = self;
        format!("{purpose}.{VERSION}.{name}.{expires_at}.{id}")
    }

    fn code(&self, purpose: &str, key: &hmac::Key) -> String {
        hex(hmac::sign(key, self.text(purpose).as_bytes()).as_ref())
    }

    fn csrf(&self, key: &hmac::Key) -> String {
        self.code("csrf", key)
    }
}

/// The key of a token's sessions: known to every server that knows the token.
fn key_of(entry: &TokenEntry) -> hmac::Key {
    derived(
        entry.hash.as_bytes(),
        b"consign dashboard: sessions of a token",
    )
}

/// With tokens, every server with the same ones knows it, so that a login may be begun at one and
/// finished at another; without, it lives and dies with the process.
fn nobodys_key(tokens: &[TokenEntry]) -> hmac::Key {
    let mut secret: Vec<u8> = Vec::new();
    for entry in tokens {
        secret.extend(entry.hash.as_bytes());
    }
    if secret.is_empty() {
        secret = vec![0; 32];
        let filled = SystemRandom::new().fill(&mut secret);
        filled.expect("invariant: the operating system has randomness");
    }
    derived(&secret, b"consign dashboard: before the login")
}

fn derived(secret: &[u8], purpose: &[u8]) -> hmac::Key {
    let outer = hmac::Key::new(hmac::HMAC_SHA256, secret);
    hmac::Key::new(hmac::HMAC_SHA256, hmac::sign(&outer, purpose).as_ref())
}

/// Every cookie of ours: a browser may send several, of which others may have set some.
fn cookies(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let lines = headers.get_all(header::COOKIE).iter();
    let pairs = lines
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(';'));
    pairs.filter_map(|pair| pair.trim().strip_prefix(COOKIE)?.strip_prefix('='))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let pairs = text.as_bytes().chunks(2);
    pairs
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::Token;
    use axum::http::HeaderValue;

    fn entry(name: &str, token: &str) -> TokenEntry {
        TokenEntry {
            name: name.to_owned(),
            hash: Token::new(token).hash(),
            scopes: vec![Scope::Auditor],
        }
    }

    fn sessions(tokens: &[TokenEntry], now: i64) -> Sessions {
        let options = ServerOptions {
            tokens: tokens.to_vec(),
            ..ServerOptions::default()
        };
        let now = Timestamp::from_second(now).unwrap();
        Sessions::new(&options, Arc::new(move || now))
    }

    fn carrying(cookie: &str) -> HeaderMap {
        let pair = cookie.split(';').next().unwrap();
        let mut headers = HeaderMap::new();
        headers.insert(header::COOKIE, HeaderValue::from_str(pair).unwrap());
        headers
    }

    #[test]
    fn any_server_with_the_token_knows_its_sessions_until_they_end() {
        let tokens = [entry("ada", "a"), entry("bob", "b")];
        let cookie = sessions(&tokens, 1_000).open(&tokens[1]);
        for attribute in ["HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=28800"] {
            assert!(cookie.contains(attribute), "{cookie}");
        }
        assert!(!cookie.contains("Secure"), "{cookie}");
        let headers = carrying(&cookie);
        let (known, visit) = sessions(&tokens, 2_000).known(&tokens, &headers).unwrap();
        assert_eq!(known.name, "bob");
        assert!(!visit.may_operate);
        assert!(
            sessions(&tokens, 1_000 + 28_799)
                .known(&tokens, &headers)
                .is_some()
        );
        assert!(
            sessions(&tokens, 1_000 + 28_800)
                .known(&tokens, &headers)
                .is_none()
        );
        // The token was taken away, or another was given the name.
        assert!(
            sessions(&tokens, 2_000)
                .known(&tokens[..1], &headers)
                .is_none()
        );
        let renewed = [entry("ada", "a"), entry("bob", "c")];
        assert!(
            sessions(&renewed, 2_000)
                .known(&renewed, &headers)
                .is_none()
        );
    }

    #[test]
    fn no_letter_of_a_cookie_can_be_changed() {
        let tokens = [entry("ada", "a"), entry("bob", "b")];
        let sessions = sessions(&tokens, 1_000);
        let cookie = sessions.open(&tokens[0]);
        let value = cookie.split(';').next().unwrap().split_once('=').unwrap().1;
        for at in 0..value.len() {
            let mut other = value.as_bytes().to_vec();
            other[at] = if other[at] == b'0' { b'1' } else { b'0' };
            let other = format!("{COOKIE}={}", String::from_utf8(other).unwrap());
            assert!(
                sessions.known(&tokens, &carrying(&other)).is_none(),
                "{other}"
            );
        }
        for other in [
            "",
            "v1",
            "v1....",
            &format!("{value}.x"),
            &value[..value.len() - 2],
        ] {
            let other = format!("{COOKIE}={other}");
            assert!(
                sessions.known(&tokens, &carrying(&other)).is_none(),
                "{other}"
            );
        }
    }

    #[test]
    fn who_has_not_logged_in_is_nobody_and_a_form_belongs_to_one_session() {
        let tokens = [entry("ada", "a")];
        let sessions = sessions(&tokens, 1_000);
        let nobody = sessions.anybody(&HeaderMap::new());
        let headers = carrying(nobody.cookie.as_deref().unwrap());
        assert!(sessions.known(&tokens, &headers).is_none());
        let again = sessions.anybody(&headers);
        assert_eq!((&again.csrf, &again.cookie), (&nobody.csrf, &None));
        let other = sessions.anybody(&HeaderMap::new());
        assert!(nobody.owns(nobody.csrf.as_deref()));
        assert!(!nobody.owns(other.csrf.as_deref()));
        assert!(!nobody.owns(None));
        assert!(!nobody.owns(Some("")));
        // The session of a token is no session of nobody's.
        let logged_in = carrying(&sessions.open(&tokens[0]));
        assert!(sessions.anybody(&logged_in).cookie.is_some());
    }

    #[test]
    fn a_cookie_that_somebody_else_put_before_ours_does_not_hide_it() {
        let tokens = [entry("ada", "a")];
        let sessions = sessions(&tokens, 1_000);
        let cookie = sessions.open(&tokens[0]);
        let pair = cookie.split(';').next().unwrap();
        let headers = carrying(&format!("{COOKIE}=v1.x.y.z.0").replace(';', ""));
        assert!(sessions.known(&tokens, &headers).is_none());
        let mut headers = HeaderMap::new();
        let both = format!("theme=dark; {COOKIE}=v1.x.y.z.0; {pair}");
        headers.insert(header::COOKIE, HeaderValue::from_str(&both).unwrap());
        assert!(sessions.known(&tokens, &headers).is_some());
    }
}
