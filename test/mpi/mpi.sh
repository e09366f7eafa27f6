#!/usr/bin/env bash
# test/mpi/mpi.sh [COUNT [SEED]] - test/mpi/mpi_test.c on 1, 2, 3, 4 and 7 ranks, COUNT random descriptions on each; attn_bench over ranks;
# it counts as skipped where there is no MPI (make setup).
# test/mpi/mpi.sh large - test/mpi/large.c, a message above 2 GiB.
set -u
cd "$(dirname "$0")/../.." || exit 1
count=${1:-8} seed=${2:-1}
if ! command -v mpicc >/dev/null || ! command -v mpirun >/dev/null; then
    echo "skipped: mpicc and mpirun are not installed (make setup)"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi
ranks() { # number, program and its arguments
    timeout 200 mpirun --allow-run-as-root --oversubscribe --bind-to none --mca btl self,vader --mca btl_vader_single_copy_mechanism none -n "$@"
}
if [ "$count" = large ]; then
    make -s build/mpi/large && ranks 2 build/mpi/large
    exit
fi
make -s build/mpi/mpi_test build/mpi/attn_bench || exit 1
status=0
for ranks in 1 2 3 4 7; do
    echo "-- $ranks ranks"
    ranks "$ranks" build/mpi/mpi_test --count "$count" --seed $((seed + ranks)) --cost 16 || status=1
done
echo "-- attn_bench over ranks"
python3 test/mpi/scaling_test.py build/mpi/attn_bench || status=1
exit $status
