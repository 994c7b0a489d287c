#%Module1.0
# Refrain VERSION, for Environment Modules and Lmod. It finds its prefix from its own place,
# PREFIX/share/modulefiles/refrain/VERSION.

proc ModulesHelp { } {
    puts stderr "Refrain VERSION: MPI 5.0 (standard ABI) whose jobs survive the death of ranks"
}
module-whatis "Refrain VERSION: MPI 5.0 (standard ABI) whose jobs survive the death of ranks"

conflict openmpi
conflict mpich

set prefix [file normalize $ModulesCurrentModulefile]
foreach part {VERSION refrain modulefiles share} { set prefix [file dirname $prefix] }

prepend-path PATH $prefix/bin
prepend-path LD_LIBRARY_PATH $prefix/lib
prepend-path PKG_CONFIG_PATH $prefix/lib/pkgconfig
prepend-path MANPATH $prefix/share/man
# An empty part: the system's pages, too.
append-path MANPATH {}
setenv MPI_HOME $prefix
