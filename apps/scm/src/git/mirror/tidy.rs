//! What is left in a mirror by those who were ended, and packing it.

use std::{fs, time::Duration};

use super::super::command::Git;
use crate::ScmError;

/// A large repository takes long, and what is cut short was for nothing.
pub(super) const PACKING_MAX: Duration = Duration::from_secs(2 * 60 * 60);
/// What failed will fail again: it is not tried at every synchronisation.
const PAUSE: Duration = Duration::from_secs(24 * 60 * 60);
/// Says by its age when packing failed last, and why.
const FAILED: &str = "consign-packing-failed";
const LOCKS: [&str; 9] = [
    "refs/consign/tip.lock",
    "refs/consign/before.lock",
    "packed-refs.lock",
    "shallow.lock",
    "FETCH_HEAD.lock",
    "gc.pid",
    "gc.pid.lock",
    "objects/info/commit-graph.lock",
    "objects/pack/multi-pack-index.lock",
];

/// Removes what stands in the way or fills the disk. Whoever calls this holds the mirror's lock: those
/// who made it are gone.
pub(super) fn clear(git: &Git) {
    for left in LOCKS {
        drop(fs::remove_file(git.dir().join(left)));
    }
    // Packs that were never finished can be as large as the repository.
    let Ok(packs) = fs::read_dir(git.dir().join("objects/pack")) else {
        return;
    };
    for pack in packs.flatten() {
        let name = pack.file_name();
        let name = name.to_string_lossy();
        if name.starts_with("tmp_") || name.starts_with(".tmp-") {
            drop(fs::remove_file(pack.path()));
        }
    }
}

/// Packs what many fetches have left, if it is time to. A mirror that is not packed is a mirror.
pub(super) async fn pack(git: &Git, time_max: Duration) -> Result<(), ScmError> {
    let mark = git.dir().join(FAILED);
    let failed_at = fs::metadata(&mark).and_then(|mark| mark.modified());
    let failed_ago = failed_at.ok().and_then(|at| at.elapsed().ok());
    if failed_ago.is_some_and(|ago| ago < PAUSE) {
        return Ok(());
    }
    let why = match git.run_for(time_max, &["gc", "--auto", "--quiet"]).await {
        Ok(Ok(_)) => {
            drop(fs::remove_file(&mark));
            return Ok(());
        }
        Ok(Err(failure)) => failure.detail(),
        Err(error @ ScmError::Timeout { .. }) => error.to_string(),
        Err(error) => return Err(error),
    };
    clear(git);
    tracing::warn!(mirror = %git.dir().display(), why, "git gc failed; it is tried again in a day");
    if let Err(error) = fs::write(&mark, why) {
        tracing::warn!(mark = %mark.display(), %error, "cannot be written: git gc is tried again at once");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{path::Path, time::SystemTime};

    use tempfile::TempDir;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    /// A mirror with two packs where one is the most there should be.
    async fn mirror() -> (TempDir, Git) {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("1.git");
        let mut git = Git::new("x", &dir, LONG);
        git.set("gc.autoPackLimit", "1");
        git.set("user.name", "a");
        git.set("user.email", "a@x");
        super::super::init(&git, "sha1").await.unwrap();
        let tree = git.ask(&["write-tree"]).await.unwrap();
        for n in ["1", "2"] {
            let commit = git.ask(&["commit-tree", "-m", n, &tree]).await.unwrap();
            let name = format!("refs/consign/{n}");
            git.ask(&["update-ref", &name, &commit]).await.unwrap();
            git.ask(&["repack", "-q"]).await.unwrap();
        }
        (folder, git)
    }

    fn packs(git: &Git) -> usize {
        let packs = fs::read_dir(git.dir().join("objects/pack")).unwrap();
        let is_pack = |path: &Path| path.extension().is_some_and(|end| end == "pack");
        packs
            .filter(|pack| is_pack(&pack.as_ref().unwrap().path()))
            .count()
    }

    #[tokio::test]
    async fn packing_that_takes_too_long_is_not_begun_again_for_a_day() {
        let (_folder, git) = mirror().await;
        assert_eq!(packs(&git), 2);
        let left = git.dir().join("objects/pack/tmp_pack_x");
        fs::write(&left, "half").unwrap();
        pack(&git, Duration::ZERO).await.unwrap();
        assert!(!left.exists(), "what it left is gone");
        let mark = git.dir().join(FAILED);
        let why = fs::read_to_string(&mark).unwrap();
        assert!(why.contains("did not get on"), "{why}");
        pack(&git, LONG).await.unwrap();
        assert_eq!(packs(&git), 2, "not yet");
        let file = fs::File::options().write(true).open(&mark).unwrap();
        file.set_modified(SystemTime::now() - PAUSE).unwrap();
        pack(&git, LONG).await.unwrap();
        assert_eq!(packs(&git), 1);
        assert!(!mark.exists());
    }

    #[tokio::test]
    async fn what_was_never_finished_is_removed_and_nothing_else() {
        let (_folder, git) = mirror().await;
        let packed = git.dir().join("objects/pack");
        for name in ["tmp_pack_x", "tmp_idx_x", ".tmp-7-pack-x.pack"] {
            fs::write(packed.join(name), "half").unwrap();
        }
        for name in LOCKS {
            fs::create_dir_all(git.dir().join(name).parent().unwrap()).unwrap();
            fs::write(git.dir().join(name), "").unwrap();
        }
        clear(&git);
        assert_eq!(packs(&git), 2);
        let rest = fs::read_dir(&packed).unwrap();
        let names = rest.map(|file| file.unwrap().file_name());
        let names: Vec<String> = names
            .map(|name| name.to_string_lossy().into_owned())
            .collect();
        assert!(
            names.iter().all(|name| name.starts_with("pack-")),
            "{names:?}"
        );
        assert!(LOCKS.iter().all(|name| !git.dir().join(name).exists()));
    }
}
