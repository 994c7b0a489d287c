# shellcheck shell=bash
# What the host must have, and which Debian package brings it.

# command -> Debian package that brings it
NEED=(
  qemu-system-x86_64:qemu-system-x86   busybox:busybox-static   cpio:cpio
  xz:xz-utils          zstd:zstd         depmod:kmod            modprobe:kmod
  dpkg-deb:dpkg        apt-get:apt       tar:tar                od:coreutils
  tail:coreutils       timeout:coreutils setpriv:util-linux     flock:util-linux
  awk:mawk             ip:iproute2       rdma:iproute2          mke2fs:e2fsprogs
)
check_packages() {
  local p cmd pkg missing=() pkgs=()
  PATH=$PATH:/usr/sbin:/sbin
  for p in "${NEED[@]}"; do
    cmd=${p%%:*} pkg=${p#*:}
    command -v "$cmd" >/dev/null 2>&1 || { missing+=("$cmd"); pkgs+=("$pkg"); }
  done
  # The initramfs holds busybox alone, so it must not need shared libraries.
  BUSYBOX=$(command -v busybox || true)
  if [ -n "$BUSYBOX" ] && ldd "$BUSYBOX" >/dev/null 2>&1; then
    missing+=("busybox (static build)"); pkgs+=(busybox-static)
  fi
  if [ ${#missing[@]} -gt 0 ]; then
    say "missing: ${missing[*]}"
    local uniq=" "; for p in "${pkgs[@]}"; do case $uniq in *" $p "*) ;; *) uniq+="$p ";; esac; done
    say "install them with: apt-get install --no-install-recommends$uniq"
    return 3
  fi
  # Wanted by the tests rather than by this script: only a word of warning.
  local soft=() lib
  for lib in libibverbs/librxe-rdmav libibverbs.so.1 librdmacm.so.1; do
    compgen -G "/usr/lib/x86_64-linux-gnu/$lib*" >/dev/null || compgen -G "/usr/lib64/$lib*" >/dev/null || soft+=("$lib")
  done
  [ ${#soft[@]} -eq 0 ] || say "note: user-space verbs not found (${soft[*]}); for verbs tests: apt-get install ibverbs-providers librdmacm1"
  return 0
}
