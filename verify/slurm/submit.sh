#!/usr/bin/env bash
# Submits a soak as a Slurm array, and behind it the job that adds up its results. Prints the numbers of both jobs.
usage="usage: verify/slurm/submit.sh [--shards N] [--seeds N] [--seed S] [--cpus N] [--out DIR] [-- OPTIONS OF sbatch]

Build first, on a machine like those of the cluster: cargo build --release -p keywalk-verify. Directory and program must be
visible from every node. KEYWALK_VERIFY names another program than target/release/keywalk-verify.

--shards  tasks of the array, each of which runs its part of the seeds (8)
--seeds   seeds of all shards together (100000)
--seed    first seed (1)
--cpus    processors for each task (2)
--out     directory of results and logs (build/soak)"
set -euo pipefail
shards=8 seeds=100000 seed=1 cpus=2 out=build/soak
while [ $# -gt 0 ]; do
    case $1 in
        --shards) shards=$2 ;;
        --seeds) seeds=$2 ;;
        --seed) seed=$2 ;;
        --cpus) cpus=$2 ;;
        --out) out=$2 ;;
        --) shift; break ;;
        *) echo "$usage" >&2; exit 2 ;;
    esac
    shift 2
done
here=$(cd "$(dirname "$0")" && pwd)
verify=${KEYWALK_VERIFY:-$here/../../target/release/keywalk-verify}
if [ ! -x "$verify" ]; then
    echo "$verify is no program: cargo build --release -p keywalk-verify, or set KEYWALK_VERIFY" >&2
    exit 3
fi
command -v sbatch > /dev/null || { echo "sbatch is not in the path: is this a machine of a Slurm cluster?" >&2; exit 3; }
mkdir -p "$out"
out=$(cd "$out" && pwd)
rm -f "$out"/shard-*.json
export KEYWALK_VERIFY=$verify SOAK_OUT=$out SOAK_SEED=$seed SOAK_SEEDS=$seeds SOAK_SHARDS=$shards
array=$(sbatch --parsable --chdir "$out" --array "1-$shards" --cpus-per-task "$cpus" "$@" "$here/soak.sbatch")
# afterany: results are added up, and failures listed, whether or not a shard failed.
merge=$(sbatch --parsable --chdir "$out" --dependency "afterany:$array" "$@" "$here/merge.sbatch")
echo "$array $merge"
