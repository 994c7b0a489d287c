//! The loaded library and its functions, which are looked up by name and version.

#![allow(
    unsafe_code,
    reason = "loading a library runs its initialisers, and the types of its symbols cannot be checked"
)]

use crate::sys::types::*;
use core::ffi::{c_char, c_int, c_uint, c_void};
use refrain_libfabric::native::{LoadError, Native, Symbols, text};
use std::path::{Path, PathBuf};
use std::sync::Arc;

static LIBIBVERBS: Native = Native {
    name: "libibverbs",
    file: "libibverbs.so.1",
    wanted: "libibverbs of rdma-core",
    install: "rdma-core (Debian: libibverbs1 and ibverbs-providers)",
};

/// A loaded libibverbs. Cheap to clone; never unloaded.
#[derive(Clone)]
pub struct Library(Arc<Loaded>);

struct Loaded {
    path: PathBuf,
    functions: Functions,
}

impl core::fmt::Debug for Library {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "libibverbs from {}", self.path().display())
    }
}

/// Declares the functions that are looked up by name, and the lookup.
macro_rules! functions {
    ($($field:ident = $symbol:literal @ $version:literal : ($($argument:ident : $type:ty),*) $(-> $result:ty)?;)*) => {
        /// Functions that are looked up by name. The data path uses the table of functions in a
        /// device's context ([`crate::sys::inline`]).
        pub(crate) struct Functions {
            $(pub(crate) $field: unsafe extern "C" fn($($argument: $type),*) $(-> $result)?,)*
        }

        impl Functions {
            /// # Safety
            /// The library must be libibverbs: then these are the types of its symbols.
            unsafe fn find(symbols: &Symbols) -> Result<Self, LoadError> {
                // SAFETY: as the caller promises.
                unsafe { Ok(Self { $($field: symbols.find($symbol, $version)?,)* }) }
            }
        }
    };
}

functions! {
    get_device_list = c"ibv_get_device_list" @ c"IBVERBS_1.1": (count: *mut c_int) -> *mut *mut ibv_device;
    free_device_list = c"ibv_free_device_list" @ c"IBVERBS_1.1": (list: *mut *mut ibv_device);
    get_device_name = c"ibv_get_device_name" @ c"IBVERBS_1.1": (device: *mut ibv_device) -> *const c_char;
    get_device_guid = c"ibv_get_device_guid" @ c"IBVERBS_1.1": (device: *mut ibv_device) -> u64;
    open_device = c"ibv_open_device" @ c"IBVERBS_1.1": (device: *mut ibv_device) -> *mut ibv_context;
    close_device = c"ibv_close_device" @ c"IBVERBS_1.1": (context: *mut ibv_context) -> c_int;
    get_async_event = c"ibv_get_async_event" @ c"IBVERBS_1.1": (context: *mut ibv_context, event: *mut ibv_async_event) -> c_int;
    ack_async_event = c"ibv_ack_async_event" @ c"IBVERBS_1.1": (event: *mut ibv_async_event);
    query_device = c"ibv_query_device" @ c"IBVERBS_1.1": (context: *mut ibv_context, attributes: *mut ibv_device_attr) -> c_int;
    query_port = c"ibv_query_port" @ c"IBVERBS_1.1": (context: *mut ibv_context, port: u8, attributes: *mut ibv_port_attr) -> c_int;
    query_gid = c"ibv_query_gid" @ c"IBVERBS_1.1": (context: *mut ibv_context, port: u8, index: c_int, gid: *mut ibv_gid) -> c_int;
    alloc_pd = c"ibv_alloc_pd" @ c"IBVERBS_1.1": (context: *mut ibv_context) -> *mut ibv_pd;
    dealloc_pd = c"ibv_dealloc_pd" @ c"IBVERBS_1.1": (domain: *mut ibv_pd) -> c_int;
    reg_mr = c"ibv_reg_mr" @ c"IBVERBS_1.1": (domain: *mut ibv_pd, address: *mut c_void, bytes: usize, access: c_int) -> *mut ibv_mr;
    dereg_mr = c"ibv_dereg_mr" @ c"IBVERBS_1.1": (memory: *mut ibv_mr) -> c_int;
    create_comp_channel = c"ibv_create_comp_channel" @ c"IBVERBS_1.0": (context: *mut ibv_context) -> *mut ibv_comp_channel;
    destroy_comp_channel = c"ibv_destroy_comp_channel" @ c"IBVERBS_1.0": (channel: *mut ibv_comp_channel) -> c_int;
    get_cq_event = c"ibv_get_cq_event" @ c"IBVERBS_1.1": (channel: *mut ibv_comp_channel, queue: *mut *mut ibv_cq, context: *mut *mut c_void) -> c_int;
    ack_cq_events = c"ibv_ack_cq_events" @ c"IBVERBS_1.1": (queue: *mut ibv_cq, count: c_uint);
    create_cq = c"ibv_create_cq" @ c"IBVERBS_1.1": (context: *mut ibv_context, entries: c_int, own: *mut c_void, channel: *mut ibv_comp_channel, vector: c_int) -> *mut ibv_cq;
    destroy_cq = c"ibv_destroy_cq" @ c"IBVERBS_1.1": (queue: *mut ibv_cq) -> c_int;
    create_srq = c"ibv_create_srq" @ c"IBVERBS_1.1": (domain: *mut ibv_pd, attributes: *mut ibv_srq_init_attr) -> *mut ibv_srq;
    destroy_srq = c"ibv_destroy_srq" @ c"IBVERBS_1.1": (queue: *mut ibv_srq) -> c_int;
    create_qp = c"ibv_create_qp" @ c"IBVERBS_1.1": (domain: *mut ibv_pd, attributes: *mut ibv_qp_init_attr) -> *mut ibv_qp;
    modify_qp = c"ibv_modify_qp" @ c"IBVERBS_1.1": (pair: *mut ibv_qp, attributes: *mut ibv_qp_attr, mask: c_int) -> c_int;
    destroy_qp = c"ibv_destroy_qp" @ c"IBVERBS_1.1": (pair: *mut ibv_qp) -> c_int;
    create_ah = c"ibv_create_ah" @ c"IBVERBS_1.1": (domain: *mut ibv_pd, attributes: *mut ibv_ah_attr) -> *mut ibv_ah;
    destroy_ah = c"ibv_destroy_ah" @ c"IBVERBS_1.1": (handle: *mut ibv_ah) -> c_int;
    wc_status_str = c"ibv_wc_status_str" @ c"IBVERBS_1.1": (status: ibv_wc_status) -> *const c_char;
    event_type_str = c"ibv_event_type_str" @ c"IBVERBS_1.1": (event: ibv_event_type) -> *const c_char;
    fork_init = c"ibv_fork_init" @ c"IBVERBS_1.1": () -> c_int;
}

impl Library {
    /// Loads libibverbs from the file `path`, by default `libibverbs.so.1` of the loader's search
    /// path. The library loads drivers when devices are listed.
    ///
    /// # Errors
    /// See [`LoadError`].
    pub fn load(path: Option<&Path>) -> Result<Self, LoadError> {
        // SAFETY: libibverbs' initialisers only prepare its own state.
        let symbols = unsafe { Symbols::load(&LIBIBVERBS, path)? };
        // SAFETY: the types are those of libibverbs' ABI for these versions.
        let functions = unsafe { Functions::find(&symbols)? };
        // Programs fork. Kernels before 5.12 would then give the child the pages that the device
        // uses, and this process would get copies. The call is refused if other code of this
        // process has used the library before.
        // SAFETY: it takes no arguments, and may be called at any time.
        let _ = unsafe { (functions.fork_init)() };
        Ok(Self(Arc::new(Loaded {
            path: symbols.path().to_owned(),
            functions,
        })))
    }

    /// The path of the file, as it was given.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    pub(crate) fn functions(&self) -> &Functions {
        &self.0.functions
    }

    /// libibverbs' text for the status of a completion.
    pub fn status_words(&self, status: u32) -> String {
        // SAFETY: it returns a text for every number, which is never freed.
        unsafe { text((self.functions().wc_status_str)(status)) }
    }

    /// libibverbs' text for the type of an asynchronous event.
    pub fn event_words(&self, event: u32) -> String {
        // SAFETY: it returns a text for every number, which is never freed.
        unsafe { text((self.functions().event_type_str)(event)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `IBV_FORK_DISABLED`: after a fork, device and process would use different pages.
    const DISABLED: c_int = 0;

    /// The library is prepared for forks before any memory is registered.
    #[test]
    fn programs_may_fork() {
        if let Err(error) = Library::load(None) {
            println!("skipped whether programs may fork: {error}");
            return;
        }
        // SAFETY: the library is loaded already; the call only returns its handle, which is kept.
        let handle = unsafe { libc::dlopen(c"libibverbs.so.1".as_ptr(), libc::RTLD_NOW) };
        assert!(!handle.is_null());
        let name = c"ibv_is_fork_initialized";
        // SAFETY: the library is open, and the name ends in NUL.
        let symbol = unsafe { libc::dlsym(handle, name.as_ptr()) };
        if symbol.is_null() {
            println!("skipped whether programs may fork: this libibverbs does not say it");
            return;
        }
        // SAFETY: the type is that of the manual page.
        let says: unsafe extern "C" fn() -> c_int = unsafe { core::mem::transmute(symbol) };
        // SAFETY: it takes no arguments.
        assert_ne!(unsafe { says() }, DISABLED);
    }
}
