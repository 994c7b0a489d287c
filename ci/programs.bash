# shellcheck shell=bash disable=SC2016
# The programs of ci/programs. Their sources are not in this tree; each line says where they
# are from, and which version was tried.
#
#     program NAME FOLDER BUILD RUN SAME [FILE]
#
# FOLDER of the sources is copied for each MPI library, and BUILD is called there with the
# library's compilers in $CC, $CXX and $FC. RUN is called in the copy, by 4 ranks. SAME is an
# extended regular expression: what matches in the output (or in FILE) must be there, and be
# the same in all runs.

# Numbers of one step of the NAS benchmarks, and their own verdict.
npb_lines='^ +[0-9].*E[-+].*|(Checksum|L2 Norm|Zeta|Sums).*|Verification +=\s+SUCC'

npb() { # BENCHMARK CLASS
    sed -e "s#^MPIF77.*#MPIF77 = $FC#" -e "s#^MPICC.*#MPICC = $CC#" -e 's#^\(FMPI_LIB\|FMPI_INC\|CMPI_LIB\|CMPI_INC\).*##' \
        -e 's#^FFLAGS.*#FFLAGS = -O3 -std=legacy -fallow-argument-mismatch -fallow-invalid-boz#' \
        -e 's#^CFLAGS.*#CFLAGS = -O3#' -e 's#^CC.*=.*#CC = cc#' -e 's#^RAND.*#RAND = randi8#' \
        config/make.def.template >config/make.def
    mkdir -p bin
    make "$1" CLASS="$2" NPROCS=4
}

# NAS Parallel Benchmarks 3.3 (github.com/wzzhang-HIT/NAS-Parallel-Benchmark, NPB3.3-MPI): Fortran 77, IS in C.
program npb-bt NPB3.3-MPI 'npb BT W' bin/bt.W.4 "$npb_lines"
program npb-cg NPB3.3-MPI 'npb CG A' bin/cg.A.4 "$npb_lines"
program npb-ep NPB3.3-MPI 'npb EP A' bin/ep.A.4 "$npb_lines"
program npb-ft NPB3.3-MPI 'npb FT A' bin/ft.A.4 "$npb_lines"
program npb-is NPB3.3-MPI 'npb IS A' bin/is.A.4 "$npb_lines"
program npb-lu NPB3.3-MPI 'npb LU W' bin/lu.W.4 "$npb_lines"
program npb-mg NPB3.3-MPI 'npb MG A' bin/mg.A.4 "$npb_lines"
program npb-sp NPB3.3-MPI 'npb SP W' bin/sp.W.4 "$npb_lines"

cloverleaf() {
    make COMPILER=GNU MPI_COMPILER="$FC" C_MPI_COMPILER="$CC"
    sed -e 's/x_cells=.*/x_cells=256/' -e 's/y_cells=.*/y_cells=256/' -e 's/end_step=.*/end_step=150/' -e '/test_problem/d' \
        InputDecks/clover_bm_short.in >clover.in
}
# Hydrodynamics in Fortran 90, use mpi (github.com/UK-MAC/CloverLeaf_ref, 1.3).
program cloverleaf CloverLeaf_ref cloverleaf ./clover_leaf '^ step:.*' clover.out

tealeaf() {
    make COMPILER=GNU MPI_COMPILER="$FC" C_MPI_COMPILER="$CC" OPTIONS=-fallow-argument-mismatch
    sed -e 's/^end_step=.*/end_step=4/' Benchmarks/tea_bm_2.in >tea.in
}
# Heat conduction in Fortran 90, mpif.h (github.com/UK-MAC/TeaLeaf_ref, 019aa2f).
program tealeaf TeaLeaf_ref tealeaf ./tea_leaf '^ step:.*' tea.out

# Discrete ordinates transport in Fortran 90, use mpi (github.com/lanl/SNAP, 1.12).
program snap SNAP 'make -C src FORTRAN="$FC" OPENMP=no' 'src/gsnap qasnap/sample/inp out' '^ +[0-9]+ +[0-9].*E[-+].*' out

# Unstructured hydrodynamics in C++ (github.com/lanl/PENNANT, 0.9).
program pennant PENNANT 'make CXX="$CXX" CXXFLAGS="-O3 -DUSE_MPI" LD="$CXX" LDFLAGS=' \
    'build/pennant test/sedovsmall/sedovsmall.pnt' 'End cycle +[0-9]+, time = [^,]*, dt = [^,]*|total energy.*'

# Conjugate gradients in C++ (github.com/Mantevo/HPCCG, 1.0).
program hpccg HPCCG 'make CXX="$CXX" LINKER="$CXX" USE_MPI=-DUSING_MPI CPP_OPT_FLAGS=-O3' \
    './test_HPCCG 64 64 64' '^(Initial Residual|Iteration).*'

comd() {
    cp src-mpi/Makefile.vanilla src-mpi/Makefile
    mkdir -p bin
    make -C src-mpi CC="$CC"
}
# Molecular dynamics in C (github.com/ECP-copa/CoMD, 1.1).
program comd CoMD comd 'bin/CoMD-mpi -i 2 -j 2 -k 1 -x 24 -y 24 -z 24 -N 60' '^ +[0-9]+ +[0-9.]+ +-[0-9.]+ +-[0-9.]+ +[0-9.]+ +[0-9.]+'

# Adaptive meshes in C (github.com/Mantevo/miniAMR, 1.7).
program miniamr miniAMR 'make -C ref CC="$CC" LD="$CC"' \
    'ref/miniAMR.x --num_refine 3 --max_blocks 3000 --npx 2 --npy 2 --npz 1 --nx 6 --ny 6 --nz 6 --num_objects 1 --object 2 0 -1.71 -1.71 -1.71 0.04 0.04 0.04 1.7 1.7 1.7 0.0 0.0 0.0 --num_tsteps 15 --checksum_freq 4 --stages_per_ts 16' \
    '([Tt]otal blocks|Number of blocks).*'

# Algebraic multigrid in C (github.com/LLNL/AMG, 1.2).
program amg AMG 'make CC="$CC" INCLUDE_CFLAGS="-O2 -DHYPRE_NO_GLOBAL_PARTITION -DHYPRE_TIMING -w" INCLUDE_LFLAGS=-lm' \
    'test/amg -P 2 2 1 -n 40 40 40' '^(Iterations|Final Relative Residual Norm).*'

# Breadth-first search by active messages from any source, in C (github.com/graph500/graph500, 3.0, f89d643).
program graph500 graph500 'make -C src MPICC="$CC -fcommon" graph500_reference_bfs' \
    'src/graph500_reference_bfs 10' '^(SCALE|NBFS|[a-z]*_nedge).*'
