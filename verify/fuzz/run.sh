#!/usr/bin/env bash
# Lets libFuzzer search for inputs that break a promise: run.sh SECONDS [TARGET...]
#
# SECONDS are for each target; without names all of `keywalk-fuzz list`. Works with the stable compiler: the code is
# instrumented by LLVM's own pass. What is learnt stays in build/fuzz/corpus. An input that panics, takes longer than 20
# seconds or more than 2 GiB is left in build/fuzz/found; `keywalk-fuzz run TARGET FILE` shows it again.
#
# Exit status: 0 nothing found, 1 something found, 2 wrong usage, 3 a tool is missing.
set -euo pipefail
cd "$(dirname "$0")/../.."

seconds=${1:-}
case "$seconds" in '' | *[!0-9]*) echo "usage: verify/fuzz/run.sh SECONDS [TARGET...]" >&2 && exit 2 ;; esac
shift
for tool in "${CARGO:=cargo}" rustc "${CXX:-c++}"; do
    command -v "$tool" >/dev/null || { echo "fuzz: needs $tool; run make setup" >&2 && exit 3; }
done

host=$(rustc -vV | sed -n 's/^host: //p')
target_dir=${CARGO_TARGET_DIR:-target}
# Build scripts must not be instrumented; naming the target keeps them apart. The models of the hardware, which no target
# simulates, are those of other builds.
mkdir -p "$target_dir/$host" "$target_dir/verilated" build/fuzz/found
[ -e "$target_dir/$host/verilated" ] || ln -s ../verilated "$target_dir/$host/verilated"
passes='-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares'
helper() { "$CARGO" run --quiet --release -p keywalk-fuzz --bin keywalk-fuzz -- "$@"; }

helper seeds build/fuzz/corpus
RUSTFLAGS=$(echo $passes) "$CARGO" build --profile fuzz --target "$host" -p keywalk-fuzz --bin libfuzzer --features libfuzzer
mapfile -t known < <(helper list --names)
[ $# -gt 0 ] || set -- "${known[@]}"

failed=()
for target in "$@"; do
    case " ${known[*]} " in *" $target "*) ;; *) echo "fuzz: no target $target; there are ${known[*]}" >&2 && exit 2 ;; esac
    echo "fuzz: $target, $seconds seconds"
    log=build/fuzz/$target.log
    if KEYWALK_FUZZ_TARGET=$target "$target_dir/$host/fuzz/libfuzzer" "build/fuzz/corpus/$target" \
        -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 -max_len=65536 -verbosity=1 -print_final_stats=1 \
        -artifact_prefix="build/fuzz/found/$target-" >"$log" 2>&1; then
        sed -nE 's/^stat::(number_of_executed_units|peak_rss_mb): *([0-9]+)$/fuzz:     \1 \2/p' "$log"
    else
        grep -aE 'panicked at|ERROR|Test unit written' "$log" | sed 's/^/fuzz:     /' || tail -n 5 "$log"
        failed+=("$target")
    fi
done
[ ${#failed[@]} = 0 ] || { echo "fuzz: found something with: ${failed[*]}" && exit 1; }
echo "fuzz: nothing found"
