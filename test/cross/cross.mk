# cross.mk - the ways of building for other machines (tests.mk), each with the emulator that runs it. Compilers: those of
# test/cross/setup.sh; for CI's sample clang, with a C library of `make setup`; for wasm PyPI's ziglang,
# and where it is compiled alone clang with Debian's wasi-libc.
CROSS             = build/cross/usr
WAY_neon          = $(CLANG) --target=aarch64-linux-gnu -O2 -Wno-unused-command-line-argument \
                    -idirafter $(CROSS)/aarch64-linux-gnu/include -L$(CROSS)/aarch64-linux-gnu/lib
WAY_neongcc       = $(CROSS)/bin/aarch64-linux-gnu-gcc -O2
WAY_neonfast      = $(CROSS)/bin/aarch64-linux-gnu-gcc -Ofast
WAY_armhf         = $(CROSS)/bin/arm-linux-gnueabihf-gcc -O2 -mfpu=neon-vfpv4
WAY_s390x         = $(CROSS)/bin/s390x-linux-gnu-gcc -O2
WAY_ppc64le       = $(CROSS)/bin/powerpc64le-linux-gnu-gcc -O2
WAY_riscv64       = $(CROSS)/bin/riscv64-linux-gnu-gcc -O2
WASM_CC           = $(PYTHON) -m ziglang cc -target wasm32-wasi
WAY_wasm          = $(WASM_CC) -O2 -msimd128
WAY_wasmplain     = $(WASM_CC) -O2
WAY_wasmobject    = $(CLANG) --target=wasm32-wasi -O1 -msimd128 -U_REENTRANT
CROSS_WAYS        = neon neongcc neonfast armhf s390x ppc64le riscv64 wasm wasmplain wasmobject
PYTHON           ?= python3
$(foreach w,$(CROSS_WAYS),$(eval $(call WAY_RULES,$(w))))

## test-cross    every other machine that can be emulated here, into test/results/machines.md; wasm: PYTHON with ziglang, wasmtime (PyPI)
test-cross:
	@test/cross/setup.sh
	@PYTHON=$(PYTHON) test/cross/cross.sh
