//! How far the database may grow.

use serde::Serialize;

use crate::database::Address;

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
    /// The disk of a file. That of a server is not known here.
    Disk,
}

impl Room {
    pub(crate) fn of(address: &Address, size_max_bytes: Option<u64>, bytes: u64) -> Option<Self> {
        let by_size = size_max_bytes.map(|max| Self {
            bytes: max.saturating_sub(bytes),
            bound: Bound::SizeMax,
        });
        let by_disk = free_bytes(address).map(|bytes| Self {
            bytes,
            bound: Bound::Disk,
        });
        let bounds = [by_size, by_disk].into_iter().flatten();
        bounds.min_by_key(|room| room.bytes)
    }
}

fn free_bytes(address: &Address) -> Option<u64> {
    match address {
        Address::Sqlite { path, .. } => {
            let disk = rustix::fs::statvfs(path).ok()?;
            Some(disk.f_bavail.saturating_mul(disk.f_frsize))
        }
        Address::Postgres { .. } => None,
    }
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
        let file = Address::Sqlite {
            path: folder.path().to_owned(),
            by_default: false,
        };
        let server = Address::Postgres { url: String::new() };
        let by_size = |bytes| Room {
            bytes,
            bound: Bound::SizeMax,
        };
        assert_eq!(Room::of(&server, None, 5), None);
        assert_eq!(Room::of(&server, Some(7), 5), Some(by_size(2)));
        assert_eq!(Room::of(&server, Some(7), 9), Some(by_size(0)));
        assert_eq!(Room::of(&file, Some(7), 5), Some(by_size(2)));
        let by_disk = Room::of(&file, Some(u64::MAX), 0).unwrap();
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
