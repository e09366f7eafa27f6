# attn.h - `make help` lists the targets.

CC       ?= cc
CXX      ?= c++
CLANG    ?= clang
CFLAGS   ?= -O2
WARN      = -Wall -Wextra
HIPFLAGS ?= -O3
PREFIX   ?= /usr/local
DESTDIR  ?=
SUDO      = $(shell [ "$$(id -u)" = 0 ] || command -v sudo)
VERSION   = $(shell sed -n '1,3s/.*version \([0-9.]*\),.*/\1/p' attn.h)

# A GPU compiler is used where there is one: `make HIPCC=` builds without it.
HIPCC    ?= $(shell command -v hipcc 2>/dev/null)

# What `make setup` installs: compilers for every header check, cmocka for the unit tests, clang's runtime for the
# sanitizers and the fuzzer, qemu for the machine without AVX and for ARM, whose C library clang takes, as that of wasm; Open MPI for attention over
# ranks; the rest for scripts of the tests.
PACKAGES  = gcc g++ gcc-multilib g++-multilib clang libclang-rt-dev libomp-dev libcmocka-dev make binutils \
            qemu-user gnuplot-nox libopenblas-dev jq python3 pkg-config cmake clang-format-19 tcc \
            libc6-dev-arm64-cross libgcc-12-dev-arm64-cross binutils-aarch64-linux-gnu wasi-libc libopenmpi-dev openmpi-bin

# What CI runs, room by room; NAME.full beside each, where there is one, takes longer.
STEPS     = $(filter-out %.full,$(wildcard test/steps/*))

.DEFAULT_GOAL := all
.PHONY: all attn_bench_mpi bench setup test test-full test-cross readme-check measured results targets compare peers encoder torch-ext picture format format-check install clean help
.DELETE_ON_ERROR:

## all           build attn_bench (the default)
all: attn_bench

# attn_hip.c is ordinary C without a GPU compiler, and then only says that it was built without one. HIPCC is ROCm's hipcc,
# test/hipsim/hipcc (the simulator) or nvcc. Built anew when compilers or flags change.
ifeq ($(HIPCC),)
LINK = $(CC) -pthread
build/attn_hip.o: attn_hip.c attn.h build/compiler.by
	$(CC) $(CFLAGS) -std=c99 $(WARN) -c attn_hip.c -o $@
else
NVCC = $(filter nvcc%,$(notdir $(HIPCC)))
LINK = $(HIPCC) $(if $(NVCC),-Xcompiler) -pthread
build/attn_hip.o: attn_hip.c attn.h build/compiler.by $(if $(findstring hipsim,$(HIPCC)),| hipsim)
	$(HIPCC) -x $(if $(NVCC),cu,hip) $(HIPFLAGS) -c attn_hip.c -o $@
endif
COMPILERS = $(subst ','\'',$(CC) $(CFLAGS) $(HIPCC) $(HIPFLAGS))
build/compiler.by: force
	@mkdir -p build
	@echo '$(COMPILERS)' | cmp -s - $@ || echo '$(COMPILERS)' > $@
.PHONY: force
force:

build/attn_bench.o: attn_bench.c attn.h build/compiler.by
	@mkdir -p build
	$(CC) $(CFLAGS) -std=c99 $(WARN) -pthread -c attn_bench.c -o $@

attn_bench: build/attn_bench.o build/attn_hip.o
	$(LINK) build/attn_bench.o build/attn_hip.o -o $@ -lm -ldl

## attn_bench_mpi  build/attn_bench_mpi: `mpirun -n 2 build/attn_bench_mpi --suite scaling` runs over ranks; needs mpicc
attn_bench_mpi: build/attn_bench_mpi
build/attn_bench_mpi: attn_bench.c attn_hip.c attn.h
	@mkdir -p build
	mpicc $(CFLAGS) -std=c99 $(WARN) -DATTN_MPI -pthread attn_bench.c attn_hip.c -o $@ -lm -ldl

# The parts of attn_bench that judge, called one by one; portable code alone, which compiles quickly.
build/bench_unit: test/bench/bench_unit.c attn_bench.c attn.h
	@mkdir -p build
	$(CC) -O1 -std=c99 $(WARN) -Werror -DATTN_NO_AVX2 -DATTN_NO_AVX512 -I. -pthread $< -o $@ -lm -ldl

# attn.h has runs of its own with sanitizers
build/bench_unit_asan: test/bench/bench_unit.c attn_bench.c attn.h
	@mkdir -p build
	@echo 'src:*attn.h' > $@.ignored
	$(WAY_asan) -fsanitize-ignorelist=$@.ignored -std=c99 $(WARN) -Werror -DATTN_NO_AVX512 -I. -pthread $< -o $@ -lm -ldl

## bench         build and run the default benchmark, under 90 s; needs a C compiler and make only
bench: attn_bench
	./attn_bench

## setup         install all that the tests need, from Debian's packages; nothing to do where they are installed
setup:
	@start=$$(date +%s); \
	dpkg -s $(PACKAGES) >/dev/null 2>&1 || { \
	    $(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get update -qq && \
	    $(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(PACKAGES); } || exit 1; \
	test/cross/setup.sh aarch64-linux-gnu/arm64; \
	echo "== setup: $$(($$(date +%s) - start)).0 s"

## test          every test that belongs to CI; VERBOSE=1 shows their output
test:
	@test/run.sh $(STEPS)

## test-full     the same, then the tests that take longer
test-full:
	@test/run.sh $(STEPS) $(wildcard test/steps/*.full)

## readme-check  run every command of README.md and compile every listing of it
readme-check:
	@test/build/readme.sh

## measured      measure the table of README.md anew, on an idle machine
measured: attn_bench
	@test/bench/measured.sh

## results       measure the reports and plots of test/results anew, on an idle machine; some minutes, needs gnuplot
results: attn_bench
	@test/bench/bench_results.sh

## targets       measure every speed that the CPU backend sets itself, into test/results/targets.md, on an idle machine
targets: build/targets
	@mkdir -p test/results
	@{ build/targets && ATTN_ISA=avx2 build/targets && printf '\n' && python3 test/build/sizes.py whole && \
	   printf '\n' && python3 test/cross/mca.py build/neongcc/impl.o; } | tee build/targets.md
	@mv build/targets.md test/results/targets.md
build/targets: test/bench/targets.c test/common/random.h attn.h
	@mkdir -p build
	$(CC) -O2 -std=c99 $(TESTWARN) -I. -pthread $< -o $@
# They have no test but their measurements: CI looks at their language alone.
.PHONY: targets-check
targets-check:
	@for f in targets adaptive compare; do $(CC) -fsyntax-only -std=c99 $(TESTWARN) -I. -Itest/common -pthread test/bench/$$f.c || exit 1; done

## adaptive      what a tolerance buys, with errors and certificates, into test/results/adaptive.md, on an idle machine
.PHONY: adaptive
adaptive: build/adaptive
	@mkdir -p test/results
	@test/bench/adaptive.sh | tee build/adaptive.md
	@mv build/adaptive.md test/results/adaptive.md
build/adaptive: test/bench/adaptive.c test/common/random.h attn.h
	@mkdir -p build
	$(CC) -O2 -std=c99 $(TESTWARN) -I. -pthread $< -o $@ -lm

## compare       attn.h beside that of the git revision OLD, call by call in turn on one machine; a minute
compare: build/compare/compare
	@git show $(or $(OLD),HEAD):attn.h > build/compare/attn.h
	@for v in build/compare .; do \
	    $(CC) -O2 -std=c99 -fPIC -shared -x c -DATTN_IMPLEMENTATION -pthread $$v/attn.h -o build/compare/$$([ $$v = . ] && echo new || echo old).so || exit 1; \
	done
	@build/compare/compare build/compare/old.so build/compare/new.so
build/compare/compare: test/bench/compare.c test/common/random.h attn.h
	@mkdir -p build/compare
	$(CC) -O2 -std=c99 $(TESTWARN) -I. $< -o $@ -ldl

## peers         PyTorch and OpenBLAS beside the library, as plugins of attn_bench; optional: PYTHON needs torch (PyPI)
peers: attn_bench
	@test/bench/peers.sh ./attn_bench

## encoder       examples/encoder.c on real weights beside sentence-transformers (PyPI); optional, PYTHON needs that package
encoder:
	@test/build/encoder.sh

## torch-ext     examples/torch_ext.cpp beside PyTorch's own operator; optional, PYTHON needs torch (PyPI)
torch-ext:
	@test/build/torch_ext.sh

## picture       draw the picture of README.md anew, test/results/peak.svg, from test/results/peers.md; needs gnuplot
picture:
	@test/bench/picture.sh

## format        lay out the library, the benchmark and the examples as .clang-format says
format:
	@test/build/format.sh apply

## format-check  name the lines that `make format` would change
format-check:
	@test/build/format.sh

## install       copy attn.h and attn.pc under DESTDIR/PREFIX
install: export PREFIX := $(PREFIX)
install: export DESTDIR := $(DESTDIR)
install:
	@[ -n "$(VERSION)" ] || { echo "attn.h names no version"; exit 1; }
	install -d "$$DESTDIR$$PREFIX/include" "$$DESTDIR$$PREFIX/lib/pkgconfig"
	install -m 644 attn.h "$$DESTDIR$$PREFIX/include/attn.h"
	printf '%s\n' "prefix=$$(printf %s "$$PREFIX" | sed 's/[^-[:alnum:]_./+=:@%~]/\\&/g')" 'includedir=$${prefix}/include' '' 'Name: attn' \
	    'Description: attention for C and C++ in a single header' 'Version: $(VERSION)' \
	    'Cflags: -I$${includedir}' 'Libs: -pthread' > "$$DESTDIR$$PREFIX/lib/pkgconfig/attn.pc"

## clean         remove what was built
clean:
	rm -rf build attn_bench

## help          this list
help:
	@sed -n 's/^## /  make /p' $(MAKEFILE_LIST)

include test/tests.mk test/cross/cross.mk test/build/machines.mk test/gpu/hip.mk
