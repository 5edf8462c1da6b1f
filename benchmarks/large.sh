#!/bin/sh
# The figures of docs/benchmarks/speed.md and gpu.md, at one commit, on a machine with a GPU and many cores:
#
#     sh benchmarks/large.sh FOLDER [NAME …]
#
# writes what each benchmark prints to FOLDER/NAME.txt. What a machine lacks (a GPU, Dask, gensim) is told there.
folder=${1:-out/large}
[ $# -gt 0 ] && shift
mkdir -p "$folder"
python=${PYTHON:-python}
PYTHONPATH="$(pwd)/src" PYTHONUNBUFFERED=1
export PYTHONPATH PYTHONUNBUFFERED

for name in ${*:-gpu threads tests mixture_pass growth cluster one_read}; do
    echo "$name"
    case $name in
    tests) set -- -m pytest -q -p no:cacheprovider tests/cuda ;;
    threads) set -- benchmarks/threads.py --peer ;;
    *) set -- "benchmarks/$name.py" ;;
    esac
    DECBAYES_TEST_GPU=1 timeout 240 "$python" "$@" > "$folder/$name.txt" 2>&1 || echo "status $?" >> "$folder/$name.txt"
    grep -v '^{' "$folder/$name.txt" | tail -n 25
done
