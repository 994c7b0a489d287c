# shellcheck shell=bash
# What each part of the step says of one thing that it ran.

failures=0 began=$SECONDS

ok() { # what
    echo "ok      $((SECONDS - began)) s  $1"
    began=$SECONDS
}

skipped() { # what why
    echo "skipped $1: $2"
    began=$SECONDS
}

failed() { # what why [file to show]
    echo "FAILED  $((SECONDS - began)) s  $1: $2"
    if [[ -n ${3-} ]]; then tail -n 20 "$3" | sed 's/^/        | /'; fi
    failures=$((failures + 1))
    began=$SECONDS
}

finish() { exit $((failures > 0)); }
