//! Opening an input: plain, gzip or zstd, by its first bytes.

use std::fs::File;
use std::io;
use std::io::BufRead;
use std::io::BufReader;
use std::io::Cursor;
use std::io::Read;
use std::path::PathBuf;

use crate::log::LogError;

const BUFFER_BYTES: usize = 256 * 1024;
const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// One input of a replay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileInput {
    /// A file.
    Path(PathBuf),
    /// Standard input.
    Stdin,
}

impl FileInput {
    /// The input that an argument names: `-` is standard input.
    #[must_use]
    pub fn from_argument(argument: &str) -> Self {
        if argument == "-" { Self::Stdin } else { Self::Path(PathBuf::from(argument)) }
    }

    /// Name in messages.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Path(path) => path.display().to_string(),
            Self::Stdin => "standard input".to_owned(),
        }
    }

    /// Whether it can be opened: better said before anything is read.
    pub(super) fn check(&self) -> Result<(), LogError> {
        let Self::Path(path) = self else { return Ok(()) };
        match File::open(path).and_then(|file| file.metadata()) {
            Ok(about) if about.is_dir() => Err(self.unreadable(&"it is a directory")),
            Ok(_) => Ok(()),
            Err(error) => Err(self.unreadable(&error)),
        }
    }

    pub(super) fn unreadable(&self, cause: &dyn std::fmt::Display) -> LogError {
        LogError::Fatal { code: "E0302", message: format!("cannot read {}: {cause}", self.name()) }
    }

    pub(super) fn open(&self) -> io::Result<Box<dyn BufRead + Send>> {
        match self {
            Self::Path(path) => decoded(File::open(path)?),
            Self::Stdin => decoded(io::stdin()),
        }
    }
}

pub(super) fn decoded(mut source: impl Read + Send + 'static) -> io::Result<Box<dyn BufRead + Send>> {
    let mut head = Vec::with_capacity(ZSTD.len());
    source.by_ref().take(ZSTD.len() as u64).read_to_end(&mut head)?;
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
