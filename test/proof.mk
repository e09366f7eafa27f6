# proof.mk - the proofs: every backend against the reference on random descriptions, and hostile builds, threads, memory.
# The steps of CI are in test/proof.steps; `make test-proof` runs them alone.

PROOFS    = identity types beyond grid threads alloc hostile process sizes
PROOF_H   = attn.h test/proof.h test/proof_unit.h test/proof_threads.h
WRAPPED   = malloc calloc realloc aligned_alloc posix_memalign mmap
comma    := ,

# One line for each way of building. TSan sees the pthread pool only: OpenMP and fork give it false alarms. The sanitizers take
# minutes where all ISAs are compiled: what is about threads leaves out AVX2, what is about validation has portable code alone, and
# AVX2 is looked at by test/guard.c, and by `make test-full` with the variant asanavx2.
SANITIZERS       = -gline-tables-only -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
PROOF_plain      = $(CC) -O2
PROOF_clang      = $(CLANG) -O2
PROOF_asan       = $(CLANG) -O1 $(SANITIZERS) -DATTN_NO_AVX2
PROOF_asanavx2   = $(CLANG) -O1 $(SANITIZERS) -DATTN_NO_AVX512
PROOF_tsan       = $(CLANG) -O1 -gline-tables-only -fsanitize=thread -DATTN_NO_AVX2
PROOF_fuzz       = $(CLANG) -O1 $(SANITIZERS) -fsanitize=fuzzer-no-link -DATTN_NO_AVX2 -DATTN_NO_AVX512
PROOF_omp        = $(CC) -O2 -fopenmp -DATTN_NO_AVX2
PROOF_ofast      = $(CC) -Ofast -march=native
PROOF_fastmath   = $(CC) -O2 -ffast-math
PROOF_O0         = $(CC) -O0
PROOF_lto        = $(CC) -O2 -flto=auto
PROOF_clangofast = $(CLANG) -Ofast -march=native
PROOF_size       = $(CC) -Os
PROOF_m32        = $(CC) -O2 -m32 -fexcess-precision=fast
PROOF_tile       = $(CC) -O1 -DATTN_NO_AVX2 -DATTN_NO_AVX512 -DATTN__MR__portable=8 -DATTN__NV__portable=3
PROOF_VARIANTS   = plain clang size asan asanavx2 tsan fuzz omp ofast fastmath O0 lto clangofast m32 tile

define PROOF_RULES
build/proof/$(1)/impl.o: test/impl.c attn.h
	@mkdir -p $$(@D)
	$$(PROOF_$(1)) -std=c99 $$(TESTWARN) -I. -pthread -c test/impl.c -o $$@
build/proof/$(1)/%.o: test/%.c $$(PROOF_H)
	@mkdir -p $$(@D)
	$$(PROOF_$(1)) -std=c99 $$(TESTWARN) -I. -pthread -c $$< -o $$@
$$(PROOFS:%=build/proof/$(1)/%): build/proof/$(1)/%: build/proof/$(1)/%.o build/proof/$(1)/impl.o
	$$(PROOF_$(1)) -pthread $$^ -o $$@ $$(if $$(filter %/alloc,$$@),$$(WRAPPED:%=-Wl$$(comma)--wrap=%)) $$(if $$(filter %/grid %/hostile %/sizes,$$@),,-lcmocka) -lm
endef
$(foreach v,$(PROOF_VARIANTS),$(eval $(call PROOF_RULES,$(v))))

# what is loaded and unloaded: its threads count, not its kernels
build/proof/plain/process: | build/proof/plain/attn.so
build/proof/plain/attn.so: attn.h
	@mkdir -p $(@D)
	$(CC) -O1 -fPIC -shared -std=c99 -DATTN_IMPLEMENTATION -DATTN_NO_AVX2 -DATTN_NO_AVX512 -DATTN_NO_STANDARD -DATTN_NO_TIMING \
	    -pthread -x c attn.h -o $@

build/proof/fuzz/fuzz: build/proof/fuzz/fuzz.o build/proof/fuzz/impl.o
	$(PROOF_fuzz) -fsanitize=fuzzer -pthread $^ -o $@ -lm

# What the steps run. LTO and O0 are only hashed.
PROOF_PROGRAMS = $(PROOFS:%=build/proof/plain/%) $(foreach p,identity types beyond grid alloc,build/proof/asan/$(p)) \
                 build/proof/tsan/threads build/proof/omp/threads build/proof/omp/process build/proof/omp/grid build/proof/ofast/beyond build/proof/ofast/grid build/proof/ofast/types \
                 build/proof/clangofast/grid build/proof/fastmath/grid build/proof/O0/grid build/proof/lto/grid build/proof/m32/grid build/proof/tile/grid build/proof/m32/sizes build/proof/asan/sizes \
                 $(foreach v,clang ofast fastmath O0 lto clangofast,build/proof/$(v)/hostile) build/proof/fuzz/fuzz

FULL_PROGRAMS  = $(foreach p,grid types beyond,build/proof/asanavx2/$(p)) $(foreach u,edges extremes,build/asanavx2/$(u))
.PHONY: proofs-full
proofs-full: $(FULL_PROGRAMS)

.PHONY: test-proof proofs grid fuzz mutate coverage mutate-random
proofs: $(PROOF_PROGRAMS)

## test-proof    the proofs of CI alone: grid, identities, threads, memory, hostile builds, fuzzer, mutants
test-proof:
	@test/run.sh test/proof.steps

## grid          random descriptions, COUNT=N SEED=S, every backend against the reference
grid: build/proof/plain/grid
	$< --count $(or $(COUNT),10000) --seed $(or $(SEED),1)

## coverage      write test/results/coverage.md: what each backend accepts and declines, by feature
coverage: build/proof/plain/grid
	@mkdir -p test/results
	$< --count 2000 --coverage test/results/coverage.md

## fuzz          libFuzzer with sanitizers for SECONDS_OF_FUZZ (3600); a find is left in build/
fuzz: build/proof/fuzz/fuzz
	@test/fuzz.sh inputs
	$< -max_total_time=$(or $(SECONDS_OF_FUZZ),3600) -timeout=20 -max_len=600 -len_control=0 -artifact_prefix=build/ build/corpus build/inputs test/corpus

## mutate        every fault of test/mutants.txt, one at a time; each must be caught
mutate:
	@python3 test/mutate.py

## mutate-random N=300 SEED=1: that many random faults in the code; how many do the tests notice?
mutate-random:
	@python3 test/mutate_random.py $(or $(N),100) --seed $(or $(SEED),1) $(FILE:%=--file %)
