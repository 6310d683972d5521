//! Files under one folder, named by what is in them.
//!
//! No key leads out of the folder: a key is parsed by [`crate::uri`], every
//! part of it is a plain name, and where the path really leads is looked at before it is used.

use std::{
    fmt,
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, ErrorKind, Read, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Component, Path, PathBuf},
};

use ring::{
    digest::{Context, SHA256},
    rand::{SecureRandom, SystemRandom},
};

use crate::uri::normalize_to_artifact_key;

/// Where files are written before they have a name.
const DRAFTS: &str = ".drafts";

/// Why a file could not be used.
#[derive(Debug)]
pub enum ArtifactError {
    /// The key leads out of the folder, or is none.
    Outside(String),
    /// There is no such file.
    Missing,
    /// It is larger than the caller's limit.
    TooLarge {
        /// Its size.
        size_bytes: u64,
    },
    /// The file system failed.
    Io(io::Error),
}

impl fmt::Display for ArtifactError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Outside(key) => write!(f, "{key:?} is no key of an artifact"),
            Self::Missing => f.write_str("artifact does not exist"),
            Self::TooLarge { size_bytes } => write!(f, "the artifact has {size_bytes} bytes"),
            Self::Io(error) => write!(f, "the artifact could not be used: {error}"),
        }
    }
}

impl std::error::Error for ArtifactError {}

impl From<io::Error> for ArtifactError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::NotFound => Self::Missing,
            _ => Self::Io(error),
        }
    }
}

type ArtifactResult<T> = Result<T, ArtifactError>;

/// A folder of files.
#[derive(Clone, Debug)]
pub struct Artifacts {
    root: PathBuf,
}

impl Artifacts {
    /// The files under a folder, which is made when something is kept.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Begins a file that is too large to be held in memory. Blocks, like everything a draft does.
    pub fn draft(&self) -> io::Result<Draft> {
        let folder = self.root.join(DRAFTS);
        make_folder(&folder)?;
        let path = folder.join(random_name());
        let file = new_file(&path)?;
        Ok(Draft {
            artifacts: self.clone(),
            file,
            path,
            context: Context::new(&SHA256),
            size_bytes: 0,
        })
    }

    /// Keeps bytes under a key that holds their hash: on disk when this returns, whole or not at
    /// all. What is there already and whole stays; what is damaged is replaced. Returns whether it
    /// was written.
    pub async fn put(&self, key: &str, bytes: Vec<u8>, sha256: &str) -> ArtifactResult<bool> {
        let (this, key, sha256) = (self.clone(), key.to_owned(), sha256.to_owned());
        blocking(move || this.put_now(&key, &bytes, &sha256)).await
    }

    /// Reads a file.
    pub async fn get(&self, key: &str, bytes_max: u64) -> ArtifactResult<Vec<u8>> {
        let (this, key) = (self.clone(), key.to_owned());
        blocking(move || this.get_now(&key, bytes_max)).await
    }

    /// Removes a file; one that is missing is removed already.
    pub async fn remove(&self, key: &str) -> ArtifactResult<()> {
        let (this, key) = (self.clone(), key.to_owned());
        blocking(move || this.remove_now(&key)).await
    }

    /// Where a key leads and its folder, which is there afterwards.
    fn place(&self, key: &str) -> ArtifactResult<(PathBuf, PathBuf)> {
        let path = self.path(key)?;
        let folder = path.parent().unwrap_or(&self.root).to_owned();
        make_folder(&self.root).map_err(ArtifactError::Io)?;
        // A link must not make folders elsewhere either.
        let present = folder.ancestors().find(|folder| folder.exists());
        self.check_inside(present.unwrap_or(&self.root), key)?;
        make_folder(&folder).map_err(ArtifactError::Io)?;
        Ok((path, folder))
    }

    fn put_now(&self, key: &str, bytes: &[u8], sha256: &str) -> ArtifactResult<bool> {
        let (path, folder) = self.place(key)?;
        if let Ok(present) = fs::read(&path)
            && sha256_of(&present) == sha256
        {
            return Ok(false);
        }
        let draft = folder.join(format!(".{}.draft", random_name()));
        let written = write_whole(&draft, &path, &folder, bytes);
        if written.is_err() {
            // A draft is not used; failing to remove it must not hide the first error.
            drop(fs::remove_file(&draft));
        }
        written.map(|()| true).map_err(ArtifactError::Io)
    }

    fn remove_now(&self, key: &str) -> ArtifactResult<()> {
        let path = self.path(key)?;
        let removed = self.check_inside(&path, key).and_then(|()| {
            fs::remove_file(&path)?;
            Ok(())
        });
        match removed {
            Err(ArtifactError::Missing) => Ok(()),
            removed => removed,
        }
    }

    fn get_now(&self, key: &str, bytes_max: u64) -> ArtifactResult<Vec<u8>> {
        let path = self.path(key)?;
        self.check_inside(&path, key)?;
        let file = File::open(&path)?;
        let about = file.metadata()?;
        if !about.is_file() {
            return Err(ArtifactError::Missing);
        }
        let too_large = |size_bytes| Err(ArtifactError::TooLarge { size_bytes });
        if about.len() > bytes_max {
            return too_large(about.len());
        }
        let mut bytes = Vec::new();
        // It may be growing.
        file.take(bytes_max.saturating_add(1))
            .read_to_end(&mut bytes)?;
        if bytes.len() as u64 > bytes_max {
            too_large(bytes.len() as u64)
        } else {
            Ok(bytes)
        }
    }

    /// Where a key leads, as far as its words say.
    fn path(&self, key: &str) -> ArtifactResult<PathBuf> {
        let outside = || ArtifactError::Outside(key.to_owned());
        let normal = normalize_to_artifact_key(key).map_err(|_| outside())?;
        let relative = Path::new(&normal);
        let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_));
        let is_inside = !normal.is_empty() && relative.components().all(is_plain);
        if is_inside && !normal.contains('\0') {
            Ok(self.root.join(relative))
        } else {
            Err(outside())
        }
    }

    /// Refuses what leads out of the folder by a link.
    fn check_inside(&self, path: &Path, key: &str) -> ArtifactResult<()> {
        let (root, path) = (fs::canonicalize(&self.root)?, fs::canonicalize(path)?);
        if path.starts_with(root) {
            Ok(())
        } else {
            Err(ArtifactError::Outside(key.to_owned()))
        }
    }
}

/// A folder and those above it, for its owner only. One that is there keeps its rights.
fn make_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// A new file, for its owner only.
fn new_file(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
}

/// A file that is being written and has no name yet. Dropped, it is gone.
pub struct Draft {
    artifacts: Artifacts,
    file: File,
    path: PathBuf,
    context: Context,
    size_bytes: u64,
}

impl Draft {
    /// Adds bytes.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.context.update(bytes);
        self.size_bytes += bytes.len() as u64;
        Ok(())
    }

    /// How much there is.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// The hash of what there is, in lower-case hex.
    pub fn sha256(&self) -> String {
        hex(self.context.clone().finish().as_ref())
    }

    /// Gives it its name: on disk when this returns, whole or not at all.
    pub fn keep(self, key: &str) -> Result<(), ArtifactError> {
        let (path, folder) = self.artifacts.place(key)?;
        let kept = || {
            self.file.sync_all()?;
            fs::rename(&self.path, &path)?;
            File::open(&folder)?.sync_all()
        };
        kept().map_err(ArtifactError::Io)
    }
}

impl fmt::Debug for Draft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Draft")
            .field("path", &self.path)
            .field("size_bytes", &self.size_bytes)
            .finish_non_exhaustive()
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // It has its final name, or is not used.
        drop(fs::remove_file(&self.path));
    }
}

fn write_whole(draft: &Path, path: &Path, folder: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = new_file(draft)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(draft, path)?;
    // So that the name survives a power cut as well.
    File::open(folder)?.sync_all()
}

/// The hash of some bytes, in lower-case hex.
pub fn sha256_of(bytes: &[u8]) -> String {
    let mut context = Context::new(&SHA256);
    context.update(bytes);
    hex(context.finish().as_ref())
}

fn random_name() -> String {
    let mut bytes = [0; 8];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.expect("invariant: the system has randomness");
    hex(&bytes)
}

/// Bytes as lower-case hex.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Files block; a thread of its own does not.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> ArtifactResult<T> + Send + 'static,
) -> ArtifactResult<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(gone) => Err(ArtifactError::Io(io::Error::other(gone))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "attachments/evidence/p/2c/hello.txt";

    #[tokio::test]
    async fn what_was_put_is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let artifacts = Artifacts::new(folder.path().join("made"));
        let sha = sha256_of(b"hello");
        let put = async || artifacts.put(KEY, b"hello".to_vec(), &sha).await.unwrap();
        assert_eq!((put().await, put().await), (true, false));
        artifacts.remove(KEY).await.unwrap();
        artifacts.remove(KEY).await.unwrap();
        assert!(put().await);
        let uri = format!("artifact://{KEY}");
        assert_eq!(artifacts.get(&uri, 5).await.unwrap(), b"hello");
        let too_large = artifacts.get(KEY, 4).await.unwrap_err();
        assert!(matches!(
            too_large,
            ArtifactError::TooLarge { size_bytes: 5 }
        ));
        let missing = artifacts.get("attachments/other", 5).await.unwrap_err();
        assert!(matches!(missing, ArtifactError::Missing));
        let files = fs::read_dir(folder.path().join("made/attachments/evidence/p/2c"));
        assert_eq!(files.unwrap().count(), 1, "no drafts are left");
    }

    #[tokio::test]
    async fn a_damaged_file_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let artifacts = Artifacts::new(folder.path());
        let sha = sha256_of(b"hello");
        artifacts.put(KEY, b"hello".to_vec(), &sha).await.unwrap();
        fs::write(folder.path().join(KEY), b"hell").unwrap();
        artifacts.put(KEY, b"hello".to_vec(), &sha).await.unwrap();
        assert_eq!(artifacts.get(KEY, 5).await.unwrap(), b"hello");
    }

    #[test]
    fn a_draft_is_kept_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let artifacts = Artifacts::new(folder.path());
        let mut draft = artifacts.draft().unwrap();
        draft.write(b"hel").unwrap();
        draft.write(b"lo").unwrap();
        assert_eq!(draft.size_bytes(), 5);
        assert_eq!(draft.sha256(), sha256_of(b"hello"));
        assert!(!folder.path().join(KEY).exists());
        draft.keep(KEY).unwrap();
        assert_eq!(fs::read(folder.path().join(KEY)).unwrap(), b"hello");
        drop(artifacts.draft().unwrap());
        let outside = artifacts.draft().unwrap().keep("../x");
        assert!(matches!(outside, Err(ArtifactError::Outside(_))));
        let drafts = fs::read_dir(folder.path().join(DRAFTS)).unwrap();
        assert_eq!(drafts.count(), 0, "no drafts are left");
    }

    #[tokio::test]
    async fn files_and_folders_are_their_owners_only() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("a/b");
        let artifacts = Artifacts::new(&root);
        artifacts.put(KEY, b"hello".to_vec(), "").await.unwrap();
        let draft = artifacts.draft().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        for file in [&root.join(KEY), &draft.path] {
            assert_eq!(mode(file), 0o600, "{file:?}");
            let above = file.ancestors().skip(1);
            for above in above.take_while(|above| *above != folder.path()) {
                assert_eq!(mode(above), 0o700, "{above:?}");
            }
        }
    }

    #[tokio::test]
    async fn the_whole_key_names_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let artifacts = Artifacts::new(folder.path());
        let keys = ["scm/a?b=c", "scm/a", "scm/C#.md", "artifact://notes:1.md"];
        for key in keys {
            let bytes = key.as_bytes().to_vec();
            artifacts.put(key, bytes, "").await.unwrap();
        }
        for key in keys {
            assert_eq!(artifacts.get(key, 100).await.unwrap(), key.as_bytes());
        }
        assert!(folder.path().join("scm/C#.md").exists());
    }

    #[tokio::test]
    async fn nothing_leads_out_of_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        fs::create_dir(&root).unwrap();
        fs::write(folder.path().join("secret"), b"x").unwrap();
        std::os::unix::fs::symlink(folder.path(), root.join("link")).unwrap();
        let artifacts = Artifacts::new(&root);
        let keys = [
            "../secret",
            "a/../../secret",
            "link/secret",
            "link/new/secret",
            "artifact://../secret",
            "file:///etc/passwd",
            "..",
            "",
            "a\0b",
        ];
        for key in keys {
            let refused = artifacts.get(key, 10).await;
            assert!(refused.is_err(), "read {key:?}");
            let refused = artifacts.put(key, b"y".to_vec(), "").await;
            assert!(refused.is_err(), "wrote {key:?}");
            // What is not there is removed; what is outside stays.
            drop(artifacts.remove(key).await);
        }
        // Leading slashes are not part of a key: this one stays inside.
        let absolute = artifacts.get("/etc/passwd", 1 << 20).await;
        assert!(matches!(absolute, Err(ArtifactError::Missing)));
        assert_eq!(fs::read(folder.path().join("secret")).unwrap(), b"x");
        assert!(!folder.path().join("new").exists());
    }
}
