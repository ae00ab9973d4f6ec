//! Opening an input: plain, gzip or zstd, by its first bytes. What is packed otherwise is refused by name.

use std::io::{BufRead, BufReader, Cursor, Read};
use std::sync::atomic::{AtomicU64, Ordering};
use std::{fs::File, io, path::Path, path::PathBuf, sync::Arc};

use loopwarden_log::LogError;

use loopwarden_sources::transcript::{PIECE_BYTES_MAX, is_undecided};

const BUFFER_BYTES: usize = 64 * 1024;
/// First bytes by which an input is told; more where they end within a line, and nothing before it says whose it is.
const HEAD_BYTES: usize = 128 * 1024;
const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
/// What is recognised and not unpacked: read as lines it would be one "no event" after the other.
const OTHERS: [(&[u8], &str); 3] = [(b"BZh", "bzip2"), (b"\xfd7zXZ\0", "xz"), (b"PK\x03\x04", "zip")];
/// Names of what is open already.
const DESCRIPTORS: [&str; 3] = ["/dev/stdin", "/dev/fd", "/proc/self/fd"];
/// First bytes that tell how an input is packed.
const MAGIC_BYTES: usize = 6;

/// One input of a replay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileInput {
    Path(PathBuf),
    Stdin,
}

impl FileInput {
    /// The input that an argument names: `-` is standard input.
    pub fn from_argument(argument: &str) -> Self {
        if argument == "-" { Self::Stdin } else { Self::Path(PathBuf::from(argument)) }
    }

    pub fn name(&self) -> String {
        match self {
            Self::Path(path) => path.display().to_string(),
            Self::Stdin => "standard input".to_owned(),
        }
    }

    /// Whether it can be read only once: standard input, a pipe, anything but a regular file or a directory. What is opened of it
    /// twice is lost.
    pub fn is_read_once(&self) -> bool {
        match self {
            Self::Path(path) => std::fs::metadata(path).is_ok_and(|about| !about.is_file() && !about.is_dir()),
            Self::Stdin => true,
        }
    }

    /// Whether it can be opened, and is packed with what can be unpacked: better said before anything is read.
    pub(super) fn check(&self) -> Result<(), LogError> {
        let Self::Path(path) = self else { return Ok(()) };
        let look = || if self.is_read_once() { expect_end(path) } else { magic(&mut File::open(path)?).map(drop) };
        look().map_err(|error| self.unreadable(&error))
    }

    pub(super) fn unreadable(&self, cause: &dyn std::fmt::Display) -> LogError {
        LogError::Fatal { code: "E0302", message: format!("cannot read {}: {cause}", self.name()) }
    }

    /// Opens it; what is read of it, as it lies on disk, is added to `read`.
    pub(super) fn open(&self, read: Arc<AtomicU64>) -> io::Result<Opened> {
        match self {
            Self::Path(path) => Opened::begin(decoded(Counted { source: open_named(path)?, read })?, self.is_read_once()),
            Self::Stdin => Opened::begin(decoded(Counted { source: io::stdin(), read })?, true),
        }
    }

    /// Opens it, and unpacks it while it is read.
    ///
    /// # Errors
    /// It cannot be opened, or its first bytes not be read.
    pub fn unpacked(&self) -> io::Result<Box<dyn BufRead + Send>> {
        match self {
            Self::Path(path) => decoded(open_named(path)?),
            Self::Stdin => decoded(io::stdin()),
        }
    }

    /// Bytes of it on disk; nobody knows those of a pipe.
    pub(super) fn bytes(&self) -> Option<u64> {
        match self {
            Self::Path(path) if !self.is_read_once() => Some(std::fs::metadata(path).map_or(0, |about| about.len())),
            Self::Path(_) | Self::Stdin => None,
        }
    }
}

/// Opens a file that an argument names.
///
/// # Errors
/// It cannot be opened; it is one that nobody may ever come to the end of.
pub fn open_named(path: &Path) -> io::Result<File> {
    expect_end(path)?;
    File::open(path)
}

/// Refuses what may have no end. Whoever opens a pipe by its name waits for a writer, and many devices go on for ever; a descriptor that a
/// shell has opened for us is meant, and ends with its writer.
fn expect_end(path: &Path) -> io::Result<()> {
    let about = std::fs::metadata(path)?;
    let is_descriptor = DESCRIPTORS.iter().any(|descriptors| path.starts_with(descriptors));
    if about.is_file() || about.is_dir() || is_descriptor {
        return Ok(());
    }
    Err(io::Error::other(
        "it is a named pipe, a socket or a device, and may have no end; give its contents on standard input, as -",
    ))
}

/// An open input and its first bytes, plain.
pub(super) struct Opened {
    head: Vec<u8>,
    source: Box<dyn BufRead + Send>,
}

impl Opened {
    /// `is_live`: who writes may wait for us, so a line must do.
    fn begin(mut source: Box<dyn BufRead + Send>, is_live: bool) -> io::Result<Self> {
        let (mut head, mut bytes_max) = (Vec::new(), HEAD_BYTES);
        loop {
            let buffer = match source.fill_buf() {
                Ok(buffer) => buffer,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // What was read before the damage is good.
                Err(error) if !head.is_empty() => return Ok(Self { head, source: Box::new(BufReader::new(Damaged(error))) }),
                Err(error) => return Err(error),
            };
            let is_over = buffer.is_empty();
            let count = buffer.len().min(bytes_max - head.len());
            head.extend(buffer.iter().take(count));
            source.consume(count);
            if is_over || (is_live && head.contains(&b'\n')) {
                return Ok(Self { head, source });
            }
            if head.len() == bytes_max {
                if bytes_max >= PIECE_BYTES_MAX || !is_undecided(&head) {
                    return Ok(Self { head, source });
                }
                bytes_max = (2 * bytes_max).min(PIECE_BYTES_MAX);
            }
        }
    }

    pub(super) fn head(&self) -> &[u8] {
        &self.head
    }

    /// The whole of it, from its beginning.
    pub(super) fn into_source(self) -> Box<dyn BufRead + Send> {
        Box::new(Cursor::new(self.head).chain(self.source))
    }
}

/// What is left of a source that cannot be read on.
struct Damaged(io::Error);

impl Read for Damaged {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::new(self.0.kind(), self.0.to_string()))
    }
}

/// A source whose bytes are counted.
struct Counted<R> {
    source: R,
    read: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.source.read(buffer)?;
        self.read.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

/// The first bytes of a source; an error where they are those of something that is not unpacked here.
fn magic(source: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut head = Vec::with_capacity(MAGIC_BYTES);
    source.take(MAGIC_BYTES as u64).read_to_end(&mut head)?;
    match OTHERS.iter().find(|(magic, _)| head.starts_with(magic)) {
        Some((_, name)) => {
            let message = format!("packed with {name}; unpack it, or pack it with gzip or zstd");
            Err(io::Error::new(io::ErrorKind::InvalidData, message))
        }
        None => Ok(head),
    }
}

pub(super) fn decoded(mut source: impl Read + Send + 'static) -> io::Result<Box<dyn BufRead + Send>> {
    let head = magic(&mut source)?;
    let (gzip, zstd) = (head.starts_with(GZIP), head.starts_with(ZSTD));
    let whole = BufReader::with_capacity(BUFFER_BYTES, Cursor::new(head).chain(source));
    Ok(if gzip {
        Box::new(BufReader::with_capacity(BUFFER_BYTES, flate2::bufread::MultiGzDecoder::new(whole)))
    } else if zstd {
        Box::new(BufReader::with_capacity(BUFFER_BYTES, zstd::stream::read::Decoder::with_buffer(whole)?))
    } else {
        Box::new(whole)
    })
}
