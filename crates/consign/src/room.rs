//! How far the database may grow.

use std::path::PathBuf;

use serde::Serialize;

use crate::{config::Retention, database::Address};

/// What bounds the growth of a database.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bounds {
    pub(crate) size_max_bytes: Option<u64>,
    /// A path on the disk of the database.
    pub(crate) disk: Option<PathBuf>,
}

impl Bounds {
    /// The disk of a file is that of the file; the disk of a server is known if the settings name a path on it.
    pub(crate) fn of(address: &Address, settings: &Retention) -> Self {
        let disk = match address {
            Address::Sqlite { path, .. } => Some(path.clone()),
            Address::Postgres { .. } => settings.disk_path.clone(),
        };
        Self {
            size_max_bytes: settings.size_max_bytes,
            disk,
        }
    }

    /// What is left of the nearest bound for a history of so many bytes.
    pub(crate) fn room(&self, bytes: u64) -> Option<Room> {
        let by_size = self.size_max_bytes.map(|max| Room {
            bytes: max.saturating_sub(bytes),
            bound: Bound::SizeMax,
        });
        let by_disk = self.free_bytes().map(|bytes| Room {
            bytes,
            bound: Bound::Disk,
        });
        let bounds = [by_size, by_disk].into_iter().flatten();
        bounds.min_by_key(|room| room.bytes)
    }

    fn free_bytes(&self) -> Option<u64> {
        let disk = rustix::fs::statvfs(self.disk.as_ref()?).ok()?;
        Some(disk.f_bavail.saturating_mul(disk.f_frsize))
    }
}

/// What ends the growth of a database first, as far as this process can know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Room {
    /// Bytes until then.
    pub(crate) bytes: u64,
    /// The bound.
    pub(crate) bound: Bound,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Bound {
    /// `retention.size_max_bytes`.
    SizeMax,
    /// The disk of the file, or `retention.disk_path`.
    Disk,
}

/// `1.2 GB`.
pub(crate) fn bytes_text(bytes: u64) -> String {
    let units = [
        (1_000_000_000_000, "TB"),
        (1_000_000_000, "GB"),
        (1_000_000, "MB"),
        (1_000, "kB"),
    ];
    match units.into_iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => format!("{:.1} {name}", bytes as f64 / unit as f64),
        None => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearer_bound_counts() {
        let folder = tempfile::TempDir::new().unwrap();
        let bounds = |size_max_bytes, disk: Option<&std::path::Path>| Bounds {
            size_max_bytes,
            disk: disk.map(Into::into),
        };
        let by_size = |bytes| Room {
            bytes,
            bound: Bound::SizeMax,
        };
        assert_eq!(bounds(None, None).room(5), None);
        assert_eq!(bounds(Some(7), None).room(5), Some(by_size(2)));
        assert_eq!(bounds(Some(7), None).room(9), Some(by_size(0)));
        assert_eq!(
            bounds(Some(7), Some(folder.path())).room(5),
            Some(by_size(2))
        );
        let by_disk = bounds(Some(u64::MAX), Some(folder.path())).room(0).unwrap();
        assert_eq!(by_disk.bound, Bound::Disk);
    }

    #[test]
    fn bytes_have_a_unit() {
        for (bytes, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1_500, "1.5 kB"),
            (2_000_000_000, "2.0 GB"),
        ] {
            assert_eq!(bytes_text(bytes), text);
        }
    }
}
