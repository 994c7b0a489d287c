#!/bin/sh
# mpicc, mpicxx, mpifort: the C, C++ or Fortran compiler with the headers and libraries of Refrain's
# MPI. Modules for Fortran are compiled at the first use of a compiler, as their files belong to it.
#
#   -show         print the command instead of running it
#   $MPICC_CC     the C compiler [default: cc]; $MPICXX_CXX: the C++ compiler [default: c++];
#   $MPIFORT_FC   the Fortran compiler [default: gfortran]

file=$(readlink -f -- "$0") || exit 1
prefix=$(CDPATH='' cd -- "$(dirname -- "$file")/.." && pwd) || exit 1

fortran=
case ${0##*/} in
mpif*) compiler=${MPIFORT_FC:-gfortran} fortran=yes ;;
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

# Compiles the modules in a folder of their own, which then gets its name: several may do so at once.
# If none can be compiled, that is tried again at the next use.
compile() { # place
    mkdir -p "$1" 2>/dev/null || return 1
    new=$(mktemp -d "$1/.new.XXXXXX" 2>/dev/null) || return 1
    trap 'rm -rf "$new"; exit 1' HUP INT TERM
    bad=
    for module in mpi mpi_f08; do
        # shellcheck disable=SC2086
        (cd "$new" && $compiler -O1 -fPIC -w -c "$sources/$module.f90" -o "$module.o") >"$new/$module.log" 2>&1 ||
            bad="$bad $module"
    done
    modules=$1/$name
    if [ -f "$new/mpi.o" ]; then
        (cd "$new" && ar rc libmpi_modules.a ./*.o) 2>"$new/ar.log"
    else
        modules=$modules.failed
        rm -rf "$modules"
    fi
    chmod 755 "$new"
    mv -T "$new" "$modules" 2>/dev/null || rm -rf "$new"
    trap - HUP INT TERM
    for module in $bad; do
        echo "${0##*/}: $compiler cannot compile the module $module ($modules/$module.log); mpif.h can be used without" >&2
    done
    [ -d "$modules" ]
}

# Sets $modules to the folder of the compiler's modules, and compiles them if there is none.
find_modules() {
    sources=$prefix/include/refrain
    # shellcheck disable=SC2086
    version=$($compiler --version 2>/dev/null) || {
        echo "${0##*/}: there is no Fortran compiler '$compiler': install gfortran, or set MPIFORT_FC to the compiler's name" >&2
        exit 1
    }
    # What decides whether module files can be read: compiler, version, and what they are made of.
    version=$(printf '%s\n' "$version" | head -n 1 | tr -cs 'A-Za-z0-9.\n' '-')
    name=$version-$(cat "$sources/mpi.f90" "$sources/mpi_f08.f90" | cksum | tr -d ' ')
    own=${XDG_CACHE_HOME:-$HOME/.cache}/refrain/fortran
    for place in "$prefix/lib/fortran" "$own"; do
        modules=$place/$name
        [ ! -d "$modules" ] || return 0
    done
    for place in "$prefix/lib/fortran" "$own"; do
        ! compile "$place" || return 0
    done
    [ -d "$modules" ] || echo "${0##*/}: neither $prefix/lib/fortran nor $own can be written: there are no modules" >&2
}

libraries=-lmpi_abi
if [ -n "$fortran" ]; then
    find_modules
    libraries="-lmpifort_abi -lmpi_abi"
    set -- -I"$modules" "$@"
    [ -z "$links" ] || [ ! -f "$modules/libmpi_modules.a" ] || set -- "$@" "$modules/libmpi_modules.a"
fi
set -- -I"$prefix/include" "$@"
if [ -n "$links" ]; then
    # shellcheck disable=SC2086
    set -- "$@" -L"$prefix/lib" -Wl,-rpath,"$prefix/lib" -Wl,--enable-new-dtags $libraries
fi
# $compiler may have options of its own.
if [ -n "$show" ]; then
    printf '%s\n' "$compiler $*"
    exit 0
fi
# shellcheck disable=SC2086
exec $compiler "$@"
