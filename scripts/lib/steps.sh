# shellcheck shell=bash
# Sourced by scripts/test, after install.sh: runs steps one after another, each with a separate log.
#
#     add_step NAME SECONDS TITLE   adds a step: the function step_NAME, and how long it takes on two idle CPUs
#     run_steps                     runs all of them, and stops at the first that fails
#
# A step prints one line, and then the closing lines of ctest and pytest in its log. How long a step took is kept, so that
# the next run says how long it takes on this machine.

# shellcheck disable=SC2154 # of install.sh
logs_dir=$root_dir/build/logs
step_names=() step_seconds=() step_titles=()

add_step() {
    local last
    last=$(cat "$logs_dir/$1.seconds" 2>/dev/null) || last=$2
    step_names+=("$1") step_seconds+=("$last") step_titles+=("$3")
}

# duration SECONDS: prints it in words.
duration() { if [ "$1" -lt 90 ]; then echo "$1 s"; else echo "$((($1 + 30) / 60)) min"; fi; }

# summaries LOG: the lines in which ctest and pytest say how many tests passed.
summaries() { grep -E '^[0-9]+% tests passed|^(=+ )?[0-9]+ (passed|failed|skipped|error).* in [0-9.]+s' "$1" || true; }

run_steps() {
    local i name log began left seconds code
    mkdir -p "$logs_dir"
    for ((i = 0; i < ${#step_names[@]}; i++)); do
        name=${step_names[i]} log=$logs_dir/${step_names[i]}.log began=$SECONDS left=0
        for seconds in "${step_seconds[@]:i}"; do left=$((left + seconds)); done
        printf '[%d/%d] %s (about %s; %s left in all) ... ' $((i + 1)) ${#step_names[@]} "${step_titles[i]}" \
            "$(duration "${step_seconds[i]}")" "$(duration $left)" >&2
        # Not in a condition: there, bash would ignore `set -e` in the step.
        set +e
        (set -e; "step_$name") >"$log" 2>&1 </dev/null
        code=$?
        set -e
        seconds=$((SECONDS - began))
        if [ $code != 0 ]; then
            printf 'FAILED after %s\n' "$(duration $seconds)" >&2
            tail -n 60 "$log" >&2
            summaries "$log"
            printf 'error: step "%s" failed; the whole log: %s\n' "${step_titles[i]}" "${log#"$root_dir"/}" >&2
            exit 1
        fi
        printf '%s\n' "$(duration $seconds)" >&2
        echo $seconds >"$logs_dir/$name.seconds"
        summaries "$log"
    done
}
