#!/usr/bin/env bash
# Runs the Slurm scripts on this machine alone, under a Slurm of its own: munged, slurmctld and slurmd, as root, with all
# their files in a temporary directory and ports of their own. Needs Debian's packages; `--install` installs them.
set -euo pipefail
cd "$(dirname "$0")/../.."
verify=${KEYWALK_VERIFY:-${CARGO_TARGET_DIR:-target}/release/keywalk-verify}
if [ "${1:-}" = --install ]; then
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends slurmctld slurmd slurm-client munge
fi
for tool in munged slurmctld slurmd sbatch squeue sinfo; do
    if ! command -v $tool > /dev/null; then
        echo "$tool is missing: verify/slurm/test.sh --install, as root" >&2
        exit 3
    fi
done
if [ "$(id -u)" != 0 ]; then
    echo "munged, slurmctld and slurmd are started as root: run this as root, in a container for example" >&2
    exit 3
fi

work=$(mktemp -d)
chmod 755 "$work"
pids=()
clean() {
    for pid in "${pids[@]}"; do
        kill "$pid" 2> /dev/null || true
    done
    wait 2> /dev/null || true
    rm -rf "$work"
}
trap clean EXIT

# Munge: a key, a socket.
mkdir -m 700 "$work/munge"
head -c 128 /dev/urandom > "$work/munge/key"
chmod 600 "$work/munge/key"
munged --foreground --force --key-file "$work/munge/key" --socket "$work/munge.socket" --pid-file "$work/munge/pid" \
    --log-file "$work/munge/log" --seed-file "$work/munge/seed" > "$work/munged.out" 2>&1 &
pids+=($!)

host=$(hostname -s)
cpus=$(nproc)
mkdir "$work/state" "$work/spool"
cat > "$work/slurm.conf" << CONF
ClusterName=keywalk
SlurmctldHost=$host(127.0.0.1)
AuthType=auth/munge
AuthInfo=socket=$work/munge.socket
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
SlurmctldPort=26817
SlurmdPort=26818
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd.pid
SlurmctldLogFile=$work/slurmctld.log
SlurmdLogFile=$work/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
NodeName=$host NodeAddr=127.0.0.1 CPUs=$cpus State=UNKNOWN
PartitionName=all Nodes=$host Default=YES MaxTime=INFINITE State=UP
CONF
export SLURM_CONF=$work/slurm.conf
slurmctld -D > "$work/slurmctld.out" 2>&1 &
pids+=($!)
slurmd -D -N "$host" > "$work/slurmd.out" 2>&1 &
pids+=($!)

wait_for() { # what, seconds, command
    for _ in $(seq "$2"); do
        if eval "$3"; then return; fi
        sleep 1
    done
    echo "waited $2 s for $1 in vain" >&2
    tail -n 20 "$work"/*.out "$work"/*.log "$work"/soak/*.log >&2 || true
    exit 1
}
wait_for "the node" 60 'sinfo --noheader --format %T 2> /dev/null | grep -q "^idle"'

# Eight cases in two shards, and their sum.
jobs=$(KEYWALK_VERIFY=$(realpath "$verify") verify/slurm/submit.sh --shards 2 --seeds 8 --cpus 1 --out "$work/soak")
echo "jobs $jobs"
wait_for "the jobs" 300 '[ -z "$(squeue --noheader)" ]'
for file in shard-1.json shard-2.json soak.json coverage.html; do
    [ -s "$work/soak/$file" ] || { echo "$file is missing" >&2; tail -n 20 "$work"/soak/*.log >&2; exit 1; }
done

# The same without Slurm: cases, requests and bins must be the same, only the time is another.
"$verify" soak --seeds 8 --json "$work/whole.json"
without_time() { grep -v '"seconds"' "$1"; }
diff <(without_time "$work/soak/soak.json") <(without_time "$work/whole.json")
grep -q '"cases": 8' "$work/soak/soak.json"
echo "two shards under Slurm saw the same as one run without"
