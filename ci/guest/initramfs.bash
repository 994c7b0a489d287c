# shellcheck shell=bash
# The initial file system of the guest: busybox, the modules it needs, and `init`.

build_initramfs() {                  # $1: cache entry being made
  local d=$1 ir=$1/ir m f n=100 list
  mkdir -p "$ir"/{bin,dev,proc,sys,mods,host,up,new}
  cp "$BUSYBOX" "$ir/bin/busybox"
  mod_files() { modprobe -d "$d" -S "$KVER" --show-depends "$1" 2>/dev/null | awk '/^insmod/{print $2}'; }
  list=$(for m in $MOD_NEED; do
           modprobe -d "$d" -S "$KVER" --show-depends "$m" >/dev/null 2>&1 || { say "kernel $KVER has no module $m"; echo MISSING; }
           mod_files "$m"; done
         for m in $MOD_WANT; do mod_files "$m"; done)
  case $list in *MISSING*) die 4 "this kernel cannot be used (Debian's cloud flavour has no rdma_rxe and no 9p: use linux-image-amd64)";; esac
  while read -r f; do
    n=$((n + 1)); m=${f##*/}
    case $f in
      *.ko)     cp "$f" "$ir/mods/$n-$m";;
      *.ko.xz)  xz -dc "$f"   > "$ir/mods/$n-${m%.xz}";;
      *.ko.zst) zstd -dcq "$f" > "$ir/mods/$n-${m%.zst}";;
    esac
  done < <(awk '!s[$0]++' <<<"$list")
  # Namespace-aware rdma_rxe (for -T netns): has these functions.
  ! grep -q rxe_ns_pernet "$ir"/mods/*-rdma_rxe.ko || : > "$d/rxe-netns"
  cp "$PARTS/init" "$ir/init"
  chmod 755 "$ir/init"
  (cd "$ir" && find . | cpio -o -H newc --quiet) > "$d/initrd" || die 1 "cpio failed"
  rm -rf "$ir"
}
