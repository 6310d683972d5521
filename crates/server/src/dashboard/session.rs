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
    session_key::SessionKey,
    token::Scope,
};

/// The name of the cookie. It counts on pages only, never for the API.
const COOKIE: &str = "consign_session";

/// The same for those without a token. Another name, since a link from elsewhere comes without
/// either cookie, and what is set then must not end a session.
const NOBODY: &str = "consign_visitor";

/// Changes with the meaning of the rest of a cookie.
const VERSION: &str = "v1";

type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Opens sessions, and knows them again.
pub(crate) struct Sessions {
    clock: Clock,
    ttl_s: i64,
    /// Whether browsers may send the cookie over HTTPS only.
    is_secure: bool,
    /// What the keys come from besides the tokens.
    secret: Option<SessionKey>,
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
    /// Whether what the address says was done has been done, just now and in this session.
    pub(crate) has_acted: bool,
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
            nobody: nobodys_key(options),
            secret: options.session_key.clone(),
        }
    }

    /// Somebody who needs no token, or has not shown theirs yet.
    pub(crate) fn anybody(&self, headers: &HeaderMap) -> Visit {
        let known = cookies(headers, NOBODY).find_map(|cookie| {
            let session = self.proven(cookie, &self.nobody)?;
            session.name.is_empty().then(|| session.csrf(&self.nobody))
        });
        let (csrf, cookie) = match known {
            Some(csrf) => (csrf, None),
            None => {
                let (value, csrf) = self.opened("", &self.nobody);
                (csrf, Some(self.cookie(NOBODY, &value, self.ttl_s)))
            }
        };
        Visit {
            may_operate: true,
            csrf: Some(csrf),
            cookie,
            ..Visit::nobody()
        }
    }

    /// Whoever has logged in, with the token they did it with.
    pub(crate) fn known<'t>(
        &self,
        tokens: &'t [TokenEntry],
        headers: &HeaderMap,
    ) -> Option<(&'t TokenEntry, Visit)> {
        cookies(headers, COOKIE).find_map(|cookie| {
            let name = Session::read(cookie)?.0.name;
            let entry = tokens
                .iter()
                .find(|entry| hex(entry.name.as_bytes()) == name)?;
            let key = self.key_of(entry);
            let session = self.proven(cookie, &key)?;
            let visit = Visit {
                csrf: Some(session.csrf(&key)),
                ..Visit::bearer(entry)
            };
            Some((entry, visit))
        })
    }

    /// Whether a browser shows a session at all, be it one that has ended.
    pub(crate) fn were(headers: &HeaderMap) -> bool {
        cookies(headers, COOKIE).any(|value| !value.is_empty())
    }

    /// The cookie of a new session of whoever has shown this token.
    pub(crate) fn open(&self, entry: &TokenEntry) -> String {
        let name = hex(entry.name.as_bytes());
        let (value, _) = self.opened(&name, &self.key_of(entry));
        self.cookie(COOKIE, &value, self.ttl_s)
    }

    /// The cookie that takes the session away from its browser.
    pub(crate) fn ended(&self) -> String {
        self.cookie(COOKIE, "", 0)
    }

    /// The key of a token's sessions: known to every server that knows the same tokens and the same
    /// secret.
    fn key_of(&self, entry: &TokenEntry) -> hmac::Key {
        let purpose = b"consign dashboard: sessions of a token";
        let own = derived(entry.hash.as_bytes(), purpose);
        match &self.secret {
            None => own.key(),
            // Who replaces the token ends its sessions all the same.
            Some(secret) => derived(secret.reveal().as_bytes(), own.bytes()).key(),
        }
    }

    /// A new session: what its cookie says, and what its forms carry.
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
        (value, session.csrf(key))
    }

    /// A cookie that scripts cannot read and other sites cannot send.
    pub(super) fn cookie(&self, name: &str, value: &str, age_s: i64) -> String {
        let secure = if self.is_secure { "; Secure" } else { "" };
        format!("{name}={value}; Path=/; Max-Age={age_s}; HttpOnly; SameSite=Strict{secure}")
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
            ..Self::nobody()
        }
    }

    /// Somebody who has nothing that a form of another page could make use of.
    pub(crate) fn nobody() -> Self {
        Self {
            name: None,
            may_operate: false,
            csrf: None,
            cookie: None,
            has_acted: false,
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

/// With a secret or with tokens, every server with the same ones knows it, so that a login may be
/// begun at one and finished at another; without, it lives and dies with the process.
fn nobodys_key(options: &ServerOptions) -> hmac::Key {
    let mut secret: Vec<u8> = Vec::new();
    match &options.session_key {
        Some(key) => secret.extend(key.reveal().as_bytes()),
        None => {
            for entry in &options.tokens {
                secret.extend(entry.hash.as_bytes());
            }
        }
    }
    if secret.is_empty() {
        secret = vec![0; 32];
        let filled = SystemRandom::new().fill(&mut secret);
        filled.expect("invariant: the operating system has randomness");
    }
    derived(&secret, b"consign dashboard: before the login").key()
}

/// What a secret is turned into for one purpose.
struct Derived(hmac::Tag);

fn derived(secret: &[u8], purpose: &[u8]) -> Derived {
    let outer = hmac::Key::new(hmac::HMAC_SHA256, secret);
    Derived(hmac::sign(&outer, purpose))
}

impl Derived {
    fn bytes(&self) -> &[u8] {
        self.0.as_ref()
    }

    fn key(&self) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, self.bytes())
    }
}

/// Every cookie of this name: a browser may send several, of which others may have set some.
pub(super) fn cookies<'h>(headers: &'h HeaderMap, name: &str) -> impl Iterator<Item = &'h str> {
    let lines = headers.get_all(header::COOKIE).iter();
    let pairs = lines
        .filter_map(|line| line.to_str().ok())
        .flat_map(|line| line.split(';'));
    pairs.filter_map(move |pair| pair.trim().strip_prefix(name)?.strip_prefix('='))
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(super) fn unhex(text: &str) -> Option<Vec<u8>> {
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
        // The session of a token is no session of nobody's, and a visit does not end it.
        let logged_in = carrying(&sessions.open(&tokens[0]));
        let visitor = sessions.anybody(&logged_in).cookie.unwrap();
        assert!(visitor.starts_with(NOBODY), "{visitor}");
    }

    #[test]
    fn with_a_key_of_their_own_sessions_need_it_and_the_token() {
        let tokens = [entry("ada", "a")];
        let with = |key: Option<&str>, tokens: &[TokenEntry]| {
            let options = ServerOptions {
                tokens: tokens.to_vec(),
                session_key: key.map(|key| SessionKey::try_from(key.repeat(32)).unwrap()),
                ..ServerOptions::default()
            };
            let now = Timestamp::from_second(1_000).unwrap();
            Sessions::new(&options, Arc::new(move || now))
        };
        let headers = carrying(&with(Some("k"), &tokens).open(&tokens[0]));
        let knows = |key, tokens: &[TokenEntry]| {
            let known = with(key, tokens).known(tokens, &headers).is_some();
            known
        };
        assert!(knows(Some("k"), &tokens), "another server with both");
        assert!(!knows(Some("x"), &tokens), "the key was replaced");
        assert!(!knows(None, &tokens), "the hash alone makes no session");
        assert!(!knows(Some("k"), &[entry("ada", "b")]), "another token");
        let visitor = with(Some("k"), &tokens).anybody(&HeaderMap::new());
        let visitor = carrying(visitor.cookie.as_deref().unwrap());
        assert!(with(Some("k"), &tokens).anybody(&visitor).cookie.is_none());
        assert!(with(None, &tokens).anybody(&visitor).cookie.is_some());
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
