//! SHA-256 of what passes through.

use std::io::{self, Read, Write};

use consign_kernel::hex;
use ring::digest::{Context, SHA256};

/// Length and SHA-256 of a stream of bytes.
#[derive(Clone)]
pub(crate) struct Hash {
    context: Context,
    bytes: u64,
}

impl Hash {
    pub(crate) fn new() -> Self {
        Self {
            context: Context::new(&SHA256),
            bytes: 0,
        }
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.context.update(bytes);
        self.bytes += bytes.len() as u64;
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// In lower-case hex.
    pub(crate) fn sha256(&self) -> String {
        hex(self.context.clone().finish().as_ref())
    }
}

/// A file, with the hash of what was read from it or written to it.
pub(crate) struct HashedFile<F> {
    pub(crate) file: F,
    pub(crate) hash: Hash,
}

impl<F> HashedFile<F> {
    pub(crate) fn new(file: F) -> Self {
        let hash = Hash::new();
        Self { file, hash }
    }
}

impl<F: Read> Read for HashedFile<F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.file.read(buffer)?;
        self.hash.update(&buffer[..length]);
        Ok(length)
    }
}

impl<F: Write> Write for HashedFile<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let length = self.file.write(bytes)?;
        self.hash.update(&bytes[..length]);
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
