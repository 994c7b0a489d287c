//! Groups and collectives in a job of one rank: the results of a group of one, and wrong calls.

use refrain::collective::{
    self as collective, Arguments, Blocks, Collective, InPlace, LaidOutBlocks, Located, Neighbours,
    Operator, Prefix, Reduction,
};
use refrain::{Error, Group, Layout, World};
use std::sync::Arc;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A process has one world at a time.
fn world() -> (MutexGuard<'static, ()>, World) {
    static ONE: Mutex<()> = Mutex::new(());
    let guard = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    (guard, World::init().expect("a job of one rank"))
}

fn refusal(world: &mut World, call: Collective<'_>) -> String {
    match world.collective(call) {
        Err(Error::Argument(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_group_of_one_gets_its_own_contribution() {
    let (_guard, mut world) = world();
    let all = world.all();
    assert_eq!((all.size(), all.place()), (1, 0));
    let mut check = |expected: [f64; 4], make: &dyn for<'a> Fn(&'a mut [f64]) -> Collective<'a>| {
        let mut output = [0.0; 4];
        world.collective(make(&mut output)).expect("a right call");
        assert_eq!(output, expected);
    };
    static INPUT: [f64; 2] = [1.5, -2.0];
    let input = &INPUT;
    let front = [1.5, -2.0, 0.0, 0.0];
    check(front, &|output| {
        collective::gather(all, 0, input, &mut output[..2])
    });
    check(front, &|output| {
        collective::scatter(all, 0, input, &mut output[..2])
    });
    check(front, &|output| {
        collective::alltoall(all, input, &mut output[..2])
    });
    check(front, &|output| {
        collective::reduce(all, 0, Operator::Sum, input, &mut output[..2])
    });
    check([0.0; 4], &|output| {
        collective::scan(
            all,
            Operator::Max,
            Prefix::Exclusive,
            input,
            &mut output[..2],
        )
    });
    check([0.0, 1.5, -2.0, 0.0], &|output| {
        let blocks = Blocks::Listed {
            counts: &[2],
            starts: &[1],
        };
        collective::gatherv(all, 0, input, output, blocks)
    });
    check([1.5, -2.0, 1.5, -2.0], &|output| {
        let edges = Neighbours {
            sources: &[0, 0],
            destinations: &[0, 0],
        };
        collective::neighbour_allgather(all, edges, input, output)
    });
    world.finalize().expect("nothing is left");
}

#[test]
fn located_values_are_compared_with_their_index() {
    let (_guard, mut world) = world();
    let mut least = [Located {
        value: 3.5f64,
        index: 7i64,
    }];
    let call = collective::allreduce(world.all(), Operator::MinLoc, InPlace, &mut least);
    world.collective(call).expect("a right call");
    assert_eq!((least[0].value, least[0].index), (3.5, 7));
    world.finalize().expect("nothing is left");
}

#[test]
fn wrong_calls_say_what_is_wrong() {
    let (_guard, mut world) = world();
    let all = world.all();
    let (mut short, input) = ([0u32; 1], [1u32, 2]);
    let counts = [5];
    let blocks = Blocks::Listed {
        counts: &counts,
        starts: &[],
    };
    let narrow = Reduction::own(8, true, |_, _| {});
    let told = [
        refusal(&mut world, collective::bcast(all, 1, &mut short)),
        refusal(&mut world, collective::gather(all, 0, &input, &mut short)),
        refusal(
            &mut world,
            collective::allgatherv(all, &input, &mut short, blocks),
        ),
        refusal(
            &mut world,
            collective::allreduce(all, Operator::MinLoc, InPlace, &mut short),
        ),
        refusal(
            &mut world,
            collective::allreduce(all, narrow, InPlace, &mut short),
        ),
        refusal(
            &mut world,
            collective::neighbour_alltoall(
                all,
                Neighbours {
                    sources: &[0],
                    destinations: &[0, 0, 0],
                },
                &input,
                &mut short,
            ),
        ),
    ];
    let expected = [
        "bcast: place 1 is not in a group of 1: places are numbered from 0",
        "gather: the output has 1 elements, and needs 2",
        "allgather: 0 blocks are listed and 1 are needed: give a count and a start for each",
        "no MinLoc of U32: use a number that has it, or an operator of your own",
        "allreduce: the operator combines elements of 8 bytes, and the buffers have elements of 4",
        "the input has 2 elements, which do not divide into 3 blocks",
    ];
    assert_eq!(told, expected);
    world.finalize().expect("nothing is left");
}

/// (MPI's hvector, resized)
fn column(rows: usize, columns: usize) -> Arc<Layout> {
    let column = Layout::vector(rows, 8, 8 * columns).expect("small");
    Arc::new(column.with_extent(8))
}

#[test]
fn a_matrix_is_transposed_by_layouts() {
    let (_guard, mut world) = world();
    let all = world.all();
    let rows: Vec<u64> = (0..12).collect();
    let mut columns = [u64::MAX; 12];
    let call = Collective::new(
        all,
        &rows,
        &mut columns,
        Arguments::Allgather {
            blocks: Blocks::Even(12),
        },
    );
    let call = call.with_layouts(None, Some(&column(3, 4)));
    world.collective(call).expect("a right call");
    assert_eq!(columns, [0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11]);

    let mut back = [u64::MAX; 12];
    let arguments = Arguments::Alltoall {
        send: Blocks::Even(12),
        receive: Blocks::Even(12),
    };
    let call = Collective::new(all, &columns, &mut back, arguments);
    let call = call.with_layouts(Some(&column(3, 4)), None);
    world.collective(call).expect("a right call");
    assert_eq!(back[..], rows);
    world.finalize().expect("nothing is left");
}

#[test]
fn blocks_may_have_layouts_of_their_own() {
    let (_guard, mut world) = world();
    let all = world.all();
    let (input, mut output) = (*b"abcdefgh", [b'.'; 8]);
    let reversed = Arc::new(Layout::signed(&[(0, 1)], -1, 4).expect("small"));
    let pair = Arc::new(Layout::vector(2, 1, 2).expect("small").with_extent(4));
    let send = LaidOutBlocks::new([(5, 1, &reversed)]).expect("small");
    let receive = LaidOutBlocks::new([(1, 2, &pair)]).expect("small");
    let call = collective::alltoallw(all, &input, &send, &mut output, &receive);
    world.collective(call).expect("a right call");
    assert_eq!(&output, b".f.e.d.c");

    let edges = Neighbours {
        sources: &[0, 0, 0],
        destinations: &[0, 0, 0],
    };
    let byte = Arc::new(Layout::contiguous(1));
    let one = |offset: i64| (offset, 1, &byte);
    let send = LaidOutBlocks::new([one(7), (0, 0, &byte), one(2)]).expect("small");
    let receive = LaidOutBlocks::new([one(0), (0, 0, &byte), one(6)]).expect("small");
    let call = collective::neighbour_alltoallw(all, edges, &input, &send, &mut output, &receive);
    world.collective(call).expect("a right call");
    assert_eq!(&output, b"hf.e.dcc");
    world.finalize().expect("nothing is left");
}

#[test]
fn layouts_that_do_not_fit_are_refused() {
    let (_guard, mut world) = world();
    let all = world.all();
    let input = [0u64; 12];
    let mut told = |input_layout: Option<Layout>, output: &mut [u64], layout: Layout| {
        let arguments = Arguments::Allgather {
            blocks: Blocks::Even(12),
        };
        let call = Collective::new(all, &input, output, arguments);
        let input_layout = input_layout.map(Arc::new);
        refusal(
            &mut world,
            call.with_layouts(input_layout.as_ref(), Some(&Arc::new(layout))),
        )
    };
    let vector = |count, bytes, stride| Layout::vector(count, bytes, stride).expect("small");
    let before = Layout::signed(&[(-8, 8)], 0, 1).expect("small");
    let far = Layout::contiguous(8).with_extent(i64::MAX);
    let back = Layout::contiguous(8).with_extent(-8);
    let told = [
        told(None, &mut [0; 11], Layout::contiguous(96)),
        told(None, &mut [0; 22], Layout::contiguous(8).with_extent(16)),
        told(None, &mut [0; 12], vector(5, 8, 8)),
        told(None, &mut [0; 12], Layout::contiguous(0)),
        told(None, &mut [0; 12], vector(3, 8, 4)),
        told(None, &mut [0; 12], before),
        told(None, &mut [0; 12], far),
        told(None, &mut [0; 12], back),
        told(Some(vector(6, 8, 16)), &mut [0; 12], Layout::contiguous(8)),
    ];
    let expected = [
        "allgather: the output: the layout spans 96 bytes, its buffer has 88: give a larger buffer or fewer blocks",
        "allgather: the output: the layout spans 184 bytes, its buffer has 176: give a larger buffer or fewer blocks",
        "allgather: the output: elements of 96 bytes are not a whole number of layouts of 40 bytes: check counts and element type",
        "allgather: the output: elements of 96 bytes are not a whole number of layouts of 0 bytes: check counts and element type",
        "the blocks of a layout to receive into overlap: only layouts to send from may name a byte twice",
        "allgather: the output: the layout begins 8 bytes before its buffer: give the buffer by its address, or use offsets from 0",
        "allgather: the output: the layout spans 18446744073709551615 bytes, its buffer has 96: give a larger buffer or fewer blocks",
        "allgather: the output: the layout begins 88 bytes before its buffer: give the buffer by its address, or use offsets from 0",
        "allgather: the input: the layout spans 176 bytes, its buffer has 96: give a larger buffer or fewer blocks",
    ];
    assert_eq!(told, expected);

    let mut sum = [0u64; 1];
    let call = collective::allreduce(all, Operator::Sum, InPlace, &mut sum);
    let layout = Arc::new(Layout::contiguous(8));
    assert_eq!(
        refusal(&mut world, call.with_layouts(None, Some(&layout))),
        "allreduce: elements that are combined lie one behind the other: give no layouts"
    );
    let large = Arc::new(Layout::contiguous(1 << 40));
    let blocks = LaidOutBlocks::new([(0, 1 << 30, &large)]);
    assert!(blocks.is_err(), "2^70 bytes");
    let beyond = LaidOutBlocks::new([(5, 1, &layout)]).expect("small");
    let (input, mut output) = ([0u8; 16], [0u8; 12]);
    let call = collective::alltoallw(all, &input, &beyond, &mut output, &beyond);
    assert_eq!(
        refusal(&mut world, call),
        "alltoall: the output: the layout spans 13 bytes, its buffer has 12: give a larger buffer or fewer blocks"
    );
    world.finalize().expect("nothing is left");
}

// COLL-3
#[test]
fn each_group_has_a_context_of_its_own() {
    let (_guard, mut world) = world();
    let all = world.all();
    let part = world.split(all, Some(4), 0).expect("a group");
    let part = part.expect("this rank gave a color");
    let twin = world.duplicate(part).expect("a group");
    assert_eq!(world.split(all, None, 0).expect("no group"), None);
    let mut context = |group: Group| world.to_member(group, 0).expect("a member").context;
    let contexts = [all, part, twin].map(&mut context);
    assert!(
        contexts.is_sorted_by(|one, other| one < other),
        "{contexts:x?}"
    );
    world.release(part).expect("it is not all ranks");
    let why = refusal(&mut world, collective::barrier(part));
    assert_eq!(why, "the group was released, or is of another world");
    world.release(part).expect_err("it was released");
    world.release(all).expect_err("all ranks stay");
    world.barrier().expect("the group of all ranks is there");
    world
        .collective(collective::barrier(twin))
        .expect("it is there");
    world.finalize().expect("nothing is left");
}

#[test]
fn a_scope_that_fails_gives_its_collectives_up() {
    let (_guard, mut world) = world();
    let all = world.all();
    let mut data = [1u8; 3];
    let result: Result<(), Error> = world.scope(|scope| {
        let mut persistent = scope.collective_init(collective::bcast(all, 0, &mut data))?;
        for _ in 0..3 {
            scope.start(&mut persistent)?;
            scope.wait(&mut persistent)?;
        }
        scope.start(&mut persistent)?;
        let _ = scope.icollective(collective::barrier(all))?;
        Err(Error::Argument("the program's own".into()))
    });
    result.expect_err("the scope failed");
    assert_eq!(world.request_count(), 0);
    world.barrier().expect("later collectives are done");
    world.finalize().expect("nothing is left");
}
