//! An open device.

#![allow(unsafe_code, reason = "opens and closes the library's objects")]

use crate::error::Error;
use crate::library::Library;
use crate::objects::last_errno;
use crate::obstacle::SOFT_ROCE;
use crate::sys::types::{ibv_context, ibv_device};
use core::ffi::c_int;
use core::ptr::NonNull;
use refrain_libfabric::native::text;
use std::fs::File;
use std::path::{Path, PathBuf};

/// The list of devices that the library knows; freed as a whole.
pub(crate) struct DeviceList {
    library: Library,
    list: *mut *mut ibv_device,
    count: usize,
}

impl DeviceList {
    /// Queries the library, which scans the kernel's devices and loads their drivers.
    ///
    /// # Errors
    /// When the kernel module is missing.
    pub(crate) fn new(library: &Library) -> Result<Self, Error> {
        let mut count: c_int = 0;
        // SAFETY: the call writes the count; the list is freed below.
        let list = unsafe { (library.functions().get_device_list)(&raw mut count) };
        if list.is_null() {
            return Err(no_list(last_errno()));
        }
        Ok(Self {
            library: library.clone(),
            list,
            count: usize::try_from(count).unwrap_or(0),
        })
    }

    /// The devices, which are valid as long as the list.
    pub(crate) fn iter(&self) -> impl Iterator<Item = NonNull<ibv_device>> + '_ {
        (0..self.count).filter_map(|index| {
            // SAFETY: the library has written `count` pointers.
            NonNull::new(unsafe { *self.list.add(index) })
        })
    }

    /// The name of one of these devices.
    pub(crate) fn name(&self, device: NonNull<ibv_device>) -> String {
        // SAFETY: a device of the list; its name ends in NUL and lives as long as the list.
        unsafe { text((self.library.functions().get_device_name)(device.as_ptr())) }
    }

    /// The GUID of one of these devices.
    pub(crate) fn guid(&self, device: NonNull<ibv_device>) -> u64 {
        // SAFETY: a device of the list.
        u64::from_be(unsafe { (self.library.functions().get_device_guid)(device.as_ptr()) })
    }

    /// Opens one of these devices.
    ///
    /// # Errors
    /// When its file under `/dev/infiniband` cannot be opened, or its driver refuses.
    pub(crate) fn open(&self, device: NonNull<ibv_device>) -> Result<Context, Error> {
        // SAFETY: a device of the list. The context does not need it after the list is freed.
        let raw = unsafe { (self.library.functions().open_device)(device.as_ptr()) };
        match NonNull::new(raw) {
            Some(raw) => Ok(Context {
                library: self.library.clone(),
                raw,
            }),
            None => {
                let errno = last_errno();
                Err(cannot_open(&self.name(device), &file(device), errno))
            }
        }
    }
}

impl Drop for DeviceList {
    fn drop(&mut self) {
        // SAFETY: allocated by the same library, freed once.
        unsafe { (self.library.functions().free_device_list)(self.list) }
    }
}

/// An open device, closed when dropped. All objects that were made with it must be dropped before.
pub(crate) struct Context {
    library: Library,
    raw: NonNull<ibv_context>,
}

impl Context {
    /// Opens the device with that name.
    ///
    /// # Errors
    /// When the device does not exist, or cannot be opened.
    pub(crate) fn open(library: &Library, name: &str) -> Result<Self, Error> {
        let list = DeviceList::new(library)?;
        let Some(device) = list.iter().find(|device| list.name(*device) == name) else {
            let names: Vec<String> = list.iter().map(|device| list.name(device)).collect();
            return Err(Error::invalid(
                format!("open {name}"),
                format!("there is no such device, only: {}", names.join(", ")),
            ));
        };
        list.open(device)
    }

    /// The pointer for the library's functions.
    pub(crate) fn raw(&self) -> *mut ibv_context {
        self.raw.as_ptr()
    }

    /// The library that opened the device.
    pub(crate) fn library(&self) -> &Library {
        &self.library
    }
}

// SAFETY: a context depends on no thread, and the library's functions lock it.
unsafe impl Send for Context {}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: opened by the same library, closed once. An error is ignored: the descriptor is
        // closed in any case.
        unsafe { (self.library.functions().close_device)(self.raw.as_ptr()) };
    }
}

/// The file by which the kernel serves a device of a list.
fn file(device: NonNull<ibv_device>) -> PathBuf {
    // SAFETY: a device of a list that still exists; its names end in NUL.
    let name = unsafe { text((*device.as_ptr()).dev_name.as_ptr()) };
    Path::new("/dev/infiniband").join(name)
}

fn no_list(errno: i32) -> Error {
    match errno {
        // The kernel returns this to libibverbs.
        libc::ENOSYS => Error::invalid(
            "list the RDMA devices",
            format!(
                "the kernel's part of libibverbs is not loaded (modprobe ib_uverbs; in a \
                 container: on its host); without RDMA hardware, {SOFT_ROCE}"
            ),
        ),
        _ => Error::system("list the RDMA devices", errno),
    }
}

/// The error of a device that cannot be opened. The library tries its file in several ways and
/// reports only the last error; so this function opens the file once more.
fn cannot_open(name: &str, file: &Path, errno: i32) -> Error {
    let refusal = File::options().read(true).write(true).open(file).err();
    let errno = refusal
        .and_then(|error| error.raw_os_error())
        .unwrap_or(errno);
    let error = Error::system(format!("open {name}"), errno);
    let file = file.display();
    match errno {
        libc::EACCES | libc::EPERM => error.with_remedy(&format!(
            "{file} must be readable and writable by you (mode 0666 is usual: udev rules of \
             rdma-core), and a container must be given it (--device /dev/infiniband)"
        )),
        libc::ENOENT | libc::ENXIO => error.with_remedy(&format!(
            "{file} is missing (a container must be given it: --device /dev/infiniband)"
        )),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_a_file_cannot_be_opened_is_found_out() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("uverbs0");
        let error = cannot_open("rxe0", &missing, libc::EIO);
        assert_eq!(error.errno(), libc::ENOENT);
        assert!(error.words().contains("--device"), "{error}");
        std::fs::write(&missing, "").unwrap();
        let error = cannot_open("rxe0", &missing, libc::EIO);
        assert_eq!(error.errno(), libc::EIO);
    }

    #[test]
    fn a_kernel_without_rdma_is_told_with_the_remedy() {
        let words = no_list(libc::ENOSYS).to_string();
        assert!(
            words.contains("modprobe ib_uverbs") && words.contains("rdma link add"),
            "{words}"
        );
        assert_eq!(no_list(libc::ENOMEM).errno(), libc::ENOMEM);
    }
}
