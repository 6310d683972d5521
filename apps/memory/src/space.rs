//! Spaces of memories.

/// Default prefix of private spaces.
const PRIVATE_PREFIX: &str = "private:";
const TEAM_PREFIX: &str = "team:";
const ORG_PREFIX: &str = "org:";
/// The user of anonymous private spaces.
const ANONYMOUS: &str = "unknown";

/// Kind of space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpaceKind {
    /// Private to a user.
    Private,
    /// Of a project.
    Team,
    /// Of the organisation.
    Org,
}

impl SpaceKind {
    /// The value in tools.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Private => "private",
            Self::Team => "team",
            Self::Org => "org",
        }
    }
}

/// Names of spaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spaces {
    private_prefix: String,
}

impl Default for Spaces {
    fn default() -> Self {
        Self {
            private_prefix: PRIVATE_PREFIX.to_owned(),
        }
    }
}

impl Spaces {
    /// With this prefix for private spaces; an error if private and shared spaces could be
    /// confused.
    pub fn new(private_prefix: &str) -> Result<Self, String> {
        if private_prefix.trim().is_empty() {
            return Err("the prefix of private spaces must not be empty".to_owned());
        }
        let is_ambiguous = [TEAM_PREFIX, ORG_PREFIX]
            .iter()
            .any(|other| other.starts_with(private_prefix) || private_prefix.starts_with(other));
        if is_ambiguous {
            Err(format!(
                "the prefix of private spaces conflicts with {TEAM_PREFIX} or {ORG_PREFIX}: \
                 {private_prefix}"
            ))
        } else {
            Ok(Self {
                private_prefix: private_prefix.to_owned(),
            })
        }
    }

    /// The kind of a space; `None` if it is unknown. Case-sensitive.
    pub fn kind(&self, space: &str) -> Option<SpaceKind> {
        [
            (self.private_prefix.as_str(), SpaceKind::Private),
            (TEAM_PREFIX, SpaceKind::Team),
            (ORG_PREFIX, SpaceKind::Org),
        ]
        .into_iter()
        .find_map(|(prefix, kind)| space.starts_with(prefix).then_some(kind))
    }

    /// Whether a space is a team's or the organisation's, for any private prefix.
    pub fn is_shared(space: &str) -> bool {
        space.starts_with(TEAM_PREFIX) || space.starts_with(ORG_PREFIX)
    }

    /// The user of a private space, if it has one.
    pub fn user_of<'s>(&self, space: &'s str) -> Option<&'s str> {
        let user = space.strip_prefix(&self.private_prefix)?;
        (!user.is_empty()).then_some(user)
    }

    /// The private space of an actor; `unknown` without one.
    pub fn private_of(&self, actor: Option<&str>) -> String {
        let user = actor.filter(|user| !user.is_empty()).unwrap_or(ANONYMOUS);
        format!("{}{user}", self.private_prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_private_space_names_its_owner() {
        let spaces = Spaces::default();
        let table = [
            ("private:alice", Some(SpaceKind::Private), Some("alice")),
            ("private:a:b", Some(SpaceKind::Private), Some("a:b")),
            ("private:", Some(SpaceKind::Private), None),
            ("team:p", Some(SpaceKind::Team), None),
            ("org:shared", Some(SpaceKind::Org), None),
            ("Team:x", None, None),
            ("public:x", None, None),
            ("", None, None),
        ];
        for (space, kind, user) in table {
            assert_eq!(spaces.kind(space), kind, "{space:?}");
            assert_eq!(spaces.user_of(space), user, "{space:?}");
        }
    }

    #[test]
    fn the_prefix_of_private_spaces_is_configured() {
        let spaces = Spaces::new("user/").unwrap();
        assert_eq!(spaces.kind("user/alice"), Some(SpaceKind::Private));
        assert_eq!(spaces.kind("private:alice"), None);
        assert_eq!(spaces.private_of(Some("alice")), "user/alice");
        assert_eq!(spaces.private_of(Some("")), "user/unknown");
        assert_eq!(Spaces::default().private_of(None), "private:unknown");
        for ambiguous in ["", " ", "t", "team:", "team:own:", "org:"] {
            assert!(Spaces::new(ambiguous).is_err(), "{ambiguous:?}");
        }
    }
}
