//! What types report and do, against the model.

use crate::map::TypeMap;
use crate::random::{Sample, dimensions, sample};
use crate::seed;
use proptest::prelude::*;
use refrain_datatypes::{Datatype, Elements, Named, Order};
use refrain_transport::layout::Layout;

/// The place in the buffer of each byte of a message.
fn places_of(layout: &Layout) -> Vec<i64> {
    let pieces = layout.pieces(0, usize::MAX);
    let bytes = pieces.flat_map(|piece| {
        let begin = piece.buffer_offset as i64;
        begin..begin + piece.bytes as i64
    });
    bytes.collect()
}

fn items(map: &TypeMap, count: i64) -> TypeMap {
    TypeMap::blocks(map, [(count, 0)])
}

proptest! {
    #![proptest_config(seed::config(3_000))]

    #[test]
    fn sizes_and_bounds_are_those_of_the_map(sample in sample()) {
        let Sample { datatype, map } = &sample;
        prop_assert_eq!(datatype.size(), map.size());
        prop_assert_eq!(datatype.signature().elements, map.entries.len() as i64);
        prop_assert_eq!((datatype.lb(), datatype.extent()), (map.lb(), map.extent()));
        let true_bounds = (map.true_lb(), map.true_ub() - map.true_lb());
        prop_assert_eq!((datatype.true_lb(), datatype.true_extent()), true_bounds);
        let external = map.entries.iter().map(|(basic, _)| i64::from(basic.external_bytes));
        prop_assert_eq!(datatype.external_size(), external.sum::<i64>());
    }

    #[test]
    fn layouts_pick_the_bytes_of_the_map_in_its_order(sample in sample(), count in 0..4i64) {
        let Sample { datatype, map } = &sample;
        let layout = datatype.layout().unwrap();
        prop_assert_eq!(places_of(&layout), map.places());
        prop_assert_eq!(layout.extent_bytes() as i64, map.extent());
        let layout = datatype.layout_of(count).unwrap();
        prop_assert_eq!(places_of(&layout), items(map, count).places());
    }

    #[test]
    fn data_without_gaps_is_contiguous(sample in sample()) {
        let Sample { datatype, map } = &sample;
        let two = items(map, 2);
        let places = two.places();
        let follow = places.windows(2).all(|pair| pair[0] + 1 == pair[1]);
        let is_dense = follow && map.lb() == map.true_lb() && map.extent() == map.size();
        prop_assert_eq!(datatype.is_contiguous(), is_dense);
    }

    #[test]
    fn signatures_tell_sequences_of_basics_apart(left in sample(), right in sample()) {
        let classes = |sample: &Sample| -> Vec<_> {
            let entries = sample.map.entries.iter();
            entries.map(|(basic, _)| (basic.class, basic.bytes)).collect()
        };
        let is_same = classes(&left) == classes(&right);
        prop_assert_eq!(left.datatype.signature() == right.datatype.signature(), is_same);
        // The same sequence from another shape.
        let bytes = Datatype::hindexed(&[1, 1], &[0, 1 << 20], &left.datatype).unwrap();
        let twice = Datatype::contiguous(2, &left.datatype).unwrap();
        prop_assert_eq!(bytes.signature(), twice.signature());
    }

    #[test]
    fn elements_are_counted_along_the_map(sample in sample(), part in any::<prop::sample::Index>()) {
        let Sample { datatype, map } = &sample;
        let three = items(map, 3);
        let bytes = part.index(three.size() as usize + 1) as i64;
        let (mut whole, mut left) = (0, bytes);
        for (basic, _) in &three.entries {
            if left < i64::from(basic.bytes) {
                break;
            }
            left -= i64::from(basic.bytes);
            whole += 1;
        }
        let expected = Elements { whole, left_bytes: left };
        prop_assert_eq!(datatype.elements(bytes), Some(expected));
        prop_assert_eq!(datatype.bytes_of_elements(whole), Some(bytes - left));
    }

    #[test]
    fn external32_takes_and_gives_back_what_fits(sample in sample(), count in 0..3i64) {
        let Sample { datatype, map } = &sample;
        // Small values fit each type; small bytes are no invalid long double.
        let entries = items(map, count).entries;
        let mut dense = Vec::new();
        for (at, (basic, _)) in entries.iter().enumerate() {
            let mut bytes = vec![0; basic.bytes.into()];
            bytes[0] = at as u8;
            dense.extend(bytes);
        }
        let mut external = vec![0xff; (datatype.external_size() * count) as usize];
        datatype.encode(count, &dense, &mut external).unwrap();
        let mut back = vec![0xff; dense.len()];
        datatype.decode(count, &external, &mut back).unwrap();
        prop_assert_eq!(back, dense);
    }

    #[test]
    fn contents_make_the_type_again(sample in sample()) {
        let contents = sample.datatype.contents();
        let envelope = sample.datatype.envelope();
        prop_assert_eq!(contents.integers.len(), envelope.integers);
        prop_assert_eq!(contents.addresses.len(), envelope.addresses);
        prop_assert_eq!(contents.large_counts.len(), 0);
        prop_assert_eq!(contents.types.len(), envelope.types);
        if sample.datatype.as_named().is_none() {
            let again = crate::again::make(&contents);
            prop_assert_eq!(again.size(), sample.map.size());
            prop_assert_eq!((again.lb(), again.extent()), (sample.map.lb(), sample.map.extent()));
            prop_assert_eq!(places_of(&again.layout().unwrap()), sample.map.places());
        }
    }

    #[test]
    fn the_parts_of_all_processes_are_the_array(dimensions in dimensions(), fortran in any::<bool>()) {
        let int = Datatype::named(Named::of(521).unwrap());
        let order = if fortran { Order::Fortran } else { Order::C };
        let processes: i32 = dimensions.iter().map(|it| it.processes).product();
        let mut all = Vec::new();
        for rank in 0..processes {
            let part = Datatype::darray(processes, rank, &dimensions, order, &int).unwrap();
            all.extend(places_of(&part.layout().unwrap()));
        }
        all.sort_unstable();
        let bytes = 4 * dimensions.iter().map(|it| it.size).product::<i64>();
        prop_assert_eq!(all, (0..bytes).collect::<Vec<_>>());
    }
}
