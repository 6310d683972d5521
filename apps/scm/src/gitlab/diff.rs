//! The change of a commit, file by file.
//!
//! GitLab omits large files and large diffs, not always marked. So the lines are counted and
//! compared with the commit's.

use serde::Deserialize;

use super::{
    client::Client,
    model::{Commit, Stats},
};
use crate::{PatchWriter, ScmError, hunks::Hunks};

/// A file may have half a megabyte.
const FILES_PAGE: usize = 20;

#[derive(Debug, Default, Deserialize)]
struct File {
    #[serde(default)]
    old_path: String,
    #[serde(default)]
    new_path: String,
    #[serde(default)]
    a_mode: String,
    #[serde(default)]
    b_mode: String,
    #[serde(default)]
    new_file: bool,
    #[serde(default)]
    deleted_file: bool,
    #[serde(default)]
    renamed_file: bool,
    #[serde(default)]
    collapsed: Option<bool>,
    #[serde(default)]
    too_large: Option<bool>,
    #[serde(default)]
    diff: String,
}

/// Writes the change.
pub(super) async fn diff(client: &Client, sha: &str, to: &mut PatchWriter) -> Result<(), ScmError> {
    write(client, sha, to, File::to_diff).await
}

/// Writes the changed files and their line counts.
pub(super) async fn stat(client: &Client, sha: &str, to: &mut PatchWriter) -> Result<(), ScmError> {
    write(client, sha, to, File::to_stat).await
}

async fn write(
    client: &Client,
    sha: &str,
    to: &mut PatchWriter,
    text: fn(&File) -> String,
) -> Result<(), ScmError> {
    let url = client.at(&["repository", "commits", sha], &[("stats", "true")]);
    let announced = client.get_once::<Commit>(&url).await?.body.stats;
    let mut counted = Stats {
        additions: 0,
        deletions: 0,
    };
    let (mut page, mut withheld) = (1, 0);
    loop {
        let (size, number) = (FILES_PAGE.to_string(), page.to_string());
        let query = [("per_page", size.as_str()), ("page", &number)];
        let url = client.at(&["repository", "commits", sha, "diff"], &query);
        let answer = client.get_once::<Vec<File>>(&url).await?;
        let is_last = !answer.has_next && answer.body.len() < FILES_PAGE;
        for file in &answer.body {
            let hunks = file.hunks();
            counted.additions += hunks.added;
            counted.deletions += hunks.deleted;
            withheld += u64::from(file.is_withheld());
            to.write(text(file).as_bytes()).await?;
        }
        if is_last {
            break;
        }
        page += 1;
    }
    if withheld > 0 || announced.is_some_and(|announced| announced != counted) {
        to.degrade(format!("withheld_by_source:{withheld}"));
    }
    Ok(())
}

impl File {
    fn hunks(&self) -> Hunks {
        let mut hunks = Hunks::default();
        for line in self.diff.split('\n') {
            hunks.take(line.as_bytes());
        }
        hunks
    }

    fn is_withheld(&self) -> bool {
        self.collapsed == Some(true) || self.too_large == Some(true)
    }

    /// In the format of `git diff`.
    fn to_diff(&self) -> String {
        let (old, new) = (&self.old_path, &self.new_path);
        let mut text = format!("diff --git a/{old} b/{new}\n");
        match (self.new_file, self.deleted_file) {
            (true, _) => text += &format!("new file mode {}\n", self.b_mode),
            (_, true) => text += &format!("deleted file mode {}\n", self.a_mode),
            _ if self.a_mode != self.b_mode => {
                text += &format!("old mode {}\nnew mode {}\n", self.a_mode, self.b_mode);
            }
            _ => {}
        }
        if self.renamed_file {
            text += &format!("rename from {old}\nrename to {new}\n");
        }
        // Newer servers can include these lines.
        if self.diff.starts_with("@@") {
            let from = if self.new_file {
                "/dev/null".to_owned()
            } else {
                format!("a/{old}")
            };
            let to = if self.deleted_file {
                "/dev/null".to_owned()
            } else {
                format!("b/{new}")
            };
            text += &format!("--- {from}\n+++ {to}\n");
        }
        text += &self.diff;
        if !text.ends_with('\n') {
            text.push('\n');
        }
        text
    }

    /// Lines added, lines deleted, path.
    fn to_stat(&self) -> String {
        let hunks = self.hunks();
        let path = if self.deleted_file {
            &self.old_path
        } else {
            &self.new_path
        };
        if self.is_withheld() || self.diff.starts_with("Binary files") {
            format!("-\t-\t{path}\n")
        } else {
            format!("{}\t{}\t{path}\n", hunks.added, hunks.deleted)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(diff: &str) -> File {
        File {
            old_path: "a.rs".into(),
            new_path: "b.rs".into(),
            a_mode: "100644".into(),
            b_mode: "100644".into(),
            diff: diff.into(),
            ..File::default()
        }
    }

    #[test]
    fn files_are_written_as_git_does() {
        let changed = file("@@ -1 +1 @@\n-x\n+y\n");
        let expected = "diff --git a/a.rs b/b.rs\n--- a/a.rs\n+++ b/b.rs\n@@ -1 +1 @@\n-x\n+y\n";
        assert_eq!(changed.to_diff(), expected);
        assert_eq!(changed.to_stat(), "1\t1\tb.rs\n");
        let added = File {
            new_file: true,
            ..file("@@ -0,0 +1 @@\n+y")
        };
        let expected = "diff --git a/a.rs b/b.rs\nnew file mode 100644\n--- /dev/null\n+++ b/b.rs\n\
                        @@ -0,0 +1 @@\n+y\n";
        assert_eq!(added.to_diff(), expected);
        let renamed = File {
            renamed_file: true,
            b_mode: "100755".into(),
            ..file("")
        };
        let expected = "diff --git a/a.rs b/b.rs\nold mode 100644\nnew mode 100755\n\
                        rename from a.rs\nrename to b.rs\n";
        assert_eq!(renamed.to_diff(), expected);
        let deleted = File {
            deleted_file: true,
            ..file("Binary files a/a.rs and /dev/null differ\n")
        };
        assert!(
            deleted
                .to_diff()
                .contains("deleted file mode 100644\nBinary files")
        );
        assert_eq!(deleted.to_stat(), "-\t-\ta.rs\n");
    }
}
