# shellcheck shell=bash
# Two things at once: a job's launcher, its start and its waits leave a processor idle
# that another one can use. What each says stays together. Wants report.bash.

lanes=${SOFTROCE_LANES:-2} under_way=0

in_lane() { # function arguments...
    local said
    while ((under_way >= lanes)); do one_done; done
    {
        began=$SECONDS
        said=$("$@")
        printf '%s\n' "$said"
        [[ $said != FAILED* ]]
    } &
    under_way=$((under_way + 1))
}

one_done() {
    wait -n || failures=$((failures + 1))
    under_way=$((under_way - 1))
}

all_done() { while ((under_way)); do one_done; done; }
