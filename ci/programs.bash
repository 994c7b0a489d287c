# shellcheck shell=bash disable=SC2016
# The programs of ci/programs. Their sources are not in this tree; each line says where they
# are from, and which version was tried.
#
#     program NAME FOLDER BUILD RUN SAME [FILE [RANKS]]
#
# FOLDER of the sources is copied for each MPI library, and BUILD is called there with the
# library's compilers in $CC, $CXX and $FC. RUN is called in the copy, by 4 ranks, or RANKS. SAME
# is an extended regular expression: what matches in the output (or in FILE, a pattern of names,
# which are removed before each run) must be there, and be the same in all runs.

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

# Hydrodynamics in C++, a cube of ranks (github.com/LLNL/LULESH, 2.0.3, 3e01c40).
program lulesh LULESH 'make CXX="$CXX -DUSE_MPI=1" CXXFLAGS="-O3 -I. -w" LDFLAGS=' \
    './lulesh2.0 -s 16 -i 100' '^ +(Iteration count|Final Origin Energy|[A-Za-z]*Diff) .*' '' 8

hpcc() {
    sed -e "s#^CC  .*#CC = $CC#" -e "s#^LINKER .*#LINKER = $CC#" -e 's#^LAlib.*#LAlib = -lblas -lgfortran -lm#' \
        -e 's#^HPL_OPTS.*#HPL_OPTS = -w#' hpl/setup/Make.macports_openmpi >hpl/Make.this
    # Open MPI has not the functions that MPI 3.0 removed.
    sed -i -e 's#MPI_Address#MPI_Get_address#' -e 's#MPI_Type_struct#MPI_Type_create_struct#' hpl/src/comm/HPL_packL.c
    # The program appends to a file. What it appended before it was killed stays there; what it printed is printed once.
    sed -i -e 's#outFname\[13\] = "hpccoutf.txt"#outFname[12] = "/dev/stdout"#' src/io.c
    cp _hpccinf.txt hpccinf.txt
    make arch=this
}
# HPL, PTRANS, RandomAccess, FFT and others in C (Debian's source package hpcc, 1.5.0, and libblas.a of libblas-dev,
# for instance by LIBRARY_PATH).
program hpcc hpcc hpcc ./hpcc \
    '^([A-Za-z_]*(Errors|Success|maxErr|residual|_N)=.*|\|\|Ax-b.*|End of HPC.*)|PASSED'

# Conjugate gradients with multigrid in C++ (github.com/hpcg-benchmark/hpcg, 3.1, 114602d).
hpcg() {
    sed -e "s#^CXX  .*#CXX = $CXX#" -e 's#^HPCG_OPTS.*#HPCG_OPTS = -DHPCG_NO_OPENMP#' setup/Make.Linux_MPI >setup/Make.this
    make arch=this
}
program hpcg hpcg hpcg 'bin/xhpcg --nx=16 --ny=16 --nz=16 --rt=0' \
    '(Total number of [a-z]+ iterations|Scaled residual mean|Departure for [A-Za-z]+)=.*|HPCG result is VALID' 'HPCG-Benchmark*.txt'

osu() { # FOLDER NAME [COMMON]: without configure, which would make its own files again
    "$CC" -O3 -w -DPACKAGE_VERSION='"5.3"' -DFIELD_WIDTH=18 -DFLOAT_PRECISION=2 "-Impi/$1" "mpi/$1/$2.c" ${3:+"mpi/$1/$3.c"} -o "$2" -lm
}
# Latencies and rates of messages, in C (github.com/forresti/osu-micro-benchmarks, 5.3, 993f966). It does not look at
# what it receives. osu_bw sends 16 GB by default, which all stay in the log: fewer iterations. osu_mbw_mr has no
# option for that. Not the parts for one-sided communication, and osu_latency_mt, which wants MPI_THREAD_MULTIPLE: the
# library has neither.
osu_lines='^[0-9]+ '
program osu-bw osu-micro-benchmarks 'osu pt2pt osu_bw osu_pt2pt' './osu_bw -i 3 -x 1' "$osu_lines" '' 2
program osu-multi-lat osu-micro-benchmarks 'osu pt2pt osu_multi_lat osu_pt2pt' './osu_multi_lat -i 100' "$osu_lines"
for part in alltoall allreduce reduce_scatter iallgather ialltoallw igatherv; do
    program "osu-$part" osu-micro-benchmarks "osu collective osu_$part osu_coll" "./osu_$part -i 20 -x 5" "$osu_lines" '' 5
done

# Solvers of linear equations in C, of a structured and of an unstructured mesh: its own test drivers
# (github.com/hypre-space/hypre, 3.1.0, 0854739).
hypre() { # DRIVER
    (cd src && ./configure CC="$CC" CXX="$CXX" FC="$FC" --with-MPI --disable-fortran && make -j "$(nproc)" && make -C test "$1")
}
hypre_lines='^(Iterations|Final Relative Residual Norm) = .*'
program hypre-ij hypre 'hypre ij' 'src/test/ij -n 40 40 40 -P 2 2 1 -solver 1' "$hypre_lines"
program hypre-struct hypre 'hypre struct' 'src/test/struct -n 40 40 40 -P 2 2 1 -solver 10' "$hypre_lines"
program hypre-sstruct hypre 'hypre sstruct' 'src/test/sstruct -in src/test/TEST_sstruct/sstruct.in.default -r 3 3 3 -P 2 2 1 -solver 28' "$hypre_lines"

# Python (PyPI's source of mpi4py 4.1.2): its own programs. python3 needs numpy and Cython 3.
mpi4py='MPICC="$CC" python3 setup.py build --build-lib lib'
program mpi4py-mandelbrot mpi4py "$mpi4py" 'env PYTHONPATH=lib python3 demo/mandelbrot/mandelbrot.py' 'task [0-9]+|all tasks, [a-z]+'
program mpi4py-alltoall mpi4py "$mpi4py" 'env PYTHONPATH=lib python3 demo/osu_alltoall.py' "$osu_lines"
