//! Makes a type from its contents, as a program would.

use refrain_datatypes::{
    Combiner, Contents, Datatype, Dimension, Distribution, Field, Order, Slice,
};

fn order(value: i32) -> Order {
    match value {
        12 => Order::C,
        15 => Order::Fortran,
        other => panic!("order {other}"),
    }
}

fn distribution(value: i32) -> Distribution {
    match value {
        16 => Distribution::None,
        17 => Distribution::Block,
        18 => Distribution::Cyclic,
        other => panic!("distribution {other}"),
    }
}

pub fn make(contents: &Contents) -> Datatype {
    let wide: Vec<i64> = contents.integers.iter().map(|&it| it.into()).collect();
    let (addresses, of) = (&contents.addresses[..], &contents.types);
    let first = || &of[0];
    // Behind the count of an array of blocks.
    let blocks = |arrays: usize| {
        let count = wide[0] as usize;
        assert_eq!(wide.len() + addresses.len(), 1 + arrays * count);
        wide[1..].split_at(count)
    };
    match contents.combiner {
        Combiner::Dup => Datatype::duplicate(first()),
        Combiner::Contiguous => Datatype::contiguous(wide[0], first()),
        Combiner::Vector => Datatype::vector(wide[0], wide[1], wide[2], first()),
        Combiner::Hvector => Datatype::hvector(wide[0], wide[1], addresses[0], first()),
        Combiner::Indexed => {
            let (lengths, places) = blocks(2);
            Datatype::indexed(lengths, places, first())
        }
        Combiner::Hindexed => Datatype::hindexed(blocks(2).0, addresses, first()),
        Combiner::IndexedBlock => Datatype::indexed_block(wide[1], &wide[2..], first()),
        Combiner::HindexedBlock => Datatype::hindexed_block(wide[1], addresses, first()),
        Combiner::Struct => {
            let (lengths, _) = blocks(2);
            let field = |at: usize| Field {
                blocklength: lengths[at],
                displacement: addresses[at],
                of: &of[at],
            };
            Datatype::structure(&(0..lengths.len()).map(field).collect::<Vec<_>>())
        }
        Combiner::Resized => Datatype::resized(first(), addresses[0], addresses[1]),
        Combiner::Subarray => {
            let dimensions = wide[0] as usize;
            assert_eq!(wide.len(), 3 * dimensions + 2);
            let slice = |at: usize| Slice {
                size: wide[1 + at],
                subsize: wide[1 + dimensions + at],
                start: wide[1 + 2 * dimensions + at],
            };
            let slices: Vec<_> = (0..dimensions).map(slice).collect();
            Datatype::subarray(&slices, order(*contents.integers.last().unwrap()), first())
        }
        Combiner::Darray => darray(contents),
        combiner => panic!("{combiner:?} is not derived"),
    }
    .unwrap()
}

fn darray(contents: &Contents) -> Result<Datatype, refrain_datatypes::TypeError> {
    let integers = &contents.integers;
    let (processes, rank, dimensions) = (integers[0], integers[1], integers[2] as usize);
    assert_eq!(integers.len(), 4 * dimensions + 4);
    let array = |which: usize, at: usize| integers[3 + which * dimensions + at];
    let dimension = |at: usize| Dimension {
        size: array(0, at).into(),
        distribution: distribution(array(1, at)),
        block: Some(array(2, at)).filter(|&block| block != 19),
        processes: array(3, at),
    };
    let all: Vec<_> = (0..dimensions).map(dimension).collect();
    let order = order(*integers.last().unwrap());
    Datatype::darray(processes, rank, &all, order, &contents.types[0])
}
