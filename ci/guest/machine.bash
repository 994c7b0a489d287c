# shellcheck shell=bash
# Runs the machine: what it is given, how long, and what came of it.

QPID= TPIDS=() W=
stop_children() {                    # end what this script started, by pid
  local p
  trap '' INT TERM HUP
  for p in $QPID "${TPIDS[@]:-}"; do [ -n "$p" ] && kill "$p" 2>/dev/null; done
  [ -z "$QPID" ] || { for _ in 1 2 3 4 5 6 7 8 9 10; do kill -0 "$QPID" 2>/dev/null || break; sleep 0.1; done; kill -9 "$QPID" 2>/dev/null; }
  wait 2>/dev/null
  [ -z "$W" ] || rm -rf "$W"
}

run_guest() {
  local t0 v kv q=() cmdline khz deadline state=boot rc
  t0=$(now)
  W=$(mktemp -d "${TMPDIR:-/tmp}/softroce.XXXXXX") || die 125 "no temporary directory"
  trap stop_children EXIT; trap 'exit 130' INT; trap 'exit 143' TERM; trap 'exit 129' HUP
  mkdir "$W/ctl"; : > "$W/ctl/out"; : > "$W/ctl/err"; : > "$W/console"
  # --- the command, its environment, and the guest's settings
  {
    for v in $(compgen -e); do
      case $v in
        PATH|HOME|USER|LANG|LC_*|LD_LIBRARY_PATH|TERM|RUST*|CARGO*|FI_*|IBV_*|MLX*|OMP_*) printf 'export %s=%q\n' "$v" "${!v}";;
        SOFTROCE_*) case $v in SOFTROCE_CACHE|SOFTROCE_MIRROR|SOFTROCE_KEEP_DEB) ;; *) printf 'export %s=%q\n' "$v" "${!v}";; esac;;
      esac
    done
    for kv in "${ENVS[@]}"; do
      case $kv in *=*) printf 'export %s=%q\n' "${kv%%=*}" "${kv#*=}";;
                  *) [ -z "${!kv+x}" ] || printf 'export %s=%q\n' "$kv" "${!kv}";; esac
    done
    printf 'export PATH=$PATH:/run/softroce\n'
    printf 'cd %q || exit 126\n' "$WORKDIR"
    printf 'exec --'; printf ' %q' "$@"; printf '\n'
  } > "$W/ctl/cmd"
  local own=
  if [ -z "$SCRATCH" ]; then SCRATCH=$W/scratch; mkdir "$SCRATCH"; own=1
  else mkdir -p "$SCRATCH" || die 2 "no such directory: $SCRATCH"; SCRATCH=$(cd "$SCRATCH" && pwd -P); fi
  for v in KVER KDIR TOPO MTU LIMIT SCRATCH DISK MERGE MODULES; do printf '%s=%q\n' "$v" "${!v}"; done > "$W/ctl/conf"
  printf '%s' "$SCRATCH" > "$W/ctl/scratch"; printf '%s' "$KDIR" > "$W/ctl/kdir"
  cp "$PARTS/stage2" "$PARTS/softroce-link" "$W/ctl/"
  # --- the machine
  cmdline="console=ttyS0 quiet panic=-1 oops=panic nokaslr no5lvl mitigations=off random.trust_cpu=on"
  cmdline+=" tsc=reliable nowatchdog rcupdate.rcu_expedited=1 rcupdate.rcu_cpu_stall_suppress=1"
  khz=$(host_tsc_khz "$W/rdtsc" 2>/dev/null) && cmdline+=" tsc_early_khz=$khz"
  # 6.1: emulated pclmulqdq is slower than the table CRC32 (half the rxe bandwidth). Later
  # kernels have no such module, and there pclmulqdq is the faster one.
  cmdline+=" module_blacklist=crc32_pclmul"
  cmdline+=" no_timer_check cryptomgr.notests audit=0 apparmor=0 selinux=0 $APPEND"
  q=(qemu-system-x86_64 -accel tcg,thread=multi -cpu "$CPU" -smp "$CPUS" -m "$MEM"
     -M pc,usb=off,vmport=off -nodefaults -no-user-config -display none -monitor none
     -nic none -no-reboot -sandbox on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny
     -kernel "$KDIR/kernel" -initrd "$KDIR/initrd" -append "$cmdline"
     -serial "file:$W/console"
     -device isa-debug-exit,iobase=0xf4,iosize=0x04
     -fsdev local,id=f0,path=/,security_model=none,readonly=on,multidevs=remap
     -device virtio-9p-pci,fsdev=f0,mount_tag=hostroot
     -fsdev "local,id=f1,path=$W/ctl,security_model=none" -device virtio-9p-pci,fsdev=f1,mount_tag=ctl
     -fsdev "local,id=f2,path=$SCRATCH,security_model=none,multidevs=remap" -device virtio-9p-pci,fsdev=f2,mount_tag=scratch)
  if [ -n "$DISK" ]; then
    truncate -s "$DISK" "$W/disk.img" && mke2fs -q -F -t ext4 "$W/disk.img" || die 125 "cannot make the disk image"
    q+=(-drive "file=$W/disk.img,format=raw,if=none,id=d0,cache=none,aio=threads" -device virtio-blk-pci,drive=d0)
  fi
  # pdeathsig: QEMU dies with this script even when the script gets SIGKILL
  setpriv --pdeathsig KILL "${q[@]}" </dev/null >"$W/qemu.log" 2>&1 &
  QPID=$!
  tail -q -n +1 -s 0.2 -f --pid=$QPID "$W/ctl/out" 2>/dev/null & TPIDS+=($!)
  tail -q -n +1 -s 0.2 -f --pid=$QPID "$W/ctl/err" >&2 2>/dev/null & TPIDS+=($!)
  [ "$VERBOSE" = 0 ] || { tail -q -n +1 -s 0.2 -f --pid=$QPID "$W/console" >&2 2>/dev/null & TPIDS+=($!); }
  # --- wait: one limit for the boot, then one for CMD (the guest's own timeout comes first)
  deadline=$((SECONDS + BOOTLIMIT))
  while kill -0 "$QPID" 2>/dev/null; do
    if [ $state = boot ] && [ -e "$W/ctl/started" ]; then
      state=cmd; T_BOOT=$(since "$t0"); deadline=$((SECONDS + LIMIT + 30))
    fi
    if [ $state = cmd ] && [ -e "$W/ctl/status" ]; then state=off; deadline=$((SECONDS + 20)); fi
    [ $SECONDS -lt $deadline ] || { kill -9 "$QPID" 2>/dev/null; [ $state = off ] || state=late-$state; break; }
    sleep 0.1
  done
  wait "$QPID" 2>/dev/null; QPID=
  wait "${TPIDS[@]}" 2>/dev/null; TPIDS=()
  # --- result
  if [ -r "$W/ctl/status" ]; then rc=$(<"$W/ctl/status")
  else
    case $state in
      late-boot) say "error: the guest did not come up within $BOOTLIMIT s";;
      late-cmd)  say "error: CMD did not end within $LIMIT s and the guest hung";;
      *)         say "error: the guest ended before CMD did";;
    esac
    [ ! -s "$W/ctl/setup-error" ] || cat "$W/ctl/setup-error" >&2
    [ ! -s "$W/qemu.log" ] || { say "QEMU said:"; tail -5 "$W/qemu.log" >&2; }
    [ "$VERBOSE" = 1 ] || { say "end of the guest's console:"; tail -25 "$W/console" | tr -d '\r' >&2; }
    rc=125; [ $state != late-cmd ] || rc=124
  fi
  [ "$rc" != 124 ] || say "time limit of $LIMIT s reached"
  if [ -r "$W/ctl/dmesg" ] && grep -qE 'BUG:|WARNING:|Oops|Call Trace|soft lockup' "$W/ctl/dmesg"; then
    say "note: the guest kernel complained:"; grep -E -m5 'BUG:|WARNING:|Oops|soft lockup' "$W/ctl/dmesg" >&2
  fi
  if [ "$VERBOSE" = 1 ]; then
    say "kernel $KVER, $CPUS cpu, boot ${T_BOOT:-?} s, total $(since "$t0") s; guest uptime: $(cat "$W/ctl/times" 2>/dev/null | tr '\n' ' ')"
  fi
  [ -z "${SOFTROCE_DEBUG_DIR:-}" ] || { mkdir -p "$SOFTROCE_DEBUG_DIR"; cp -r "$W/ctl" "$W/console" "$W/qemu.log" "$SOFTROCE_DEBUG_DIR/"; }
  exit "$rc"
}
