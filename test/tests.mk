# tests.mk - what is built and run of the unit tests and the proofs: ways of building x programs, written once. The lists below give
# both the programs that make builds and the steps that test/run.sh runs (test/steps).
#
# A run is way/program, or way/program@isa where ATTN_ISA is set; its arguments are in ARGS_way/program@isa.

UNITS     = validate reference backends convert merge registry parallel timing memory guard edges overlap lengths tolerance extremes thin hidden planes
PROOFS    = identity types beyond grid threads alloc hostile process sizes adaptive decode
COMMON    = attn.h $(wildcard test/common/*.h)
TESTWARN  = $(WARN) -Wpedantic -Wshadow -Werror
STRICT    = -std=c99 $(TESTWARN) -I. -Itest/common -pthread

# ---------------------------------------------------------------------------------------------- ways of building
# A line for each. TSan sees the pthread pool only: OpenMP and fork give it false alarms. The sanitizers take minutes where all ISAs
# are compiled: AVX2 is looked at by test/unit/guard.c, and by `make test-full` with the way asanavx2; the fuzzer, which is about
# validation, has portable code alone. tile: single floats, as where the compiler has no vectors, a tile of 8 x 3, as no ISA has, and
# products of bf16, which only AMD's AVX-512 has else. plain and clang have every ISA wherever they are built; the others leave
# out AVX-512 where the processor has none: it would be compiled for nothing.
HAS_AVX512    := $(shell grep -m1 -o avx512vl /proc/cpuinfo 2>/dev/null)
RUNNABLE       = $(if $(HAS_AVX512),,-DATTN_NO_AVX512)
SANITIZERS    = -gline-tables-only -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
WAY_plain      = $(CC) -O2
WAY_clang      = $(CLANG) -O2
WAY_size       = $(CC) -Os $(RUNNABLE)
WAY_O0         = $(CC) -O0 $(RUNNABLE)
WAY_ofast      = $(CC) -Ofast -march=native $(RUNNABLE)
WAY_fastmath   = $(CC) -O2 -ffast-math $(RUNNABLE)
WAY_clangofast = $(CLANG) -Ofast -march=native $(RUNNABLE)
WAY_lto        = $(CC) -O2 -flto=auto $(RUNNABLE)
WAY_omp        = $(CC) -O1 -fopenmp -DATTN_NO_AVX2 $(RUNNABLE)
WAY_m32        = $(CC) -O2 -m32 -fexcess-precision=fast $(RUNNABLE)
WAY_tile       = $(CC) -O1 -DATTN_NO_AVX2 -DATTN_NO_AVX512 -DATTN__W__portable=1 -DATTN__MR__portable=8 -DATTN__NV__portable=3 -DATTN__ALL_BF16=1
WAY_asan       = $(CLANG) -O1 $(SANITIZERS) -DATTN_NO_AVX2 $(RUNNABLE)
WAY_asanavx2   = $(CLANG) -O1 $(SANITIZERS) -DATTN_NO_AVX512
WAY_tsan       = $(CLANG) -O1 -gline-tables-only -fsanitize=thread -DATTN_NO_AVX2 $(RUNNABLE)
WAY_fuzz       = $(CLANG) -O1 $(SANITIZERS) -fsanitize=fuzzer-no-link -DATTN_NO_AVX2 -DATTN_NO_AVX512
WAYS           = plain clang size O0 ofast fastmath clangofast lto omp m32 tile asan asanavx2 tsan fuzz
# The unit tests judge with ordinary floating point where the implementation is built by a host that lies about it.
UNIT_OBJECTS   = $(if $(filter ofast clangofast O0,$(1)),plain,$(1))
# So do the proofs of these ways, with the objects of `plain`. With the others their own code is part of what is tried.
PROOF_OBJECTS  = $(if $(filter clang ofast fastmath clangofast,$(1)),plain,$(1))

# ---------------------------------------------------------------------------------------------- what is run
# Without AVX-512 the others' ISA is AVX2 anyway, and that of asan, which has no AVX2, is portable.
SAME_ISA      := $(if $(HAS_AVX512),,%@avx2 asan/%@portable)
UNIT_RUNS      = $(filter-out $(SAME_ISA),$(UNIT_RUNS_ALL))
UNIT_RUNS_ALL  = $(UNITS:%=plain/%) $(UNITS:%=asan/%) plain/backends@avx512 \
                 $(foreach u,backends edges extremes guard thin hidden planes convert,plain/$(u)@avx2 plain/$(u)@portable) \
                 $(foreach u,backends edges guard hidden thin planes,tile/$(u)) \
                 $(foreach u,validate reference backends convert merge memory edges parallel extremes,ofast/$(u)) \
                 $(foreach u,validate reference backends convert memory edges parallel,O0/$(u)) ofast/hidden clangofast/hidden
UNIT_RUNS_FULL = $(UNITS:%=clang/%) $(UNITS:%=size/%) clang/backends@avx2 clang/backends@portable

PROOF_RUNS     = $(filter-out $(SAME_ISA),$(PROOF_RUNS_ALL))
PROOF_RUNS_ALL = $(filter-out plain/hostile,$(PROOFS:%=plain/%)) \
                 $(foreach p,types beyond grid,plain/$(p)@avx2 plain/$(p)@portable ofast/$(p)) \
                 $(foreach w,clangofast O0 m32 tile,$(w)/grid) \
                 $(foreach p,grid grid@portable identity types alloc sizes decode,asan/$(p)) \
                 omp/threads omp/process tsan/threads m32/sizes plain/adaptive@avx2 plain/decode@avx2 plain/decode@portable \
                 tile/decode tile/types
PROOF_RUNS_FULL = fastmath/grid lto/grid omp/grid asan/beyond $(foreach p,grid types beyond edges extremes adaptive,asanavx2/$(p)) plain/adaptive@portable asan/adaptive@portable
# what test/proof/hostile.sh compares (`full`: fastmath/hostile and lto/hostile too), and test/proof/fuzz.sh runs
BESIDE_RUNS    = $(foreach w,plain clang ofast O0 clangofast,$(w)/hostile) fuzz/fuzz

ARGS_plain/grid          = --count 1500 --tolerant 5
ARGS_plain/grid@avx2     = --seed 2
ARGS_plain/grid@portable = --seed 3
ARGS_ofast/grid          = --seed 4
ARGS_clangofast/grid     = --seed 5
ARGS_fastmath/grid       = --seed 6
ARGS_O0/grid             = --seed 7 --cost 20
ARGS_lto/grid            = --seed 8 --cost 22
ARGS_omp/grid            = --seed 9 --cost 22
ARGS_m32/grid            = --seed 11 --cost 20 --tolerant 10
ARGS_tile/grid           = --seed 14 --cost 19
ARGS_asan/grid           = --seed 10 --cost 20
ARGS_asan/grid@portable  = --seed 13 --cost 19
ARGS_asanavx2/grid       = --seed 12 --count 1000
ARGS_plain/adaptive      = --rows 20000
ARGS_plain/adaptive@avx2 = --rows 1 --seed 2
ARGS_plain/decode        = --rows 1500
ARGS_plain/decode@avx2   = --rows 1 --seed 2
ARGS_plain/decode@portable = --rows 1 --seed 3
ARGS_tile/decode         = --rows 1 --seed 5
ARGS_asan/decode         = --rows 1 --seed 4
ARGS_asan/adaptive@portable = --rows 1 --seed 3
ENV_tsan                 = TSAN_OPTIONS=halt_on_error=1

# ---------------------------------------------------------------------------------------------- programs and steps of the runs
program    = build/$(firstword $(subst @, ,$(1)))
programs   = $(sort $(foreach r,$(1),$(call program,$(r))))
comma     := ,
# A step is named after its run: plain/edges@avx2 is edges-avx2, asan/edges is asan-edges.
step       = $(subst @,-,$(subst /,-,$(1:plain/%=%))) | $(addprefix ATTN_ISA=,$(word 2,$(subst @, ,$(1)))) \
             $(ENV_$(firstword $(subst /, ,$(1)))) $(call program,$(1)) $(ARGS_$(1))
steps      = @:$(foreach r,$(1),$(info $(call step,$(r))))

.PHONY: mpi-build units units-full unit-steps unit-steps-full proofs proofs-full proof-steps proof-steps-full
units:            $(call programs,$(UNIT_RUNS))
units-full:       $(call programs,$(UNIT_RUNS_FULL))
proofs:           $(call programs,$(PROOF_RUNS) $(BESIDE_RUNS))
proofs-full:      $(call programs,$(PROOF_RUNS_FULL) fastmath/hostile lto/hostile)
unit-steps:       ; $(call steps,$(UNIT_RUNS))
unit-steps-full:  ; $(call steps,$(UNIT_RUNS_FULL))
proof-steps:      ; $(call steps,$(PROOF_RUNS))
proof-steps-full: ; $(call steps,$(PROOF_RUNS_FULL))

# The implementation is compiled once for each way of building; every program built that way links that object. alloc makes the
# process's own allocators fail, too.
WRAPPED = malloc calloc realloc aligned_alloc posix_memalign mmap
define WAY_RULES
build/$(1)/impl.o: test/common/impl.c attn.h
	@mkdir -p $$(@D)
	$$(WAY_$(1)) $$(STRICT) -c $$< -o $$@
build/$(1)/hip.o: attn_hip.c attn.h
	@mkdir -p $$(@D)
	$$(WAY_$(1)) $$(STRICT) -c $$< -o $$@
build/$(1)/%.o: test/unit/%.c test/unit/unit.h $$(COMMON)
	@mkdir -p $$(@D)
	$$(WAY_$(1)) $$(STRICT) -c $$< -o $$@
build/$(1)/%.o: test/proof/%.c $$(wildcard test/proof/*.h) $$(COMMON)
	@mkdir -p $$(@D)
	$$(WAY_$(1)) $$(STRICT) -c $$< -o $$@
$$(UNITS:%=build/$(1)/%): build/$(1)/%: build/$(call UNIT_OBJECTS,$(1))/%.o build/$(1)/impl.o build/$(1)/hip.o
	$$(WAY_$(call UNIT_OBJECTS,$(1))) -pthread $$^ -o $$@ -lcmocka -lm
$$(PROOFS:%=build/$(1)/%): build/$(1)/%: build/$(call PROOF_OBJECTS,$(1))/%.o build/$(1)/impl.o
	$$(WAY_$(1)) -pthread $$^ -o $$@ $$(if $$(filter %/alloc,$$@),$$(WRAPPED:%=-Wl$$(comma)--wrap=%)) \
	    $$(if $$(filter %/grid %/hostile %/sizes %/adaptive %/decode,$$@),,-lcmocka) -lm
endef
$(foreach w,$(WAYS),$(eval $(call WAY_RULES,$(w))))
.SECONDARY:

build/fuzz/fuzz: build/fuzz/fuzz.o build/fuzz/impl.o
	$(WAY_fuzz) -fsanitize=fuzzer -pthread $^ -o $@ -lm
# attention over MPI: portable code alone; messages and slices are small, so that many are cut
mpi-build: $(if $(filter mpi-build,$(MAKECMDGOALS)),$(if $(shell command -v mpicc),$(addprefix build/mpi/,mpi_test lacks attn_bench)))
MPI_FLAGS = -O1 $(STRICT) -DATTN_MPI -DATTN_MPI_PIECE=20011 -DATTN__MPI_SLICE=16 -DATTN_NO_AVX2 -DATTN_NO_AVX512
build/mpi/impl.o: test/common/impl.c attn.h
	@mkdir -p $(@D)
	mpicc $(MPI_FLAGS) -c $< -o $@
build/mpi/mpi_test: test/mpi/mpi_test.c test/mpi/mpi_fixed.h build/mpi/impl.o $(COMMON)
	mpicc $(MPI_FLAGS) $< build/mpi/impl.o -o $@ -lm
build/mpi/large: test/mpi/large.c attn.h
	@mkdir -p $(@D)
	mpicc -O1 $(STRICT) -DATTN_NO_AVX2 -DATTN_NO_AVX512 $< -o $@ -lm
build/mpi/lacks: test/mpi/lacks.c attn.h
	@mkdir -p $(@D)
	mpicc -O1 $(STRICT) -DATTN_NO_AVX2 -DATTN_NO_AVX512 $< -o $@ -lm
build/mpi/attn_bench: attn_bench.c attn_hip.c attn.h
	@mkdir -p $(@D)
	mpicc -O1 -std=c99 $(WARN) -Werror -DATTN_MPI -DATTN_NO_AVX2 -DATTN_NO_AVX512 -pthread attn_bench.c attn_hip.c -o $@ -lm -ldl

# what is loaded and unloaded: its threads count, not its kernels
build/plain/process: | build/plain/attn.so
build/plain/attn.so: attn.h
	@mkdir -p $(@D)
	$(CC) -O1 -fPIC -shared -std=c99 -DATTN_IMPLEMENTATION -DATTN_NO_AVX2 -DATTN_NO_AVX512 -DATTN_NO_STANDARD -DATTN_NO_TIMING \
	    -pthread -x c attn.h -o $@

# ---------------------------------------------------------------------------------------------- by hand
.PHONY: unit test-proof test-mpi grid coverage fuzz mutate mutate-random
## unit          the unit tests alone, plain and with sanitizers, header checks, examples
unit:
	@test/run.sh test/steps/unit

## test-proof    the proofs of CI alone: grid, identities, threads, memory, hostile builds, fuzzer, mutants
test-proof:
	@test/run.sh test/steps/proof

## test-mpi      attention over MPI on 1, 2, 3, 4 and 7 ranks, COUNT=N SEED=S random descriptions on each
test-mpi:
	@test/mpi/mpi.sh $(COUNT) $(SEED)

## grid          random descriptions, COUNT=N SEED=S, every backend against the reference; TOLERANT=PERCENT of them with a tolerance
grid: build/plain/grid
	$< --count $(or $(COUNT),10000) --seed $(or $(SEED),1) --tolerant $(or $(TOLERANT),5)

## coverage      write test/results/coverage.md: what each backend accepts and declines, by feature
coverage: build/plain/grid
	@mkdir -p test/results
	$< --count 2000 --tolerant 5 --coverage test/results/coverage.md

## adaptive-proof certificates of ROWS=N rows (1000000) against the reference, from seed SEED=S
.PHONY: adaptive-proof
adaptive-proof: build/plain/adaptive
	$< --rows $(or $(ROWS),1000000) --seed $(or $(SEED),1000)

## decode-proof  the same of ROWS=N rows (100000) decoded from int16
.PHONY: decode-proof
decode-proof: build/plain/decode
	$< --rows $(or $(ROWS),100000) --seed $(or $(SEED),1000)

## fuzz          libFuzzer with sanitizers for SECONDS_OF_FUZZ (3600); a find is left in build/
fuzz: build/fuzz/fuzz
	@test/proof/fuzz.sh inputs
	$< -max_total_time=$(or $(SECONDS_OF_FUZZ),3600) -timeout=20 -max_len=600 -len_control=0 -artifact_prefix=build/ build/corpus build/inputs test/proof/corpus

## mutate        every fault of test/mutants/mutants.txt, one at a time; each must be caught
mutate:
	@python3 test/mutants/mutate.py

## mutate-rules  every condition of every rule left out alone (ten minutes)
.PHONY: mutate-rules
mutate-rules:
	@python3 test/mutants/mutate_rules.py

## mutate-random N=300 SEED=1: that many random faults in the code; how many do the tests notice?
mutate-random:
	@python3 test/mutants/mutate_random.py $(or $(N),100) --seed $(or $(SEED),1) $(FILE:%=--file %)
