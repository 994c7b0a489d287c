//! "external32" against bytes written by hand (MPI-5.0, 14.5.2).

use refrain_datatypes::{Datatype, Field, NAMED, Named, TypeError};

fn named(name: &str) -> Datatype {
    let named = NAMED.iter().find(|named| named.name == name);
    Datatype::named(named.expect(name))
}

#[track_caller]
fn check(datatype: &Datatype, dense: &[u8], external: &[u8]) {
    let count = (dense.len() as i64) / datatype.size();
    let mut out = vec![0; external.len()];
    datatype.encode(count, dense, &mut out).unwrap();
    assert_eq!(out, external);
    let mut back = vec![0; dense.len()];
    datatype.decode(count, external, &mut back).unwrap();
    assert_eq!(back, dense);
}

#[test]
fn numbers_are_big_endian() {
    check(
        &named("MPI_INT"),
        &[4, 3, 2, 1, 8, 7, 6, 5],
        &[1, 2, 3, 4, 5, 6, 7, 8],
    );
    check(
        &named("MPI_UINT64_T"),
        &1_u64.to_le_bytes(),
        &[0, 0, 0, 0, 0, 0, 0, 1],
    );
    check(
        &named("MPI_DOUBLE"),
        &(-2.0_f64).to_le_bytes(),
        &[0xc0, 0, 0, 0, 0, 0, 0, 0],
    );
    check(
        &named("MPI_C_COMPLEX"),
        &[0, 0, 128, 63, 0, 0, 0, 64],
        &[63, 128, 0, 0, 64, 0, 0, 0],
    );
    check(&named("MPI_CHAR"), b"ab", b"ab");
    check(&named("MPI_LOGICAL"), &[1, 0, 0, 0], &[0, 0, 0, 1]);
}

#[test]
fn long_has_four_bytes() {
    let long = named("MPI_LONG");
    check(&long, &(-2_i64).to_le_bytes(), &[0xff, 0xff, 0xff, 0xfe]);
    check(&long, &i64::from(i32::MIN).to_le_bytes(), &[0x80, 0, 0, 0]);
    let unsigned = named("MPI_UNSIGNED_LONG");
    check(
        &unsigned,
        &0xffff_fffe_u64.to_le_bytes(),
        &[0xff, 0xff, 0xff, 0xfe],
    );
    check(&named("MPI_WCHAR"), &[0x41, 0x82, 0, 0], &[0x82, 0x41]);
    let mut out = [0; 4];
    let too_large = Err(TypeError::Conversion {
        native_bytes: 8,
        external_bytes: 4,
    });
    for value in [1 << 31, -(1 << 31) - 1, i64::MAX, i64::MIN] {
        assert_eq!(long.encode(1, &value.to_le_bytes(), &mut out), too_large);
    }
    assert_eq!(
        unsigned.encode(1, &(1_u64 << 32).to_le_bytes(), &mut out),
        too_large
    );
}

#[test]
fn structs_have_no_padding() {
    // struct { char c; double d; long l[2]; }
    let [c, d, l] = ["MPI_CHAR", "MPI_DOUBLE", "MPI_LONG"].map(named);
    let fields = [(1, 0, &c), (1, 8, &d), (2, 16, &l)];
    let fields = fields.map(|(blocklength, displacement, of)| Field {
        blocklength,
        displacement,
        of,
    });
    let datatype = Datatype::structure(&fields).unwrap();
    assert_eq!(
        (datatype.extent(), datatype.size(), datatype.external_size()),
        (32, 25, 17)
    );
    let mut dense = vec![b'x'];
    dense.extend(1.0_f64.to_le_bytes());
    dense.extend(1_i64.to_le_bytes());
    dense.extend((-1_i64).to_le_bytes());
    let external = [
        b'x', 0x3f, 0xf0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff,
    ];
    check(&datatype, &dense, &external);
    let mut short = [0; 16];
    assert!(matches!(
        datatype.encode(1, &dense, &mut short),
        Err(TypeError::Buffer {
            expected: 17,
            bytes: 16,
            ..
        })
    ));
}

/// Significand, sign and exponent of a `long double`, as C has it in memory.
fn extended(significand: u64, sign_exponent: u16) -> [u8; 16] {
    (u128::from(sign_exponent) << 64 | u128::from(significand)).to_le_bytes()
}

#[test]
#[cfg(target_arch = "x86_64")]
fn long_double_is_binary128() {
    let long_double = named("MPI_LONG_DOUBLE");
    let quad = |high: u128| high.to_be_bytes();
    let exact = [
        // 1, -2, 1.5, 0, -0
        (extended(1 << 63, 0x3fff), 0x3fff_u128 << 112),
        (extended(1 << 63, 0xc000), 0xc000 << 112),
        (extended(3 << 62, 0x3fff), 0x3fff8 << 108),
        (extended(0, 0), 0),
        (extended(0, 0x8000), 0x8000 << 112),
        // all bits of the significand; the least number; infinity; not a number
        (
            extended(u64::MAX, 0x4000),
            0x4000 << 112 | ((1 << 63) - 1) << 49,
        ),
        (extended(1, 0), 1 << 49),
        (extended(1 << 63, 0x7fff), 0x7fff << 112),
        (extended(3 << 62, 0x7fff), 0x7fff8 << 108),
    ];
    for (dense, external) in exact {
        check(&long_double, &dense, &quad(external));
    }
    let complex = named("MPI_C_LONG_DOUBLE_COMPLEX");
    let both = |left: [u8; 16], right: [u8; 16]| [left, right].concat();
    let dense = both(exact[0].0, exact[1].0);
    check(&complex, &dense, &both(quad(exact[0].1), quad(exact[1].1)));
}

#[test]
#[cfg(target_arch = "x86_64")]
fn binary128_is_rounded_to_the_nearest_long_double() {
    let long_double = named("MPI_LONG_DOUBLE");
    let one = 0x3fff_u128 << 112;
    let (ulp, half) = (1_u128 << 49, 1_u128 << 48);
    let rounded = [
        (one + half, extended(1 << 63, 0x3fff)),
        (one + half + 1, extended((1 << 63) + 1, 0x3fff)),
        (one + ulp + half, extended((1 << 63) + 2, 0x3fff)),
        // to the next power of two, to the least normal number, to infinity
        ((0x4000 << 112) - 1, extended(1 << 63, 0x4000)),
        ((1 << 112) - 1, extended(1 << 63, 1)),
        ((0x7fff << 112) - 1, extended(1 << 63, 0x7fff)),
        // not a number, by bits that are lost
        ((0x7fff << 112) + 1, extended(3 << 62, 0x7fff)),
    ];
    for (external, expected) in rounded {
        let mut dense = [0; 16];
        long_double
            .decode(1, &external.to_be_bytes(), &mut dense)
            .unwrap();
        assert_eq!(dense, expected, "{external:x}");
    }
}

#[test]
fn sizes_are_those_of_the_standard() {
    let sizes = [
        ("MPI_LONG", 4),
        ("MPI_UNSIGNED_LONG", 4),
        ("MPI_WCHAR", 2),
        ("MPI_LONG_LONG_INT", 8),
        ("MPI_LONG_DOUBLE", 16),
        ("MPI_C_BOOL", 1),
        ("MPI_AINT", 8),
        ("MPI_C_LONG_DOUBLE_COMPLEX", 32),
        ("MPI_LONG_INT", 8),
        ("MPI_SHORT_INT", 6),
        ("MPI_LONG_DOUBLE_INT", 20),
        ("MPI_REAL2", 2),
        ("MPI_COMPLEX32", 32),
    ];
    for (name, bytes) in sizes {
        assert_eq!(named(name).external_size(), bytes, "{name}");
    }
    let differ = NAMED
        .iter()
        .filter(|it| it.value.bytes != it.value.external_bytes);
    assert_eq!(
        differ.count(),
        4,
        "two of long, one pair of it, and wide characters"
    );
    assert!(Named::of(0).is_none());
}
