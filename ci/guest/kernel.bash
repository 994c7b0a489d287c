# shellcheck shell=bash
# The guest's kernel: a stock Debian one, fetched by apt and unpacked into the cache.

# Modules the initramfs loads itself (in this order, with what they depend on), and
# those that are left out silently where a kernel has them built in or lacks them.
MOD_NEED="virtio_pci 9pnet_virtio 9p overlay veth ib_core ib_uverbs rdma_cm rdma_ucm rdma_rxe"
MOD_WANT="crc32_generic"

APT=()                               # extra apt options when --suite is given
debian_mirror() {                    # where the configured sources have Debian itself
  [ -z "${SOFTROCE_MIRROR:-}" ] || { printf '%s' "$SOFTROCE_MIRROR"; return; }
  apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' | head -1
}
apt_private() {                      # private apt state for another suite
  local mirror suite=$1 d=$CACHE/apt-$1 key=/usr/share/keyrings/debian-archive-keyring.gpg
  [ -r "$key" ] || die 3 "missing $key (package debian-archive-keyring)"
  mirror=$(debian_mirror); [ -n "$mirror" ] || die 4 "apt has no source of Debian's own: name one in SOFTROCE_MIRROR"
  mkdir -p "$d"/{lists/partial,cache/archives/partial,etc}
  printf 'deb [signed-by=%s] %s %s main\n' "$key" "$mirror" "$suite" > "$d/etc/sources.list"
  APT=(-o Dir::Etc::sourcelist="$d/etc/sources.list" -o Dir::Etc::sourceparts=-
       -o Dir::State::lists="$d/lists" -o Dir::Cache="$d/cache" -o Acquire::Languages=none
       -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false -o APT::Sandbox::User=)
  [ -n "$(find "$d/lists" -maxdepth 1 -name '*Packages*' -print -quit)" ] ||
    apt-get "${APT[@]}" -q update >&2 || die 4 "apt-get update for $suite failed"
}
# The packages that hold kernel image and modules: follow the meta package's chain
# (bookworm: one package linux-image-6.1.0-N-amd64; 7.x: linux-{binary,modules,base}-7*).
kernel_packages() {
  local q=(linux-image-amd64) seen=" " p d
  while [ ${#q[@]} -gt 0 ]; do
    p=${q[0]}; q=("${q[@]:1}")
    case $seen in *" $p "*) continue;; esac; seen+="$p "
    case $p in
      linux-image-[0-9]*|linux-binary-[0-9]*|linux-modules-[0-9]*|linux-base-[0-9]*) echo "$p";;
    esac
    while read -r d; do
      case $d in
        linux-image-[0-9]*-amd64|linux-binary-*|linux-modules-*|linux-base-*) q+=("$d");;
      esac
    done < <(apt-cache "${APT[@]}" depends --no-recommends --no-suggests "$p" 2>/dev/null | awk '/Depends:/{print $NF}')
  done
}

download_kernel() {                  # folder packages...
  local dl=$1; shift
  [ $# -gt 0 ] || return 1
  say "downloading $*"
  (cd "$dl" && apt-get "${APT[@]}" -q -o APT::Sandbox::User= download "$@" >&2)
}

setup_kernel() {                     # sets KDIR (cache entry) and KVER
  mkdir -p "$CACHE" || die 4 "cannot make the cache $CACHE"
  local ptr=$CACHE/current-${SUITE:-default}
  exec 9>"$CACHE/lock" && flock 9    # two runs at once: one sets up, the other waits
  if [ -r "$ptr" ] && KVER=$(<"$ptr") && [ -r "$CACHE/$KVER/stamp" ] && [ "$(<"$CACHE/$KVER/stamp")" = "$SELF_VERSION" ]; then
    KDIR=$CACHE/$KVER; exec 9>&-; return 0
  fi
  local t0; t0=$(now)
  [ -z "$SUITE" ] || apt_private "$SUITE"
  local dl=$CACHE/dl f; mkdir -p "$dl"
  local pkgs=(); mapfile -t pkgs < <(kernel_packages)
  if ! download_kernel "$dl" "${pkgs[@]}"; then
    # Lists may be missing or old: ci/test may renew them, as it may install.
    [ "${CI_INSTALL:-no}" = yes ] && [ "$EUID" = 0 ] && [ -z "$SUITE" ] && apt-get -q update >&2 ||
      die 4 "no linux-image-amd64 can be had from apt (run apt-get update, or check the apt sources)"
    mapfile -t pkgs < <(kernel_packages)
    download_kernel "$dl" "${pkgs[@]}" || die 4 "no linux-image-amd64 can be had from apt, though its lists are new: check its sources"
  fi
  # Unpack only what RDMA tests can use; the full tree is 100-400 MB.
  local tmp=$CACHE/tmp.$$; rm -rf "$tmp"; mkdir -p "$tmp"
  trap 'rm -rf "${CACHE:?}/tmp.$$"' EXIT
  for p in "${pkgs[@]}"; do
    f=$(ls -t "$dl/$p"_*.deb 2>/dev/null | head -1); [ -n "$f" ] || die 1 "no file for $p in $dl"
    dpkg-deb --fsys-tarfile "$f" | tar -C "$tmp" -x --wildcards \
      './boot/vmlinuz-*' './boot/config-*' './*lib/modules/*/vmlinuz' './*lib/modules/*/config' \
      './*lib/modules/*/modules.*' './*lib/modules/*/kernel/arch/*' './*lib/modules/*/kernel/crypto/*' \
      './*lib/modules/*/kernel/lib/*' './*lib/modules/*/kernel/fs/*' './*lib/modules/*/kernel/net/*' \
      './*lib/modules/*/kernel/drivers/infiniband/*' './*lib/modules/*/kernel/drivers/virtio/*' \
      './*lib/modules/*/kernel/drivers/block/*' './*lib/modules/*/kernel/drivers/nvme/*' \
      './*lib/modules/*/kernel/drivers/char/*' './*lib/modules/*/kernel/drivers/net/veth*' \
      './*lib/modules/*/kernel/drivers/net/dummy*' './*lib/modules/*/kernel/drivers/net/ifb*' \
      './*lib/modules/*/kernel/drivers/net/macv*' './*lib/modules/*/kernel/drivers/net/ipvlan/*' \
      './*lib/modules/*/kernel/drivers/net/tun*' 2>/dev/null || true   # absent patterns are no error
  done
  [ -d "$tmp/usr/lib/modules" ] && { mkdir -p "$tmp/lib"; mv "$tmp/usr/lib/modules" "$tmp/lib/"; }
  KVER=$(ls "$tmp/lib/modules" 2>/dev/null | head -1); [ -n "$KVER" ] || die 1 "no modules in ${pkgs[*]}"
  local img; img=$(ls "$tmp"/boot/vmlinuz-* "$tmp/lib/modules/$KVER/vmlinuz" 2>/dev/null | head -1)
  [ -n "$img" ] || die 1 "no kernel image in ${pkgs[*]}"
  depmod -b "$tmp" "$KVER" || die 1 "depmod failed"
  unpack_image "$img" "$tmp/kernel"
  build_initramfs "$tmp"
  printf '%s' "$SELF_VERSION" > "$tmp/stamp"
  rm -rf "${CACHE:?}/$KVER"; mv "$tmp" "$CACHE/$KVER"; printf '%s' "$KVER" > "$ptr"
  [ -n "${SOFTROCE_KEEP_DEB:-}" ] || rm -rf "$dl"
  KDIR=$CACHE/$KVER; exec 9>&-; trap - EXIT
  say "kernel $KVER ready in $KDIR ($(du -sh "$KDIR" | cut -f1)), $(since "$t0") s"
}

# A bzImage unpacks itself, which costs seconds under emulation. Take the ELF kernel
# out on the host; QEMU starts it through its PVH entry point (CONFIG_PVH=y).
# The boot header says where the payload lies (Documentation/x86/boot).
unpack_image() {
  local img=$1 out=$2 ss off len magic
  u() { od -An -tu"$2" -j"$1" -N"$2" "$img" | tr -d ' '; }
  ss=$(u 497 1); [ "$ss" -ne 0 ] || ss=4
  off=$(( (ss + 1) * 512 + $(u 584 4) )); len=$(u 588 4)
  magic=$(od -An -tx1 -j"$off" -N4 "$img" | tr -d ' ')
  payload() { tail -c +$((off + 1)) "$img" | head -c "$len"; }
  case $magic in
    fd377a58) payload | xz -dc --single-stream;;
    28b52ffd) payload | zstd -dcq 2>/dev/null;;      # 4 bytes of trailer follow: ignore
    1f8b*)    payload | gzip -dc 2>/dev/null;;
  esac > "$out" 2>/dev/null
  # Without an ELF kernel with a Xen/PVH note fall back to the bzImage: slower, works.
  if [ "$(head -c4 "$out" | od -An -tx1 | tr -d ' ')" != 7f454c46 ]; then
    say "note: could not take the ELF kernel out of ${img##*/}; booting the bzImage"
    cp "$img" "$out"
  fi
}
