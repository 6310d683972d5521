//! Cleans up after killed processes, and packs mirrors.

use std::{fs, time::Duration};

use super::super::command::Git;
use crate::ScmError;

/// Packing a large repository takes long, and an interrupted run is wasted.
pub(super) const PACKING_MAX: Duration = Duration::from_secs(2 * 60 * 60);
/// A failed packing is retried only after this time.
const PAUSE: Duration = Duration::from_secs(24 * 60 * 60);
/// Marker file: its age is the time of the last failed packing, its content the reason.
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

/// Removes leftover lock files and unfinished packs. The caller holds the mirror's lock, so their
/// writers are gone.
pub(super) fn clear(git: &Git) {
    for left in LOCKS {
        drop(fs::remove_file(git.dir().join(left)));
    }
    // Unfinished packs can be as large as the repository.
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

/// Packs the mirror if many fetches left loose packs. A failure does not affect the mirror.
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
    tracing::warn!(mirror = %git.dir().display(), why, "git gc failed; retrying in a day");
    if let Err(error) = fs::write(&mark, why) {
        tracing::warn!(mark = %mark.display(), %error, "cannot write the marker: git gc is retried at once");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{path::Path, time::SystemTime};

    use tempfile::TempDir;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    /// A mirror with two packs and a limit of one.
    async fn mirror() -> (TempDir, Git) {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("1.git");
        let mut git = Git::new("x", &dir, LONG);
        git.set("gc.autoPackLimit", "1");
        git.set("user.name", "a");
        git.set("user.email", "a@x");
        super::super::init(&git, "sha1").await.unwrap();
        let tree = git.run_local(&["write-tree"]).await.unwrap();
        for n in ["1", "2"] {
            let commit = git
                .run_local(&["commit-tree", "-m", n, &tree])
                .await
                .unwrap();
            let name = format!("refs/consign/{n}");
            git.run_local(&["update-ref", &name, &commit])
                .await
                .unwrap();
            git.run_local(&["repack", "-q"]).await.unwrap();
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
        assert!(!left.exists(), "its leftovers are removed");
        let mark = git.dir().join(FAILED);
        let why = fs::read_to_string(&mark).unwrap();
        assert!(why.contains("made no progress"), "{why}");
        pack(&git, LONG).await.unwrap();
        assert_eq!(packs(&git), 2, "not packed yet");
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
