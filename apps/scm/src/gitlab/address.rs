//! URL of a project.

use reqwest::Url;

use crate::ScmError;

/// A project of a GitLab server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    /// The API, as `https://gitlab.example/api/v4`.
    api: Url,
    /// `group/project`, or a number.
    project: String,
}

impl Address {
    /// Parses the URL of a project: of its page, its repository, or in the API
    /// (`…/api/v4/projects/42`), for servers that are not at the root of their host.
    pub(super) fn parse(text: &str) -> Result<Self, ScmError> {
        // The text may contain a password.
        let refused = |why: &str| ScmError::Invalid(format!("the URL of a GitLab project {why}"));
        let mut api = Url::parse(text).map_err(|error| refused(&format!("is invalid: {error}")))?;
        if !matches!(api.scheme(), "http" | "https") {
            return Err(refused("has a scheme other than http and https"));
        }
        if !api.username().is_empty() || api.password().is_some() {
            return Err(refused("contains credentials; set them in scm.tokens"));
        }
        let path = api.path().to_owned();
        let (root, project) = match path.split_once("/api/v4/projects/") {
            Some((root, project)) => {
                let project = project.split('/').next().unwrap_or_default();
                (root.to_owned(), decoded(project))
            }
            None => {
                let path = path.split("/-/").next().unwrap_or_default();
                let path = path.trim_matches('/');
                let project = decoded(path.strip_suffix(".git").unwrap_or(path));
                if !project.contains('/') {
                    return Err(refused(
                        "has no project; the form is https://host/group/project",
                    ));
                }
                (String::new(), project)
            }
        };
        if project.is_empty() {
            return Err(refused("has no project"));
        }
        api.set_path(&format!("{root}/api/v4"));
        api.set_query(None);
        api.set_fragment(None);
        Ok(Self { api, project })
    }

    /// The URL of a resource of the project; every segment is escaped.
    pub(super) fn at(&self, segments: &[&str]) -> Url {
        let mut url = self.api.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.extend(["projects", &self.project]).extend(segments);
        }
        url
    }
}

/// `group%2Fproject` is `group/project`; no other character of these names needs escaping.
fn decoded(text: &str) -> String {
    text.replace("%2F", "/").replace("%2f", "/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_is_found_in_its_url() {
        let table = [
            (
                "https://h.example/g/p",
                "https://h.example/api/v4/projects/g%2Fp/x",
            ),
            (
                "https://h.example/g/p/",
                "https://h.example/api/v4/projects/g%2Fp/x",
            ),
            (
                "https://h.example:8443/g/s/p.git",
                "https://h.example:8443/api/v4/projects/g%2Fs%2Fp/x",
            ),
            (
                "http://h/g/p/-/tree/main?x=1#y",
                "http://h/api/v4/projects/g%2Fp/x",
            ),
            (
                "https://h/api/v4/projects/42",
                "https://h/api/v4/projects/42/x",
            ),
            (
                "https://h/git/api/v4/projects/g%2fp/repository",
                "https://h/git/api/v4/projects/g%2Fp/x",
            ),
        ];
        for (url, expected) in table {
            let address = Address::parse(url).unwrap();
            assert_eq!(address.at(&["x"]).as_str(), expected, "{url}");
        }
        let branch = Address::parse("https://h/g/p")
            .unwrap()
            .at(&["b", "feature/é ?"]);
        assert_eq!(
            branch.path(),
            "/api/v4/projects/g%2Fp/b/feature%2F%C3%A9%20%3F"
        );
    }

    #[test]
    fn what_is_no_project_is_refused_without_its_secrets() {
        let table = [
            "g/p",
            "ssh://git@h/g/p",
            "https://h/p",
            "https://h/",
            "https://h/api/v4/projects/",
            "https://me:secret@h/g/p",
            "https://secret@h/g/p",
        ];
        for url in table {
            let error = Address::parse(url).unwrap_err();
            assert_eq!(error.code(), "SCM_INVALID", "{url}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }
}
