//! Real repositories.

use std::{path::PathBuf, process::Command};

use crate::orders::bench::Bench;

/// A Git repository beside the database.
pub(super) struct Git(PathBuf);

impl Git {
    pub(super) fn new(bench: &Bench, name: &str) -> Self {
        let folder = bench.consign.folder().join(name);
        std::fs::create_dir(&folder).unwrap();
        let git = Self(folder);
        git.run(&["init", "-q", "-b", "main"]);
        git
    }

    pub(super) fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }

    /// Makes a commit for each message.
    pub(super) fn commit(&self, messages: &[&str]) {
        for message in messages {
            let file = self.0.join("story.txt");
            let before = std::fs::read_to_string(&file).unwrap_or_default();
            std::fs::write(&file, format!("{before}{message}\n")).unwrap();
            self.run(&["add", "."]);
            self.run(&["commit", "-q", "-m", message]);
        }
    }

    /// Its commits, oldest first.
    pub(super) fn history(&self) -> Vec<String> {
        let told = self.run(&["rev-list", "--reverse", "--topo-order", "HEAD"]);
        told.lines().map(str::to_owned).collect()
    }

    fn run(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("git");
        command.current_dir(&self.0).args(arguments);
        let who = [("NAME", "Ada"), ("EMAIL", "ada@shop.example")];
        for (what, value) in who {
            command.env(format!("GIT_AUTHOR_{what}"), value);
            command.env(format!("GIT_COMMITTER_{what}"), value);
        }
        told(command)
    }
}

/// A Subversion repository beside the database.
pub(super) struct Svn(PathBuf);

impl Svn {
    pub(super) fn new(bench: &Bench) -> Self {
        let folder = bench.consign.folder().join("svn");
        let mut create = Command::new("svnadmin");
        create.arg("create").arg(&folder);
        told(create);
        Self(folder)
    }

    pub(super) fn url(&self) -> String {
        format!("file://{}", self.0.display())
    }

    pub(super) fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }

    /// Makes a revision for each message, which is also the name of a folder.
    pub(super) fn commit(&self, messages: &[&str]) {
        for message in messages {
            let mut mkdir = Command::new("svn");
            let url = format!("{}/{message}", self.url());
            mkdir.args(["mkdir", "--non-interactive", "-q", "-m", message, &url]);
            told(mkdir);
        }
    }
}

fn told(mut command: Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}
