//! Reads a data file line by line, and compares it with its manifest at the end.

use std::{
    fmt,
    fs::File,
    io::{self, BufRead, BufReader, ErrorKind, Read, Take},
    path::{Path, PathBuf},
};

use consign_kernel::MessageId;
use serde::Deserialize;
use zstd::stream::read::Decoder;

use crate::{
    Error, Manifest, Record, Result,
    hash::{Hash, HashedFile},
};

type Input = BufReader<Take<Decoder<'static, BufReader<HashedFile<File>>>>>;

/// One line of a data file.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) id: MessageId,
    /// Without the line's end.
    pub(crate) text: String,
}

#[derive(Deserialize)]
struct Head {
    id: MessageId,
}

/// The lines of a data file, in ascending order of ids.
///
/// The end is reported only after length and SHA-256 of the file and of its lines match the
/// manifest, so a reader that stops earlier has not verified them.
pub(crate) struct Lines {
    path: PathBuf,
    manifest: Manifest,
    /// None after the end and after an error.
    input: Option<Input>,
    hash: Hash,
    number: u64,
    previous: Option<MessageId>,
}

impl Lines {
    /// Opens the file at `path`, which `manifest` describes.
    pub(crate) fn open(path: PathBuf, manifest: &Manifest) -> Result<Self> {
        let file = File::open(&path).map_err(|error| match error.kind() {
            ErrorKind::NotFound => Error::DataMissing {
                path: path.clone(),
                manifest: manifest.name().to_string(),
            },
            _ => Error::io("open", &path)(error),
        })?;
        let metadata = file.metadata().map_err(Error::io("read", &path))?;
        if metadata.len() != manifest.bytes {
            let why = format!(
                "it has {} bytes, its manifest records {}",
                metadata.len(),
                manifest.bytes
            );
            return Err(Error::damaged(&path, why));
        }
        let decoder = Decoder::with_buffer(BufReader::new(HashedFile::new(file)));
        let decoder = decoder.map_err(Error::io("decompress", &path))?;
        // A damaged file must not fill the memory: nothing is read beyond the recorded length.
        let bytes_max = manifest.bytes_uncompressed.saturating_add(1);
        Ok(Self {
            input: Some(BufReader::new(decoder.take(bytes_max))),
            manifest: manifest.clone(),
            hash: Hash::new(),
            number: 0,
            previous: None,
            path,
        })
    }

    /// The record in a line of this file.
    pub(crate) fn record(&self, line: &Line) -> Result<Record> {
        serde_json::from_str(&line.text).map_err(|error| self.damaged_line(&error.to_string()))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn damaged_line(&self, why: &str) -> Error {
        Error::damaged(&self.path, format!("line {}: {why}", self.number))
    }

    fn read_line(&mut self, input: &mut Input) -> Result<Option<Line>> {
        let mut text = String::new();
        let length = input
            .read_line(&mut text)
            .map_err(|error| self.unreadable(error))?;
        if length == 0 {
            let decoder = input.get_ref().get_ref();
            return self.compare(&decoder.get_ref().get_ref().hash);
        }
        self.hash.update(text.as_bytes());
        self.number += 1;
        if text.pop() != Some('\n') {
            return Err(self.damaged_line("it is cut off"));
        }
        let head = serde_json::from_str(&text);
        let Head { id } = head.map_err(|error| self.damaged_line(&error.to_string()))?;
        if !self.manifest.range().contains(id) {
            return Err(self.damaged_line(&format!("message {id} is out of bounds")));
        }
        if let Some(previous) = self.previous.replace(id)
            && previous >= id
        {
            let why = format!("message {id} comes after message {previous}");
            return Err(self.damaged_line(&why));
        }
        Ok(Some(Line { id, text }))
    }

    /// Compares the whole file with its manifest.
    fn compare(&self, compressed: &Hash) -> Result<Option<Line>> {
        let manifest = &self.manifest;
        for (what, hash, bytes, sha256) in [
            ("it", compressed, manifest.bytes, &manifest.sha256),
            (
                "its decompressed text",
                &self.hash,
                manifest.bytes_uncompressed,
                &manifest.sha256_uncompressed,
            ),
        ] {
            if (hash.bytes(), &hash.sha256()) != (bytes, sha256) {
                let (own_bytes, own_sha256) = (hash.bytes(), hash.sha256());
                let why = format!(
                    "{what} has {own_bytes} bytes with SHA-256 {own_sha256}, its manifest records \
                     {bytes} bytes with SHA-256 {sha256}"
                );
                return Err(Error::damaged(&self.path, why));
            }
        }
        Ok(None)
    }

    /// The operating system failed, or the decoder rejected the bytes.
    fn unreadable(&self, error: io::Error) -> Error {
        if error.raw_os_error().is_some() {
            return Error::io("read", &self.path)(error);
        }
        let why = format!("it cannot be decompressed ({error})");
        Error::damaged(&self.path, why)
    }
}

impl Iterator for Lines {
    type Item = Result<Line>;

    fn next(&mut self) -> Option<Result<Line>> {
        let mut input = self.input.take()?;
        let line = self.read_line(&mut input).transpose();
        if let Some(Ok(_)) = line {
            self.input = Some(input);
        }
        line
    }
}

impl fmt::Debug for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lines")
            .field("path", &self.path)
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

/// The records of a data file, in ascending order of ids.
///
/// Ends with an error if the file or its lines do not have the length and SHA-256 of the manifest.
#[derive(Debug)]
pub struct Records {
    pub(crate) lines: Lines,
}

impl Iterator for Records {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Result<Record>> {
        let line = self.lines.next()?;
        Some(line.and_then(|line| self.lines.record(&line)))
    }
}
