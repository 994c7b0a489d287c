# shellcheck shell=bash
# Jobs of the tables: how one is run, and what must come of it. Wants $programs,
# $folder, $here and report.bash.

# libfabric sizes completion queues by it; its default is more than soft-RoCE allows.
export FI_UNIVERSE_SIZE=64
# For the launcher's own look; each rank is told its own (on-wire).
export REFRAIN_VERBS_DEVICE=$SOFTROCE_DEV0
# Only verbs: to ask all providers takes longer than many a job.
export FI_PROVIDER=verbs
job_limit_s=${SOFTROCE_JOB_LIMIT_S:-120}
# A device holds all of a log's memory in place, and that takes seconds here.
log_memory=${log_memory:-16M}

# Calls `run LOG FABRIC RANKS OPTIONS WORKLOAD THIRD` for each line of a table whose
# fabric is known. In options @HERE is the folder of these programs.
each_job() { # table run
    local of workload third fabric ranks options number=0
    while IFS='|' read -r of workload third; do
        read -r fabric ranks options <<<"$of"
        read -r workload <<<"$workload"
        read -r third <<<"$third"
        options=${options//@HERE/$here}
        number=$((number + 1))
        if [[ $fabric = auto ]] || grep -qxF -- "$fabric" "$folder/fabrics"; then
            $2 "$folder/${1##*/}-$number.log" "$fabric" "$ranks" "$options" "$workload" "$third"
        else
            skipped "$fabric, $ranks ranks $options: $workload" "refrain knows no such fabric yet"
        fi
    done < <(grep -v '^#' "$1")
}

run_job() { # fabric ranks options workload
    # shellcheck disable=SC2086
    timeout -k 5 "$job_limit_s" "$programs/refrain" run --no-prefix -n "$2" --fabric "$1" \
        --log-memory "$log_memory" $3 \
        -- "$here/on-wire" "$programs/refrain-workload" $4 </dev/null
}

# Says what is wrong with a job that has ended; its status says whether anything is.
why_wrong() { # status ranks workload log
    local found wanted
    if (($1 == 124 || $1 == 137)); then
        echo "it has not ended after $job_limit_s s"
        return
    fi
    if (($1 != 0)); then
        echo "status $1"
        return
    fi
    wanted=$(sed -n "s/^$2 $3 = //p" "$folder/expected")
    found=$(grep -v '^refrain:' "$4" | tail -n 1)
    [[ -z $wanted || $found != "$wanted" ]] && echo "expected: $wanted"
}
