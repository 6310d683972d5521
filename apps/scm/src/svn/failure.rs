//! Maps error numbers of `svn`, which are the same in every language.

use crate::ScmError;

/// Maximum part of an error message.
const MESSAGE_CHARS_MAX: usize = 500;

/// Not authorised, authentication failed, not readable, no mechanism in common, forbidden.
const AUTH: [&str; 7] = [
    "E170001", "E215001", "E215003", "E215004", "E220001", "E210007", "E175013",
];
/// No such repository, path, revision, or URL; or a web server without Subversion.
const NOT_FOUND: [&str; 12] = [
    "E160013", "E160006", "E160005", "E195012", "E170000", "W170000", "E180001", "E210005",
    "E125002", "E200009", "E170011", "E175003",
];
/// Connection refused, reset, timed out, closed; host name; errors of serf and DAV.
const NETWORK: [&str; 16] = [
    "E000032", "E000101", "E000103", "E000104", "E000110", "E000111", "E000112", "E000113",
    "E210002", "E210003", "E175002", "E175012", "E120106", "E120108", "E120171", "E170013",
];

/// The error for the output of `svn`. The cause comes last and its consequences first, so
/// rejections are checked before missing resources, and those before the network.
pub(super) fn of(name: &str, errors: &str) -> ScmError {
    let source_name = name.to_owned();
    let detail = one_line(errors);
    let has = |codes: &[&str]| codes.iter().any(|code| errors.contains(code));
    if has(&AUTH) {
        return ScmError::Auth {
            source_name,
            detail,
        };
    }
    if has(&NOT_FOUND) {
        return ScmError::NotFound {
            source_name,
            detail,
        };
    }
    // Unknown host names are E670002 and neighbouring numbers.
    if has(&NETWORK) || errors.contains("E6700") {
        return ScmError::Network {
            source_name,
            tries: 1,
            detail,
        };
    }
    ScmError::Protocol {
        source_name,
        detail,
    }
}

/// Whether the folder had another path, or none, in the requested revisions.
pub(super) fn is_elsewhere(error: &ScmError) -> bool {
    let codes = ["E195012", "E160013"];
    matches!(error, ScmError::NotFound { detail, .. } if codes.iter().any(|code| detail.contains(code)))
}

/// On one line, without control characters.
fn one_line(errors: &str) -> String {
    let lines = errors.lines().map(str::trim);
    let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    let text = lines.join("; ").replace("svn: ", "");
    let text = text.chars().filter(|c| !c.is_control());
    match text.take(MESSAGE_CHARS_MAX).collect::<String>() {
        empty if empty.is_empty() => "svn failed without a message".to_owned(),
        text => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Messages of `svn` 1.14.
    #[test]
    fn errors_are_distinguished() {
        let table = [
            (
                "svn: E170013: Unable to connect to a repository at URL 'svn://h/r'\n\
                 svn: E215004: No more credentials or we tried too many times.\nAuthentication failed\n",
                "SCM_AUTH_FAILED",
            ),
            ("svn: E170001: Authorization failed\n", "SCM_AUTH_FAILED"),
            ("svn: E220001: Item is not readable\n", "SCM_AUTH_FAILED"),
            (
                "svn: E170013: Unable to connect to a repository at URL 'http://h/r'\n\
                 svn: E175003: The server at 'http://h/r' does not support the HTTP/DAV protocol\n",
                "SCM_NOT_FOUND",
            ),
            (
                "svn: E175013: Access to '/r/!svn/me' forbidden\n",
                "SCM_AUTH_FAILED",
            ),
            (
                "svn: E170013: Unable to connect to a repository at URL 'file:///no'\n\
                 svn: E180001: Unable to open repository 'file:///no'\n",
                "SCM_NOT_FOUND",
            ),
            (
                "svn: warning: W170000: URL 'file:///r/no' non-existent in revision 3\n\n\
                 svn: E200009: Could not display info for all targets\n",
                "SCM_NOT_FOUND",
            ),
            (
                "svn: E170013: Unable to connect to a repository at URL 'svn://127.0.0.1:1/x'\n\
                 svn: E000111: Can't connect to host '127.0.0.1': Connection refused\n",
                "SCM_UNREACHABLE",
            ),
            (
                "svn: E670002: Unknown hostname 'no.such.host.invalid'\n",
                "SCM_UNREACHABLE",
            ),
            (
                "svn: E210002: Network connection closed unexpectedly\n",
                "SCM_UNREACHABLE",
            ),
            ("svn: E210004: Malformed network data\n", "SCM_PROTOCOL"),
            ("svn: E000028: No space left on device\n", "SCM_PROTOCOL"),
            ("", "SCM_PROTOCOL"),
        ];
        for (errors, code) in table {
            assert_eq!(of("svn://h/r", errors).code(), code, "{errors}");
        }
        let error = of(
            "svn://h/r",
            "svn: E170001: Authorization\r\n\x1b[31m failed\n",
        );
        let expected = "svn://h/r refused the credentials: E170001: Authorization; [31m failed";
        assert_eq!(error.to_string(), expected);
    }
}
