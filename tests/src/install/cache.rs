//! The folder of a fetched server.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::{env, io};

use rustix::fs::{FlockOperation, flock};

/// The cache, locked against other processes until it is dropped.
pub(crate) struct Cache {
    folder: PathBuf,
    /// The system releases the lock when the process ends, however it ends.
    _lock: File,
}

impl Cache {
    /// Opens the cache, waiting while another process fills it.
    pub(super) fn open() -> Result<Self, String> {
        Self::open_for("redis-server")
    }

    /// The same for the server of this name.
    pub(crate) fn open_for(name: &str) -> Result<Self, String> {
        let folder = folder(name);
        let open = || -> io::Result<File> {
            fs::create_dir_all(&folder)?;
            let lock = File::create(folder.join("lock"))?;
            flock(&lock, FlockOperation::LockExclusive)?;
            Ok(lock)
        };
        match open() {
            Ok(lock) => Ok(Self { folder, _lock: lock }),
            Err(error) => Err(format!("cannot use {} for one: {error}", folder.display())),
        }
    }

    /// The server in the cache, if there is one.
    pub(super) fn program() -> Option<PathBuf> {
        Some(Self::ready("redis-server").join("redis-server")).filter(|path| path.is_file())
    }

    /// The folder of the files of the server of this name. It need not exist.
    pub(crate) fn ready(name: &str) -> PathBuf {
        folder(name).join("ready")
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// A temporary folder.
    pub(crate) fn scratch(&self) -> PathBuf {
        self.folder.join("scratch")
    }

    /// A folder for the files to publish, inside the other.
    pub(crate) fn content(&self) -> PathBuf {
        self.scratch().join("content")
    }

    /// Creates both folders anew.
    pub(crate) fn clean(&self) -> Result<(), String> {
        let clean = || {
            remove(&self.scratch())?;
            fs::create_dir_all(self.content())
        };
        clean().map_err(|error| error.to_string())
    }

    /// Makes the content that of the cache. A script starts the program, and names the folders of
    /// the libraries that came with it.
    ///
    /// `program` and `libraries` are relative to the content.
    pub(super) fn publish(&self, program: &Path, libraries: &[PathBuf]) -> Result<PathBuf, String> {
        let publish = || -> io::Result<()> {
            let content = self.content();
            make_executable(&content.join(program))?;
            let script = content.join("redis-server");
            fs::write(&script, launcher(program, libraries))?;
            make_executable(&script)
        };
        publish().map_err(|error| error.to_string())?;
        self.publish_content()?;
        Self::program().ok_or_else(|| "it was there and is gone".to_owned())
    }

    /// Writes a script into the content that starts this program of it, with the libraries that came with it.
    pub(crate) fn write_launcher(&self, name: &str, program: &str) -> Result<(), String> {
        let content = self.content();
        let libraries = super::folders_with_libraries(&content);
        let relative = libraries.iter().filter_map(|it| it.strip_prefix(&content).ok());
        let libraries: Vec<PathBuf> = relative.map(Path::to_owned).collect();
        let write = || -> io::Result<()> {
            make_executable(&content.join(program))?;
            let script = content.join(name);
            fs::write(&script, launcher(Path::new(program), &libraries))?;
            make_executable(&script)
        };
        write().map_err(|error| error.to_string())
    }

    /// Makes the content that of the cache, as it is.
    pub(crate) fn publish_content(&self) -> Result<(), String> {
        let publish = || -> io::Result<()> {
            let ready = self.folder.join("ready");
            remove(&ready)?;
            fs::rename(self.content(), ready)?;
            remove(&self.scratch())
        };
        publish().map_err(|error| error.to_string())
    }
}

fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn make_executable(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;

    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
}

/// The script replaces itself by the server, so the process id is the server's.
fn launcher(program: &Path, libraries: &[PathBuf]) -> String {
    let libraries: Vec<String> =
        libraries.iter().map(|folder| format!("$here/{}", folder.display())).collect();
    let path = libraries.join(":");
    let export = if path.is_empty() {
        String::new()
    } else {
        format!("export LD_LIBRARY_PATH=\"{path}${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}\"\n")
    };
    format!(
        "#!/bin/sh\n\
         here=$(CDPATH= cd -- \"$(dirname -- \"$0\")\" && pwd) || exit 1\n\
         {export}\
         exec \"$here/{}\" \"$@\"\n",
        program.display()
    )
}

/// Under the target folder of the build that this program comes from.
fn folder(name: &str) -> PathBuf {
    let program = env::current_exe().ok();
    let target = program
        .iter()
        .flat_map(|path| path.ancestors())
        // Cargo marks its target folder with this file.
        .find(|folder| folder.join("CACHEDIR.TAG").is_file())
        .map(Path::to_owned)
        .unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"));
    target.join(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_launcher_names_program_and_libraries() {
        let libraries = [PathBuf::from("usr/lib"), PathBuf::from("lib")];
        let script = launcher(Path::new("usr/bin/redis-server"), &libraries);
        assert!(script.contains("LD_LIBRARY_PATH=\"$here/usr/lib:$here/lib$"), "{script}");
        assert!(script.ends_with("exec \"$here/usr/bin/redis-server\" \"$@\"\n"), "{script}");
        assert!(!launcher(Path::new("bin/redis-server"), &[]).contains("LD_LIBRARY_PATH"));
    }
}
