"""Makes a Python wheel of an installed Refrain.

usage: python3 wheel.py PREFIX VERSION FOLDER

Prints the wheel's path. Programs become scripts of the wheel; all other files keep their place
below the environment (lib, include, share). A wheel has no links: a link to a program becomes a
script, a link to a library a text for the linker, any other link a copy.
"""

import base64
import hashlib
import os
import pathlib
import platform
import re
import sys
import time
import zipfile

ELF = b"\x7fELF"
LAUNCHER = b"""#!/bin/sh
exec "$(dirname -- "$(readlink -f -- "$0")")/refrain" mpiexec "$@"
"""


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == ELF


def content(path, prefix):
    """The bytes of a file, or of what stands for a link."""
    if path.is_symlink() and is_elf(path):
        if path.parent == prefix / "bin":
            return LAUNCHER
        return ("INPUT(%s)\n" % path.resolve().name).encode()
    return path.read_bytes()


def glibc_minor(files):
    """The newest minor version of glibc 2 that the files need."""
    versions = [0]
    for data in files:
        if data.startswith(ELF):
            versions += map(int, re.findall(rb"GLIBC_2\.(\d+)", data))
    return max(versions)


def main(prefix, version, folder):
    prefix = pathlib.Path(prefix).resolve()
    files = {}
    for path in sorted(prefix.rglob("*")):
        if path.is_dir():
            continue
        place = path.relative_to(prefix)
        scheme = "scripts" if place.parts[0] == "bin" else "data"
        name = place.relative_to("bin") if scheme == "scripts" else place
        mode = 0o755 if os.access(path, os.X_OK) else 0o644
        files["refrain-%s.data/%s/%s" % (version, scheme, name)] = (content(path, prefix), mode)

    machine = platform.machine()
    minor = glibc_minor(data for data, _ in files.values())
    tag = "py3-none-manylinux_2_%d_%s" % (minor, machine)
    info = "refrain-%s.dist-info" % version
    texts = {
        "METADATA": "Metadata-Version: 2.1\nName: refrain\nVersion: %s\n"
        "Summary: MPI 5.0 (standard ABI) whose jobs survive the death of ranks\n"
        "License: MIT OR Apache-2.0\nRequires-Python: >=3.8\n" % version,
        "WHEEL": "Wheel-Version: 1.0\nGenerator: ci/package\nRoot-Is-Purelib: false\nTag: %s\n" % tag,
    }
    for name, text in texts.items():
        files["%s/%s" % (info, name)] = (text.encode(), 0o644)
    record = ""
    for name, (data, _) in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += "%s,sha256=%s,%d\n" % (name, digest, len(data))
    record += "%s/RECORD,,\n" % info
    files["%s/RECORD" % info] = (record.encode(), 0o644)

    date = time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", time.time())))[:6]
    wheel = pathlib.Path(folder) / ("refrain-%s-%s.whl" % (version, tag))
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, (data, mode) in files.items():
            entry = zipfile.ZipInfo(name, date)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100000 | mode) << 16
            archive.writestr(entry, data)
    print(wheel)


if __name__ == "__main__":
    main(*sys.argv[1:])
