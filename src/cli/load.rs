//! Loads the configuration: reads its file, and finds the system's CA bundle. Changes nothing.

use std::io;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

use crate::system::exit::{Exit, chain, sentence};
use crate::system::files::{self, FileError, LARGEST};
use podnudge_config::{Config, Overrides, Problem, Problems, Translated, parse_with_zones};
use podnudge_core::shown::path_literal;
use podnudge_core::week::ZONES;

/// The name of standard input in place of a file.
const STDIN: &str = "-";

/// The paths at which distributions keep their trusted CA certificates in one PEM file.
const BUNDLES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// The sources of the configuration.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// The configuration file; `-` is standard input.
    pub config: Option<PathBuf>,
    /// A configuration that was made from the options of another program, instead of a file.
    pub translated: Option<Translated>,
    /// Options and environment variables, which take precedence over the file.
    pub overrides: Overrides,
    /// Warnings, such as a misspelt environment variable.
    pub warnings: Vec<Problem>,
}

/// Why the configuration could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file could not be read.
    #[error("cannot read the configuration {}", path_literal(path))]
    Read {
        /// The file, as the user named it.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The path is not a file.
    #[error("the configuration {} is {kind}, not a file", path_literal(path))]
    NotAFile {
        /// The path, as the user named it.
        path: PathBuf,
        /// The file type of what is there.
        kind: &'static str,
    },
    /// The file is not text.
    #[error("{}:{line}: not UTF-8 text", path_literal(path))]
    NotText {
        /// The file, as the user named it.
        path: PathBuf,
        /// The line with the first wrong byte.
        line: usize,
    },
    /// The file is larger than a configuration can be.
    #[error(
        "the configuration {} is larger than {} KiB",
        path_literal(path),
        LARGEST / 1024
    )]
    TooLarge {
        /// The file, as the user named it.
        path: PathBuf,
    },
    /// The configuration is wrong.
    #[error(transparent)]
    Wrong(#[from] Problems),
}

impl LoadError {
    /// The exit code.
    #[must_use]
    pub fn exit(&self) -> Exit {
        match self {
            Self::Read { .. } | Self::NotAFile { .. } => Exit::NoInput,
            Self::Wrong(problems) if problems.are_in_options() => Exit::Usage,
            Self::NotText { .. } | Self::TooLarge { .. } | Self::Wrong(_) => Exit::Config,
        }
    }

    /// The message for the user.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            // Each problem brings its place and its hint.
            Self::Wrong(problems) => format!("{problems}\n"),
            error => sentence(&chain(error), error.hint()),
        }
    }

    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Read { source, .. } => match source.kind() {
                io::ErrorKind::NotFound => {
                    Some("is its volume mounted in podnudge's own container, at this path?")
                }
                io::ErrorKind::PermissionDenied => {
                    Some("it must be readable by the user that podnudge runs as")
                }
                _ => None,
            },
            Self::NotAFile { kind: "a directory", .. } => {
                Some("a mounted ConfigMap is a directory; name the file in it")
            }
            Self::NotText { .. } | Self::TooLarge { .. } => Some("is this the right file?"),
            Self::NotAFile { .. } => Some("name a regular file"),
            Self::Wrong(_) => None,
        }
    }
}

/// Loads the configuration from the file and the overrides; returns it with its warnings.
///
/// # Errors
///
/// If the file cannot be read, or with all problems of the configuration.
pub fn load(arguments: &Sources) -> Result<(Config, Vec<Problem>), LoadError> {
    let bundle = BUNDLES.iter().map(Path::new).find(|path| path.is_file());
    let zones = |name: &str| files::read(&Path::new(ZONES).join(name), LARGEST).ok();
    let Sources { config, translated, overrides, .. } = arguments;
    let (file_name, Translated { text, origins }) = match (config, translated) {
        (None, None) => ("(no file)".into(), Translated::default()),
        (None, Some(translated)) => ("(translated)".into(), translated.clone()),
        (Some(path), _) => {
            let name = if path == Path::new(STDIN) { Path::new("(standard input)") } else { path };
            let translated = Translated { text: read(path, name)?, origins: Vec::new() };
            (name.to_string_lossy(), translated)
        }
    };
    Ok(parse_with_zones(&file_name, &text, &origins, overrides, bundle, &zones)?)
}

/// Reads the file at `path`, which messages call `name`.
fn read(path: &Path, name: &Path) -> Result<String, LoadError> {
    let read = if path == Path::new(STDIN) {
        let stdin = io::stdin().as_fd().try_clone_to_owned().map_err(FileError::from);
        stdin.and_then(|stdin| files::read_to_end(stdin.into(), LARGEST))
    } else {
        files::read(path, LARGEST)
    };
    let path = name.to_owned();
    let bytes = match read {
        Ok(bytes) => bytes,
        Err(FileError::System(source)) => return Err(LoadError::Read { path, source }),
        Err(FileError::NotAFile(kind)) => return Err(LoadError::NotAFile { path, kind }),
        Err(FileError::TooLarge(_)) => return Err(LoadError::TooLarge { path }),
    };
    String::from_utf8(bytes).map_err(|error| {
        let good = error.as_bytes().iter().take(error.utf8_error().valid_up_to());
        let line = good.filter(|&&byte| byte == b'\n').count() + 1;
        LoadError::NotText { path, line }
    })
}
