//! Structures that the others point to and nobody here looks into.

macro_rules! opaque {
    ($($name:ident)*) => {
        $(
            #[repr(C)]
            pub struct $name {
                _opaque: [u8; 0],
            }
        )*
    };
}

opaque! {
    fid_nic fid_wait fid_poll fid_eq fid_cntr fid_av_set fid_pep fid_stx fid_mc
    fi_poll_attr fi_eq_attr fi_cntr_attr fi_av_set_attr fi_atomic_attr
    fi_collective_attr fi_wait_attr fi_mr_attr
    fi_ops_tagged fi_ops_atomic fi_ops_collective
}

pub type fi_datatype = core::ffi::c_uint;
pub type fi_op = core::ffi::c_uint;
pub type fi_collective_op = core::ffi::c_uint;
