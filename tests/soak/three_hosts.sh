#!/usr/bin/env bash
# Carries out the steps of docs/cluster.md on three hosts, then pulls the plug of the third while a training goes on.
#
# A host is a set of namespaces of this machine: its own network, processes, name, shared memory, home and folders
# for Ray and for the project; the three are on one bridge. Needs root, ip, unshare and nsenter, and some 3 minutes.
set -euo pipefail

root=$(cd -- "$(dirname -- "$(readlink -f -- "$0")")/../.." && pwd)
bridge=simple-dqn
declare -A init  # the first process of each host

start_host() {
    local host=$1
    ip netns add "$bridge-$host"
    ip link add "dqn$host" type veth peer name eth0 netns "$bridge-$host"
    ip link set "dqn$host" master "$bridge" up
    ip -n "$bridge-$host" link set lo up
    ip -n "$bridge-$host" link set eth0 up
    ip -n "$bridge-$host" address add "10.0.0.$host/24" dev eth0
    mkdir -p /tmp/ray
    ip netns exec "$bridge-$host" unshare --mount --pid --fork --uts --ipc --mount-proc --kill-child bash -c "
        hostname host$host
        for folder in /tmp/ray /dev/shm /mnt; do mount -t tmpfs tmpfs \$folder; done
        mkdir /mnt/home
        git clone --quiet '$root' /mnt/simple-dqn
        mkdir -p /mnt/simple-dqn/.venv && mount --bind '$root/.venv' /mnt/simple-dqn/.venv
        touch /mnt/ready
        while sleep 1; do :; done" &  # bash, so that the dead are buried
    local outside=$!
    disown "$outside"
    until init[$host]=$(pgrep -P "$outside") && [ -e "/proc/${init[$host]}/root/mnt/ready" ]; do sleep 0.2; done
}

pull_the_plug() {
    kill -9 "${init[$1]}"
    ip netns delete "$bridge-$1"
}

# on HOST COMMAND: runs it there, in the project's folder
on() {
    nsenter --target "${init[$1]}" --net --mount --pid --uts --ipc \
        env HOME=/mnt/home PYTHONPATH=/mnt/simple-dqn/src RAY_USAGE_STATS_ENABLED=0 RAY_AUTH_MODE=token \
        bash -c "cd /mnt/simple-dqn && { $2; }"
}

end() {
    for host in "${!init[@]}"; do pull_the_plug "$host" 2>/dev/null || true; done
    ip link delete "$bridge" 2>/dev/null || true
}
trap end EXIT

say() { printf '\n== %s\n' "$*"; }
actors() { on "$1" "pgrep -fc '^ray::.*Actor' || true"; }
rows() { on 1 "cut -d, -f1-3,9,13- results/pong_hosts.csv" || true; }
column() { on 1 "tail -n 1 results/pong_hosts.csv | tr ',' '\n' | sed -n \"\$(head -n 1 results/pong_hosts.csv |
    tr ',' '\n' | grep -n '^$1\$' | cut -d: -f1)p\""; }

# wait_for SECONDS COMMAND: until it succeeds
wait_for() {
    for _ in $(seq "$1"); do
        if eval "$2"; then return; fi
        sleep 1
    done
    echo "FAILED: not within $1 s: $2" >&2
    exit 1
}

ip link add "$bridge" type bridge
ip link set "$bridge" up
for host in 1 2 3; do start_host $host; done

say "A cluster of three hosts"
on 1 ".venv/bin/ray get-auth-token --generate >/dev/null"
on 1 ".venv/bin/ray start --head --node-ip-address 10.0.0.1 --port 6379 --num-cpus 1 --include-dashboard false" | grep "Local node IP"
token=$(on 1 "cat ~/.ray/auth_token")
join() {
    on "$1" "mkdir -p ~/.ray && printf %s '$token' >~/.ray/auth_token"
    on "$1" ".venv/bin/ray start --address 10.0.0.1:6379 --num-cpus 1" | grep "Local node IP"
}
join 2
join 3

say "A host with another state of the project is refused"
on 3 "echo '# changed' >>src/simple_dqn/agent.py"
flags="env -u RAY_AUTH_MODE ./train.sh roms/pong.rom hosts --cluster auto --actors 3 --workers 2 --random_steps 2000 --train_steps 2000 --epochs 40 --threads 1"
on 1 "$flags" && { echo "FAILED: it was not refused" >&2; exit 1; } || echo "exit code $?"
on 3 "git checkout --quiet src"

say "Training"
on 1 "$flags >training.log 2>&1; echo \$? >training.rc" &
training=$!
wait_for 120 '[ "$(column actors_alive 2>/dev/null)" = 3 ]'
echo "actors on the hosts: $(actors 1) $(actors 2) $(actors 3)"

say "The plug of host 3 is pulled"
pull_the_plug 3
unset "init[3]"
wait_for 180 '[ "$(column actors_alive)" = 2 ]'
rows | tail -n 3

say "Host 3 is back"
start_host 3
join 3
wait_for 180 '[ "$(column actors_alive)" = 3 ]'
echo "actors on the hosts: $(actors 1) $(actors 2) $(actors 3)"
rows

say "Ctrl-C"
on 1 "pkill -INT -f '[m]ain train'"
wait "$training"
on 1 "tail -n 12 training.log; echo exit code \$(cat training.rc)"
echo "actors on the hosts: $(actors 1) $(actors 2) $(actors 3)"
for host in 3 2 1; do on $host ".venv/bin/ray stop" | tail -n 1; done
for host in 1 2 3; do
    left=$(on $host "pgrep -fa '[g]cs_server|[r]aylet|[r]ay::|[s]imple_dqn[.]main' || true")
    [ -z "$left" ] || { echo "FAILED: left on host $host: $left" >&2; exit 1; }
done
say "Nothing is left behind"
