# shellcheck shell=bash
# The guest's TSC is the host's. On a loaded machine the guest kernel measures its
# frequency wrongly (seen: 2.5 times), then all its clocks and time-outs are wrong. So
# measure it here and tell the kernel (tsc_early_khz); the kernel refines it later.
# A shell cannot read the TSC: this is a 74 byte program, assembled by hand, that writes
# rdtsc, clock_gettime(CLOCK_MONOTONIC), rdtsc as four 64-bit words.
host_tsc_khz() {                     # $1: file to write the program to; prints kHz
  local e='\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x3e\0\x01\0\0\0\x78\0\x40\0\0\0\0\0' a b i
  e+='\x40\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x40\0\x38\0\x01\0\0\0\0\0\0\0'           # ELF header
  e+='\x01\0\0\0\x05\0\0\0\0\0\0\0\0\0\0\0\0\0\x40\0\0\0\0\0\0\0\x40\0\0\0\0\0'
  e+='\xc2\0\0\0\0\0\0\0\xc2\0\0\0\0\0\0\0\0\x10\0\0\0\0\0\0'                     # one segment, r-x
  e+='\x48\x83\xec\x20\x0f\x31\x48\xc1\xe2\x20\x48\x09\xd0\x48\x89\x04\x24'          # rsp-=32; [rsp]=tsc
  e+='\xb8\xe4\0\0\0\xbf\x01\0\0\0\x48\x8d\x74\x24\x08\x0f\x05'                    # clock_gettime(1, rsp+8)
  e+='\x0f\x31\x48\xc1\xe2\x20\x48\x09\xd0\x48\x89\x44\x24\x18'                    # [rsp+24]=tsc
  e+='\xb8\x01\0\0\0\x89\xc7\x48\x89\xe6\xba\x20\0\0\0\x0f\x05'                    # write(1, rsp, 32)
  e+='\xb8\x3c\0\0\0\x31\xff\x0f\x05'                                            # exit(0)
  printf "$e" > "$1" && chmod 700 "$1" || return 1
  # Of a few readings keep the one least disturbed between its two rdtsc.
  reading() { for i in 1 2 3 4 5; do "$1" | od -An -v -tu8 -w32; done | awk '{d=$4-$1; if (NR==1||d<m) {m=d; l=$0}} END{print l}'; }
  a=$(reading "$1") && sleep 0.25 && b=$(reading "$1") || return 1
  awk -v a="$a" -v b="$b" 'BEGIN{split(a,x); split(b,y)
    k=((y[1]-x[1])+(y[4]-x[4]))/2/((y[2]-x[2])*1e6+(y[3]-x[3])/1e3)*1e3
    if (k>1e5 && k<1e7) printf "%d\n", k; else exit 1}'
}
