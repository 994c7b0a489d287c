#!/bin/sh
# mpicc, mpicxx: the C or C++ compiler with the header and the library of Refrain's MPI.
#
#   -show         print the command instead of running it
#   $MPICC_CC     the C compiler [default: cc]; $MPICXX_CXX: the C++ compiler [default: c++]

file=$(readlink -f -- "$0") || exit 1
prefix=$(CDPATH='' cd -- "$(dirname -- "$file")/.." && pwd) || exit 1

case ${0##*/} in
mpicxx* | mpic++* | mpiCC*) compiler=${MPICXX_CXX:-c++} ;;
*) compiler=${MPICC_CC:-cc} ;;
esac

show=
links=yes
for word; do
    shift
    case $word in
    -show | --show | -showme | --showme) show=yes; continue ;;
    -c | -E | -S | -M | -MM | -fsyntax-only) links= ;;
    esac
    set -- "$@" "$word"
done

# The compiler alone may be asked for its version.
case $# in
0) links= ;;
1) case $1 in -v | -V | --version | -dumpversion | -dumpmachine) links= ;; esac ;;
esac
[ -z "$show" ] || [ $# -gt 0 ] || links=yes

set -- -I"$prefix/include" "$@"
if [ -n "$links" ]; then
    set -- "$@" -L"$prefix/lib" -Wl,-rpath,"$prefix/lib" -Wl,--enable-new-dtags -lmpi_abi
fi
# $compiler may have options of its own.
if [ -n "$show" ]; then
    printf '%s\n' "$compiler $*"
    exit 0
fi
# shellcheck disable=SC2086
exec $compiler "$@"
