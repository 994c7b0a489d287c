"""Spack recipe of Refrain; `ci/package spack` fills in PLACE, VERSION and SHA256."""

from spack_repo.builtin.build_systems.generic import Package

from spack.package import *


class Refrain(Package):
    """MPI 5.0 with the standard ABI. Messages are logged at their senders, and a rank that is
    killed is restarted alone."""

    url = "file://PLACE"

    license("MIT OR Apache-2.0")

    version("VERSION", sha256="SHA256")

    variant("fabrics", default=False, description="Use libfabric and libibverbs between hosts")

    depends_on("c", type="build")
    depends_on("rust@1.93:", type="build")
    # Loaded at run time.
    depends_on("libfabric@1.17:", type="run", when="+fabrics")
    depends_on("rdma-core", type="run", when="+fabrics")

    provides("mpi@:5")

    def install(self, spec, prefix):
        packages = ["-p", "refrain-cli", "-p", "refrain-mpi", "-p", "refrain-fortran"]
        cargo = which("cargo", required=True)
        cargo("build", "--release", "--locked", "--jobs", str(make_jobs), *packages)
        Executable("target/release/refrain")("install", "--prefix", str(prefix))

    def setup_run_environment(self, env):
        env.set("MPICC", self.prefix.bin.mpicc)
        env.set("MPICXX", self.prefix.bin.mpicxx)
        if self.spec.satisfies("+fabrics"):
            for package, library, variable in [
                ("libfabric", "libfabric", "REFRAIN_LIBFABRIC"),
                ("rdma-core", "libibverbs", "REFRAIN_LIBIBVERBS"),
            ]:
                found = find_libraries(library, self.spec[package].prefix, recursive=True)
                env.set(variable, found[0])

    def setup_dependent_build_environment(self, env, dependent_spec):
        module = dependent_spec.package.module
        env.set("MPICC_CC", module.spack_cc)
        env.set("MPICXX_CXX", module.spack_cxx)
        env.set("MPIFORT_FC", module.spack_fc)

    def setup_dependent_package(self, module, dependent_spec):
        self.spec.mpicc = self.prefix.bin.mpicc
        self.spec.mpicxx = self.prefix.bin.mpicxx
        self.spec.mpifc = self.prefix.bin.mpifort
        self.spec.mpif77 = self.prefix.bin.mpif77
