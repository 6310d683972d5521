//! A small disk of its own for a program.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// Mounts a disk where only the process and its children see it.
const MOUNT: &str = r#"mount -t tmpfs -o "size=$2" none "$1" && shift 2 && exec "$@""#;

/// How to get a mount namespace: without rights, or as root where namespaces of users are off.
const NAMESPACES: &[&[&str]] = &[&["--user", "--map-root-user", "--mount"], &["--mount"]];

/// A small disk over a folder, seen only by the programs that are started on it.
#[derive(Debug)]
pub struct SmallDisk {
    folder: PathBuf,
    namespace: &'static [&'static str],
}

impl SmallDisk {
    /// One over this folder; `None` where this process has no right to mount.
    pub fn over(folder: &Path) -> Option<Self> {
        let disk = |namespace| Self {
            folder: folder.to_owned(),
            namespace,
        };
        let mut disks = NAMESPACES.iter().copied().map(disk);
        disks.find(|disk| {
            let mut command = disk.command("64k", &Command::new("true"));
            let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
            status.is_ok_and(|status| status.success())
        })
    }

    /// The same command on a new, empty disk of this size (`64k`).
    pub fn command(&self, size: &str, command: &Command) -> Command {
        let mut unshare = Command::new("unshare");
        unshare.args(self.namespace);
        unshare.args(["sh", "-c", MOUNT, "sh"]);
        unshare.arg(&self.folder).arg(size);
        pass_on(command, unshare)
    }

    /// The same command on the disk of a running program.
    pub fn command_beside(&self, process: u32, command: &Command) -> Command {
        let mut nsenter = Command::new("nsenter");
        nsenter.args(["--target", &process.to_string(), "--mount"]);
        if self.namespace.contains(&"--user") {
            nsenter.args(["--user", "--preserve-credentials"]);
        }
        // The program may be in another folder.
        nsenter.args(["env", "--chdir"]);
        nsenter.arg(command.get_current_dir().unwrap_or(&self.folder));
        pass_on(command, nsenter)
    }

    /// Gives the disk of a running program another size.
    ///
    /// # Panics
    /// Panics if the program has no disk of its own.
    pub fn resize(&self, process: u32, size: &str) {
        let mut mount = Command::new("mount");
        mount
            .args(["-o", &format!("remount,size={size}")])
            .arg(&self.folder);
        let status = self.command_beside(process, &mount).status();
        let status = status.expect("nsenter is there");
        assert!(
            status.success(),
            "resize {}: {status}",
            self.folder.display()
        );
    }
}

/// Starts `command` by another program that executes its arguments.
fn pass_on(command: &Command, mut by: Command) -> Command {
    by.arg(command.get_program()).args(command.get_args());
    if let Some(folder) = command.get_current_dir() {
        by.current_dir(folder);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => by.env(name, value),
            None => by.env_remove(name),
        };
    }
    by
}
