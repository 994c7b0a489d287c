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

opaque! { ibv_mw ibv_mw_bind ibv_wq _compat_ibv_port_attr }
