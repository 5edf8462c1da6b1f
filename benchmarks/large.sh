#!/bin/sh
# All figures of docs/large.md, at one commit, on a machine with a GPU and many cores:
#
#     sh benchmarks/large.sh FOLDER
#
# writes what each benchmark prints to FOLDER/NAME.txt. What a machine lacks (a GPU, Dask, gensim) is told there.
folder=${1:-out/large}
mkdir -p "$folder"
python=${PYTHON:-python}
export PYTHONPATH="$(pwd)/src" PYTHONUNBUFFERED=1

run() {
    name=$1
    shift
    echo "$name"
    "$@" > "$folder/$name.txt" 2>&1 || echo "ended with status $?" >> "$folder/$name.txt"
    grep -v '^{' "$folder/$name.txt" | tail -n 25
}

DECBAYES_TEST_GPU=1 run tests timeout 120 "$python" -m pytest -q -p no:cacheprovider tests/cuda
run gpu timeout 240 "$python" benchmarks/gpu.py
run threads timeout 150 "$python" benchmarks/threads.py --peer
run threads_again timeout 100 "$python" benchmarks/threads.py
run mixture_pass timeout 60 "$python" benchmarks/mixture_pass.py
run growth timeout 90 "$python" benchmarks/growth.py
run cluster timeout 120 "$python" benchmarks/cluster.py
run one_read timeout 200 "$python" benchmarks/one_read.py
