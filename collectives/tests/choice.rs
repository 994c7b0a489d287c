//! Tables: printed and parsed, and what they choose.

use refrain_collectives::choice::Table;
use refrain_collectives::{Algorithm, Arguments, Blocks, Call, Group, Hosts, Schedules};

fn call(size: u32, arguments: Arguments) -> Call {
    Call {
        group: Group { size, me: size / 2 },
        hosts: Hosts::APART,
        arguments,
        in_place: false,
        element_bytes: 8,
    }
}

fn call_on<'a>(hosts: Hosts<'a>, size: u32, arguments: Arguments<'a>) -> Call<'a> {
    Call {
        hosts,
        ..call(size, arguments)
    }
}

fn allreduce(count: u64) -> Arguments<'static> {
    let commutative = false;
    Arguments::Allreduce { count, commutative }
}

#[test]
fn a_printed_table_is_the_table() {
    let mut table = Table::default();
    assert_eq!(table.to_string().parse(), Ok(table.clone()));
    table.override_with("window 7").unwrap();
    assert_eq!(table.to_string().parse(), Ok(table));
}

#[test]
fn the_first_rule_that_applies_decides() {
    let rules = "
        allreduce places<=4 bytes<=64 rabenseifner  # few and short
        allreduce bytes<=64 recursive-doubling
        allreduce shared flat
        allreduce ring";
    let table: Table = rules.parse().unwrap();
    let choose = |size, count, hosts| table.choose(&call_on(hosts, size, allreduce(count)));
    assert_eq!(choose(4, 8, Hosts::APART), Algorithm::Rabenseifner);
    assert_eq!(choose(5, 8, Hosts::APART), Algorithm::RecursiveDoubling);
    assert_eq!(choose(4, 9, Hosts::ONE), Algorithm::Flat);
    // A ring does not fit an operator that does not commute: the first of all algorithms.
    assert_eq!(choose(4, 9, Hosts::APART), Algorithm::RecursiveDoubling);
    let arguments = Arguments::Allreduce {
        count: 9,
        commutative: true,
    };
    assert_eq!(table.choose(&call(4, arguments)), Algorithm::Ring);
}

#[test]
fn a_text_overrides_a_table() {
    let mut table = Table::default();
    table
        .override_with("segment-bytes 99\nallreduce bytes<=8 rabenseifner")
        .unwrap();
    assert_eq!(table.parameters.segment_bytes, 99);
    assert_eq!(
        table.choose(&call(4, allreduce(1))),
        Algorithm::Rabenseifner
    );
    assert_eq!(
        table.choose(&call(4, allreduce(2))),
        Algorithm::RecursiveDoubling
    );
}

/// Where all read one memory, long messages to all are published.
// COLL-1
#[test]
fn the_default_table_publishes_in_one_memory() {
    let table = Table::default();
    let bcast = |count| Arguments::Bcast { root: 0, count };
    let allgather = |count| Arguments::Allgather {
        blocks: Blocks::Even(count),
    };
    for (size, arguments) in [(4, bcast(8000)), (16, bcast(1 << 20)), (4, allgather(1))] {
        let call = call_on(Hosts::ONE, size, arguments);
        assert_eq!(table.choose(&call), Algorithm::Flat, "{call}");
        let apart = call_on(Hosts::APART, size, arguments);
        assert_ne!(table.choose(&apart), Algorithm::Flat, "{call}");
        let mut schedules = Schedules::new(table.clone());
        let chosen = schedules.of(&call).unwrap();
        assert_eq!(chosen.algorithm, Algorithm::Flat);
    }
    let long = call(4, allreduce(8000));
    let choose = |hosts| table.choose(&Call { hosts, ..long });
    assert_eq!(choose(Hosts::ONE), Algorithm::HalvingFlat);
    assert_eq!(choose(Hosts::APART), Algorithm::RecursiveDoubling);
    for (size, arguments) in [(4, bcast(8)), (16, allgather(8))] {
        let call = call_on(Hosts::ONE, size, arguments);
        assert_ne!(table.choose(&call), Algorithm::Flat, "{call}");
    }
}

/// Between hosts, one place of each speaks. COLL-1
#[test]
fn the_default_table_has_stages_on_several_hosts() {
    let table = Table::default();
    let count = 1 << 10;
    let (root, blocks) = (0, Blocks::Even(count));
    let choose = |starts, arguments| {
        let hosts = Hosts::new(starts);
        table.choose(&call_on(hosts, 6, arguments))
    };
    for arguments in [
        Arguments::Barrier,
        Arguments::Bcast { root, count },
        Arguments::Reduce { root, count },
        Arguments::Allgather { blocks },
        allreduce(count),
    ] {
        assert_eq!(choose(&[0, 4], arguments), Algorithm::Hierarchical);
        assert_ne!(choose(&[0], arguments), Algorithm::Hierarchical);
        assert_ne!(choose(&[], arguments), Algorithm::Hierarchical);
    }
}

/// Places that know only their own blocks choose what places choose that know all.
#[test]
fn places_with_other_counts_choose_the_same() {
    let table = Table::default();
    for size in [1, 2, 3, 4, 7, 8, 64, 1000] {
        let many = vec![1 << 20; size as usize];
        let choices = [(&many[..], 1 << 20), (&[], 0)].map(|(list, count)| {
            let blocks = Blocks::Listed {
                counts: list,
                starts: list,
            };
            let gather = Arguments::Gather {
                root: 0,
                count,
                blocks,
            };
            let scatter = Arguments::Scatter {
                root: 0,
                count,
                blocks,
            };
            let alltoall = Arguments::Alltoall {
                send: blocks,
                receive: blocks,
            };
            [gather, scatter, alltoall].map(|it| table.choose(&call(size, it)))
        });
        assert_eq!(choices[0], choices[1]);
    }
}

#[test]
fn errors_say_what_to_write() {
    let error = |text: &str| text.parse::<Table>().unwrap_err().to_string();
    assert_eq!(
        error("\nbcast ring"),
        "line 2 of the table of algorithms: ring is no algorithm of bcast: take binomial, flat, \
         chain, scatter-allgather, scatter-doubling, hierarchical"
    );
    for (text, expected) in [
        ("window many", "\"many\" is no number"),
        ("bcast", "\"bcast\" has no algorithm"),
        (
            "broadcast flat",
            "\"broadcast\" is no collective: take one of barrier, bcast",
        ),
        ("bcast tree", "\"tree\" is no algorithm: take one of linear"),
        ("bcast bytes<8 flat", "\"bytes<8\" is no condition"),
        ("bcast bytes<=8k flat", "\"bytes<=8k\" is no condition"),
    ] {
        assert!(error(text).contains(expected), "{}", error(text));
    }
}
