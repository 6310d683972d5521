//! A repository as large ones are: thousands of files, a few lines of a few of them changed at a time.

use std::{
    fs,
    io::{self, BufWriter, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};

pub(super) const FILES: usize = 3_000;
const FOLDERS: [&str; 7] = [
    "kernel", "worker", "server", "store", "sinks", "memory", "orders",
];
const WORDS: &str = "the queue is claimed when a worker asks for it and nobody else holds what was leased before its time";
/// Every so many commits one is a merge, of one that is so far behind.
const MERGE_EVERY: u32 = 20;
const MERGED_BEHIND: u32 = 5;

/// A repository on disk.
pub(super) struct Repository {
    folder: PathBuf,
    path: PathBuf,
}

impl Repository {
    pub(super) async fn make(folder: &Path, commits: u32) -> Result<Self> {
        let folder = folder.to_owned();
        tokio::task::spawn_blocking(move || Self::make_now(folder, commits)).await?
    }

    fn make_now(folder: PathBuf, commits: u32) -> Result<Self> {
        let path = folder.join("repository.git");
        let init = git(&folder)
            .args(["init", "--quiet", "--bare", "-b", "main"])
            .arg(&path)
            .status()?;
        ensure!(init.success(), "git init ended with {init}");
        let mut import = git(&path)
            .args(["fast-import", "--quiet"])
            .stdin(Stdio::piped())
            .spawn()
            .context("start git fast-import")?;
        let stdin = import.stdin.take().context("invariant: piped")?;
        let mut history = History::new(BufWriter::new(stdin));
        for number in 1..=commits {
            history.commit(number)?;
        }
        drop(history);
        let status = import.wait()?;
        ensure!(status.success(), "git fast-import ended with {status}");
        Ok(Self { folder, path })
    }

    /// The same repository under another name.
    pub(super) fn alias(&self, name: &str) -> Result<String> {
        let alias = self.folder.join(name);
        std::os::unix::fs::symlink(&self.path, &alias)?;
        Ok(alias.display().to_string())
    }

    /// How long the control takes.
    pub(super) async fn log_raw(&self) -> Result<Duration> {
        let started = Instant::now();
        let mut log = tokio::process::Command::from(git(&self.path));
        log.args(["log", "--raw", "main"]).stdout(Stdio::null());
        let status = log.status().await?;
        ensure!(status.success(), "git log ended with {status}");
        Ok(started.elapsed())
    }

    /// Its packs.
    pub(super) fn megabytes(&self) -> Result<f64> {
        let mut bytes = 0;
        for pack in fs::read_dir(self.path.join("objects/pack"))? {
            bytes += pack?.metadata()?.len();
        }
        Ok(bytes as f64 / 1e6)
    }
}

/// Git with its defaults, whatever is configured here.
fn git(folder: &Path) -> Command {
    let mut git = Command::new("git");
    git.current_dir(folder);
    git.env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1");
    git
}

/// The input of `git fast-import`. The same on every machine: the numbers are not random.
struct History<W: Write> {
    to: W,
    files: Vec<Vec<String>>,
    seed: u64,
    seconds: u64,
}

impl<W: Write> History<W> {
    fn new(to: W) -> Self {
        Self {
            to,
            files: vec![Vec::new(); FILES],
            seed: 7,
            seconds: 1_500_000_000,
        }
    }

    fn commit(&mut self, number: u32) -> io::Result<()> {
        self.seconds += 60 + self.below(4_000) as u64;
        let (seconds, who) = (self.seconds, number % 40);
        writeln!(self.to, "commit refs/heads/main\nmark :{number}")?;
        writeln!(
            self.to,
            "author Author {who} <a{who}@example.com> {seconds} +0000"
        )?;
        writeln!(
            self.to,
            "committer Author {who} <a{who}@example.com> {seconds} +0000"
        )?;
        let lines = [self.line(), self.line(), self.line()];
        let [first, second, third] = lines;
        self.data(&format!("Change {number}: {first}\n\n{second}\n{third}\n"))?;
        if number > 1 {
            writeln!(self.to, "from :{}", number - 1)?;
        }
        if number.is_multiple_of(MERGE_EVERY) {
            writeln!(self.to, "merge :{}", number - MERGED_BEHIND)?;
        }
        for _ in 0..=self.below(5) {
            let file = self.below(FILES);
            self.change(file);
            let folder = FOLDERS[file % FOLDERS.len()];
            writeln!(
                self.to,
                "M 100644 inline crates/{folder}/src/part_{file}.rs"
            )?;
            let text = self.files[file].concat();
            self.data(&text)?;
        }
        Ok(())
    }

    /// A new file, or some lines of one that is there.
    fn change(&mut self, file: usize) {
        let mut lines = std::mem::take(&mut self.files[file]);
        if lines.is_empty() {
            let count = 20 + self.below(180);
            lines = (0..count).map(|_| self.line() + "\n").collect();
        }
        for _ in 0..=self.below(5) {
            let at = self.below(lines.len());
            let line = self.line() + "\n";
            match self.below(3) {
                0 => lines.insert(at, line),
                _ => lines[at] = line,
            }
        }
        self.files[file] = lines;
    }

    fn line(&mut self) -> String {
        let words: Vec<&str> = WORDS.split(' ').collect();
        let chosen: Vec<&str> = (0..8).map(|_| words[self.below(words.len())]).collect();
        chosen.join(" ")
    }

    fn data(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.to, "data {}\n{text}", text.len())
    }

    fn below(&mut self, limit: usize) -> usize {
        let next = self.seed.wrapping_mul(6_364_136_223_846_793_005);
        self.seed = next.wrapping_add(1_442_695_040_888_963_407);
        (self.seed >> 33) as usize % limit
    }
}
