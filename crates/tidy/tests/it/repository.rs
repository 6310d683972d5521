//! The files of the repository.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Holds nothing of ours; neither do hidden folders.
const BUILD: &str = "target";

/// A text file.
pub(crate) struct File {
    /// Relative to the root, with forward slashes.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl File {
    /// Lines with their numbers, from 1.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.lines())
    }
}

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// One file that must be there.
pub(crate) fn file(path: &str) -> File {
    let text = fs::read_to_string(root().join(path))
        .unwrap_or_else(|error| panic!("{path} cannot be read: {error}"));
    File {
        path: path.to_owned(),
        text,
    }
}

/// All files with one of these extensions, by path.
pub(crate) fn files(extensions: &[&str]) -> Vec<File> {
    let mut paths = Vec::new();
    collect(&root(), "", &mut paths);
    paths.sort();
    let wanted = |path: &&String| {
        let extension = Path::new(path).extension().and_then(|found| found.to_str());
        extension.is_some_and(|found| extensions.contains(&found))
    };
    let found: Vec<File> = paths.iter().filter(wanted).map(|path| file(path)).collect();
    assert!(
        !found.is_empty(),
        "no {extensions:?} files found: is this the repository?"
    );
    found
}

/// The folders of crates: `crates/kernel`, `apps/orders`, `apps/scm/app` and so on.
pub(crate) fn crates() -> Vec<String> {
    let folders = |parent: &'static str| {
        fs::read_dir(root().join(parent))
            .unwrap_or_else(|error| panic!("{parent}/ cannot be listed: {error}"))
            .map(|entry| entry.expect("invariant: the folder can be listed"))
            .filter(|entry| entry.path().join("Cargo.toml").exists())
            .map(move |entry| format!("{parent}/{}", entry.file_name().to_string_lossy()))
    };
    let nested = folders("apps/scm");
    let mut names: Vec<String> = folders("apps").chain(folders("crates")).collect();
    names.extend(nested.chain(folders("examples")));
    names.sort();
    names
}

/// Whether a file is part of the product: the documentation does not cover what examples do.
pub(crate) fn is_product(file: &File) -> bool {
    !file.path.starts_with("examples/")
}

/// Fails with every complaint, or not at all.
pub(crate) fn demand(complaints: &[String], remedy: &str) {
    assert!(
        complaints.is_empty(),
        "\n{}\n\n{remedy}\n",
        complaints.join("\n")
    );
}

fn collect(folder: &Path, prefix: &str, paths: &mut Vec<String>) {
    let entries = fs::read_dir(folder)
        .unwrap_or_else(|error| panic!("{} cannot be listed: {error}", folder.display()));
    for entry in entries {
        let entry = entry.expect("invariant: the folder can be listed");
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{prefix}{name}");
        if !entry.path().is_dir() {
            paths.push(path);
        } else if name != BUILD && !name.starts_with('.') {
            collect(&entry.path(), &format!("{path}/"), paths);
        }
    }
}
