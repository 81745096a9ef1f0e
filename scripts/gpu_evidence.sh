#!/usr/bin/env bash
# Evidence of how this project runs on a GPU: numbered pieces of less than ten minutes each, for a machine
# without network to which little can be copied at a time.
#
#     scripts/gpu_evidence.sh list    what to copy there, and what the pieces are
#     scripts/gpu_evidence.sh pack    here: download the wheels and split them into parts
#     scripts/gpu_evidence.sh join    there: join the parts, and install the wheels beside the project
#     scripts/gpu_evidence.sh 1       there: a piece. The exit code is 3 while it is to be started again,
#                                     and 1 if a test or a measurement failed
#
# A figure is a file in build/gpu_evidence (or $FOLDER), and is measured once; trainings go on from their
# checkpoints. If $OUT names a folder, the figures and all that a later start needs are also copied there.
# DEVICE=cpu does without a GPU, and SMALL=1 with tiny sizes: together they try this script anywhere.
set -euo pipefail
shopt -s nullglob
cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/.."

folder=$(readlink -m -- "${FOLDER:-build/gpu_evidence}")
device=${DEVICE:-cuda}
limit=${LIMIT:-540} # seconds of a piece
copied=$((64 << 20)) # bytes that can be copied at a time, tracked files included
returned=$((15 << 20)) # bytes of a file that comes back
sparse=(src benchmarks scripts tests) # and the files of the main folder
parts=build/gpu_parts wheels=build/gpu_wheels site=build/gpu_site
# What an image with PyTorch usually lacks; their versions are those of requirements.txt.
packages=(ale-py av blessed Farama-Notifications gymnasium jinxed lz4 pygame-ce wcwidth)
warp=warp-lang==1.19.0

backend=gpu
[[ $device == cuda ]] || backend=cpu
games=1024 blocks=(1 2 4 8 16 32 64 128 256) counts=(64 256 512 1024 2048 4096 8192 16384)
workers=(64 256 512 1024 2048 4096) seconds=10 train_games=512 epoch=131072 goal=18 pong=152 breakout=76 jobs=8 failed=0
if [[ -n ${SMALL:-} ]]; then
    games=4 blocks=(8) counts=(2 4) workers=(8) seconds=1 train_games=8 epoch=512 goal=-20.8 pong=3 breakout=2 jobs=2
fi

python=${PYTHON:-python3}
[[ -n ${PYTHON:-} || ! -x .venv/bin/python ]] || python=$PWD/.venv/bin/python
export PYTHONPATH=$PWD/src:$PWD/benchmarks:$PWD:$PWD/$site${PYTHONPATH:+:$PYTHONPATH}
export WARP_CACHE_PATH=${WARP_CACHE_PATH:-$folder/kernels} PYTHONUNBUFFERED=1

fail() {
    printf '%s: %s\n' "$0" "$*" >&2
    exit "${code:-2}"
}

tracked() { # the bytes of the tracked files to copy
    git ls-files -z -- "${sparse[@]}" ':(glob)*' | xargs -0 stat -c %s | awk '{ sum += $1 } END { print sum }'
}

list() {
    local bytes
    bytes=$(tracked)
    cat <<EOF
1. Check out only these folders: $((bytes >> 10)) KiB, where one call can copy $((copied >> 10)) KiB.
       git sparse-checkout set ${sparse[*]}
2. Download and split the wheels, for Python 3.12 on x86-64; PyTorch must be there already:
       scripts/gpu_evidence.sh pack
3. Copy each file of $parts with a call of its own, state_* of an earlier start, too. Join them before the
   first piece of a call; there is nothing to do the second time:
       scripts/gpu_evidence.sh join
4. Start the pieces in turn, each again while its exit code is 3. Figures are in ${folder#"$PWD"/}:
       scripts/gpu_evidence.sh 1    tests: games, resume and recorded updates on the GPU are those of the CPU
       scripts/gpu_evidence.sh 2    steps/s of the emulator by the games of a block: ${blocks[*]}
       scripts/gpu_evidence.sh 3    steps/s of the emulator by the number of games: ${counts[*]}
       scripts/gpu_evidence.sh 4    steps/s of a training by strong, by the number of games: ${workers[*]}
       scripts/gpu_evidence.sh 5    Pong by strong with $train_games games until $goal points
       scripts/gpu_evidence.sh 6    Breakout by strong with $train_games games, $((breakout * epoch)) steps
5. Save the files that come back in \$OUT: the figures, and the state_* parts, which a later start needs.
EOF
}

pack() {
    local name part=$((copied - $(tracked) - (1 << 20))) platforms=() pinned=("$warp")
    for name in "${packages[@]}"; do
        pinned+=("$(grep -i "^$name==" requirements.txt)")
    done
    for name in _2_34 _2_28 _2_27 _2_17 2014 1; do
        platforms+=(--platform "manylinux${name}_x86_64")
    done
    mkdir -p "$wheels" "$parts"
    "$python" -m pip download --quiet --no-deps --only-binary=:all: --python-version 3.12 --implementation cp \
        "${platforms[@]}" --dest "$wheels" "${pinned[@]}" 2>"$wheels/log" || fail "$(tail -n 1 "$wheels/log")"
    rm "$wheels/log"
    rm -f "$parts"/wheels_*
    tar -C build -cf - "${wheels#build/}" | split -d -b "$part" - "$parts/wheels_"
    ls -l "$parts"
}

join() {
    if [[ -e $parts/state_00 && ! -d $folder ]]; then
        mkdir -p "$folder"
        cat "$parts"/state_* | tar -C "$folder" -xzf -
    fi
    [[ -e $parts/wheels_00 && ! -d $site ]] || return 0
    cat "$parts"/wheels_* | tar -C build -xf - 2>/dev/null || fail "parts are missing: copy the others"
    "$python" -m pip install --quiet --no-index --no-deps --no-compile --target "$site" "$wheels"/*.whl
}

finish() { # STATUS: collect the figures, copy what a later start needs, and exit
    local file
    for file in "$folder"/*.txt; do
        printf '== %s\n' "$(basename "$file" .txt)" && cat "$file"
    done >"$folder/figures.md"
    if [[ -n ${OUT:-} ]]; then
        cp "$folder/figures.md" "$OUT"
        # Not the snapshots: a checkpoint has the latest weights.
        tar -C "$folder" -czf - --exclude '*_[0-9]*.pkl' . | split -d -b "$returned" - "$OUT/state_"
    fi
    (($1 != 3)) || printf 'Not finished: start this piece again.\n'
    exit "$1"
}

once() { # NAME COMMAND...: measure a figure, unless it is there
    local file=$folder/$1.txt left=$((limit - SECONDS)) status=0
    shift
    [[ ! -s $file ]] || return 0
    ((left > 20)) || finish 3
    printf '%s\n' "$*"
    timeout -k 10 "$left" "$@" >"$file.part" 2>&1 || status=$?
    if ((status == 124 && left < limit - 60)); then
        finish 3 # it has all the time in the next call
    fi
    ((status == 0)) || printf 'exit code %s\n' "$((failed = status))" >>"$file.part"
    mv -- "$file.part" "$file"
    tail -n 12 -- "$file"
}

rows() { # the complete epochs of the training in $csv
    [[ ! -e $csv ]] || awk -F, -v steps="$epoch" '$2 == "train" && $3 >= steps' "$csv"
}

complete() { # whether the training has the points of $until, or all its epochs
    rows | awk -F, -v goal="${until:-1e9}" -v epochs="$epochs" \
        '$5 != "" && $5 >= goal { found = 1 } END { exit !(found || NR >= epochs) }'
}

train() { # GAME EPOCHS [POINTS]: train until it has them, or to the end
    local game=$1 epochs=$2 until=${3:-} csv=$folder/$1.csv status=0
    local words=(resume "$folder/${game}_checkpoint" --csv_file "$csv")
    if [[ ! -d $folder/${game}_checkpoint ]]; then
        words=(train "$game" --preset strong --emulator warp --workers "$train_games" --backend "$backend"
            --train_steps "$epoch" --epochs "$epochs" --random_seed 1 --keep 1 --checkpoint_minutes 2
            --csv_file "$csv" --save_weights_prefix "$folder/$game")
    fi
    if ! complete; then
        "$python" -P -m simple_dqn.main "${words[@]}" >>"$folder/$game.log" 2>&1 &
        while kill -0 $! 2>/dev/null && ((SECONDS < limit - 20)) && ! complete; do
            sleep 1
        done
        kill -TERM $! 2>/dev/null || true
        wait $! || status=$?
        ((status == 0 || status >= 128)) || code=1 fail "$(tail -n 1 "$folder/$game.log")"
    fi
    rows | awk -F, -v goal="${until:-1e9}" '
        { steps = $9; seconds = $14; rate = $16 }
        $5 != "" {
            points = $5 + 0
            if (!games++ || points > best) best = points
            if (points >= goal && !at) { at = seconds; after = steps }
        }
        END {
            if (at) printf "%s points after %s steps, %.0f s\n", goal, after, at
            printf "%s steps in %.0f s, %.0f a second at last", steps, seconds, rate
            if (games) printf "; %s points, at most %s", points, best
            printf "\n"
        }' | tee "$folder/$game.txt"
    complete || finish 3
}

case ${1:-} in
    list | pack | join) "$1" && exit ;;
    [1-6]) ;;
    *) fail "give list, pack, join, or a piece from 1 to 6" ;;
esac
[[ $device == cuda || $device == cpu ]] || fail "DEVICE=$device: give cuda or cpu"
"$python" -P -c "
import sys, torch, warp
if '$device' == 'cuda' and not (torch.cuda.is_available() and warp.is_cuda_available()):
    sys.exit('PyTorch sees a GPU: %s; Warp: %s' % (torch.cuda.is_available(), warp.is_cuda_available()))
" || fail "this machine is not ready: scripts/gpu_evidence.sh list"
mkdir -p "$folder"
emulator=("$python" -P benchmarks/emulator.py --game pong --device "$device" --seconds "$seconds")
case $1 in
    1)
        once compiling "${emulator[@]}" --counts 64
        pytest=("$python" -m pytest -p no:cacheprovider -q -rs)
        once tests_games "${pytest[@]}" -n "$jobs" tests/environment/test_device_games.py tests/atari2600/test_games.py
        once tests_network "${pytest[@]}" tests/network/test_gpu.py
        ;;
    2) for block in "${blocks[@]}"; do once "blocks_$block" "${emulator[@]}" --counts "$games" --blocks "$block"; done ;;
    3) for count in "${counts[@]}"; do once "games_$count" "${emulator[@]}" --counts "$count"; done ;;
    4)
        for count in "${workers[@]}"; do
            once "training_$count" "$python" -P benchmarks/training.py strong --workers "$count" --seconds "$seconds" \
                --datatypes bfloat16 --flags "{\"backend\": \"$backend\"}"
        done
        ;;
    5) train pong "$pong" "$goal" ;;
    6) train breakout "$breakout" ;;
esac
finish "$((failed > 0))"
