#!/usr/bin/env bash
# test/mpi/mpi.sh [COUNT [SEED]] - test/mpi/mpi_test.c on 1, 2, 3, 4 and 7 ranks, COUNT random descriptions on each; test/mpi/lacks.c;
# attn_bench over ranks; it counts as skipped where there is no MPI (make setup). Then the same with device tensors in the simulator of test/hipsim, on 1, 2 and 3
# ranks: of gfx942, whose work is put off as long as nothing waits for it; COUNT above 100: of all chips.
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
    timeout 200 mpirun --allow-run-as-root --oversubscribe --bind-to none --mca btl self,vader --mca btl_vader_single_copy_mechanism none --mca mpi_yield_when_idle 1 -n "$@"
}
if [ "$count" = large ]; then
    make -s build/mpi/large && ranks 2 build/mpi/large
    exit
fi
make -s mpi-build || exit 1
status=0
for ranks in 1 2 3 4 7; do
    echo "-- $ranks ranks"
    ranks "$ranks" build/mpi/mpi_test --count "$count" --seed $((seed + ranks)) --cost 16 || status=1
done
for ranks in 1 3; do
    echo "-- $ranks ranks of a build without backward and malloc"
    ranks "$ranks" build/mpi/lacks || status=1
done
echo "-- attn_bench over ranks"
python3 test/mpi/scaling_test.py build/mpi/attn_bench || status=1
if why=$(test/gpu/hip.sh missing); then
    echo "skipped: device tensors over ranks, $why"
    echo "0 passed, 0 failed, 1 skipped"
    exit $status
fi
export HIPSIM_THREADS=1 HIPSIM_MAX_INST=50000000 HIPSIM_POISON=1
chips=gfx942
[ "$count" -le 100 ] || chips="gfx90a gfx942 gfx1100 gfx1201"
for chip in $chips; do
    folder=$(test/gpu/hip.sh folder $chip $([ "$count" -le 100 ] || echo full))
    make -s build/hip/$folder/mpi_test || exit 1
    for ranks in 1 2 3; do
        echo "-- $ranks ranks, tensors in the memory of $chip"
        HIPSIM_ARCH=$chip HIPSIM_DEFER=$ranks ranks "$ranks" build/hip/$folder/mpi_test --count "$count" --seed $((seed + ranks)) --cost 16 || status=1
    done
done
exit $status
