# hip.mk - the GPU backend proved without a GPU: attn_hip.c built for four chips and run in the simulator of test/hipsim.
# The steps of CI are in test/steps/gpu; `make test-hip` runs them alone.

PACKAGES += clang-19 clang-tools-19 lld-19 llvm-19 llvm-19-dev libamdhip64-dev rocm-device-libs

HIP_CHIPS   = gfx90a gfx942 gfx1100 gfx1201
HIPSIM      = test/hipsim
HIPSIM_CC   = $(HIPSIM)/hipcc
HIP_H       = $(COMMON) test/gpu/hip.h
HIP_PROGRAMS = hip_unit hip_grid hip_report
HIP_CC      = $(CC) -O2 $(STRICT) -D__HIP_PLATFORM_AMD__
# On two of the chips host tensors are cut into small pieces and batches into pairs: the kernels are the same, so every case there also
# proves the host side's seams.
HIP_PIECES  = -DGPU_CHUNK_BYTES=4096 -DGPU_BATCH_MAX=2 -DGPU_CARRY_KEYS=128 -DGPU_CARRY_DECODE=4 -DGPU_PART_KEYS=64 -DGPU_LAY_BYTES=4096
HIP_DEFINES_gfx90a  = $(HIP_PIECES)
HIP_DEFINES_gfx1201 = $(HIP_PIECES)
# What hip-report measures is built as users build it.
HIP_UNCUT           = gfx90a gfx1201
# NVIDIA's mma.sync and wgmma, emulated lane by lane: no chips of their own, and slow; sm80f16d64 and its like, of CI, have kernels of one type and half the dims
HIP_EMULATED        = sm80 sm80f16d64 sm80f16d128 sm90 sm90f16d64 sm90f16d128 sm90bf16d64 sm90bf16d128
HIP_EMULATE         = test/gpu/hip_emulate.h
# what test/gpu/hip_rows.py keeps of the table: all where there is none
$(foreach d,d64 d128,$(eval HIP_ROWS_sm80f16$(d) = f16 units $(d))$(foreach t,f16 bf16,$(eval HIP_ROWS_sm90$(t)$(d) = $(t) wgmma $(d))))
HIP_ROWS_sm90       = both wgmma
# wgmma: late in one, at once in the other; with carries and parts every few tiles
HIP_DEFINES_sm90f16d64 = '-DGPU_UNITS=(UNIT_SM80|UNIT_SM90)' -DGPU_CARRY_KEYS=128 -DGPU_PART_KEYS=64
$(foreach x,sm90f16d128 sm90bf16d64 sm90bf16d128,$(eval HIP_DEFINES_$(x) = $$(HIP_DEFINES_sm90f16d64)))
HIP_DEFINES_sm90    = $(HIP_DEFINES_sm90f16d64) -DHIP_EMULATE_EARLY
# Calls that test/gpu/hip_wrap.c counts and makes fail.
HIP_WRAPPED = hipMalloc hipHostMalloc hipMallocAsync hipHostRegister hipStreamCreate hipStreamCreateWithFlags hipEventCreate \
              hipEventCreateWithFlags hipFree hipHostFree hipFreeAsync hipHostUnregister hipStreamDestroy hipEventDestroy hipMemcpy \
              hipMemcpyAsync hipMemcpy2DAsync hipMemsetAsync hipLaunchKernel hipStreamSynchronize hipDeviceSynchronize \
              hipStreamWaitEvent hipEventRecord hipEventSynchronize hipEventElapsedTime hipSetDevice hipGetDevice \
              hipGetDeviceProperties hipDeviceGetAttribute hipPointerGetAttributes hipFuncSetAttribute hipFuncGetAttributes \
              hipGetDeviceCount hipPeekAtLastError hipThreadExchangeStreamCaptureMode
HIP_LINK    = $(HIPSIM_CC) -pthread $(foreach f,$(HIP_WRAPPED),-Wl,--wrap=$(f))

.PHONY: hipsim hip-build test-hip test-hip-full hip-mutate hip-report test-hipsim
## test-hip      the GPU backend in the simulator, on four chips, as in CI
test-hip:
	@test/run.sh test/steps/gpu

## test-hip-full the same with twenty times the cases, every fault of hip-mutate, every compiler found
test-hip-full:
	@test/run.sh test/steps/gpu test/steps/gpu.full

## hip-mutate    every barrier of attn_hip.c removed and every fault of test/mutants/hip_mutants.txt: each must be caught
hip-mutate:
	@python3 test/mutants/hip_mutate.py

## hip-report    write test/results/hip_report.md: registers, LDS, occupancy, cycles of every GPU kernel, waits of the main ones
hip-report: hipsim
	@python3 test/gpu/hip_report.py

## test-hipsim   the simulator's own tests; recorded in test/gpu/hipsim.tested when they pass
test-hipsim: hipsim
	@test/gpu/hipsim.sh --record

hipsim:
	@$(MAKE) -s -C $(HIPSIM)

build/hip/%.o: test/gpu/%.c $(HIP_H)
	@mkdir -p $(@D)
	$(HIP_CC) -c $< -o $@

# chip; what runs it, what is compiled, the header before it
define HIP_RULES
build/hip/$(1)/attn_hip.o: $(3) attn.h $(4) | hipsim
	@mkdir -p $$(@D)
	$$(HIPSIM_CC) -x hip $(HIPFLAGS) $(HIP_DEFINES_$(1)) $(if $(4),-O1 -include $(4)) --offload-arch=$(2) -I. -c $$< -o $$@
build/hip/$(1)/hip_fault.o: test/gpu/hip_fault.c | hipsim
	@mkdir -p $$(@D)
	$$(HIPSIM_CC) -x hip -O1 --offload-arch=$(2) -c $$< -o $$@
$$(HIP_PROGRAMS:%=build/hip/$(1)/%): build/hip/$(1)/%: build/hip/%.o build/hip/hip_wrap.o build/plain/impl.o build/hip/$(1)/hip_fault.o build/hip/$(1)/attn_hip.o
	$$(HIP_LINK) $$^ -o $$@ -lcmocka -lm
build/hip/$(1)/mpi_test: build/hip/mpi_test.o build/mpi/impl.o build/hip/hip_wrap.o build/hip/$(1)/attn_hip.o
	$$(HIP_LINK) $$^ -o $$@ -lm $$(shell mpicc --showme:link)
endef
$(foreach c,$(HIP_CHIPS),$(eval $(call HIP_RULES,$(c),$(c),attn_hip.c)))
$(foreach c,$(HIP_UNCUT),$(eval $(call HIP_RULES,$(c)uncut,$(c),attn_hip.c)))
# in CI each chip has kernels of one type of 16 bits and of half the dims, which turn with the sources (hip.sh): a third is left to compile
$(foreach c,$(HIP_CHIPS),$(foreach t,f16 bf16,$(foreach d,d64 d128,$(eval HIP_ROWS_$(c)$(t)$(d) = $(t) chip $(d))$(eval HIP_DEFINES_$(c)$(t)$(d) = $(HIP_DEFINES_$(c)))\
    $(eval $(call HIP_RULES,$(c)$(t)$(d),$(c),build/hip/$(c)$(t)$(d)/attn_hip.c)))))
$(foreach c,$(HIP_EMULATED),$(eval $(call HIP_RULES,$(c),gfx1100,$(if $(HIP_ROWS_$(c)),build/hip/$(c)/)attn_hip.c,$(HIP_EMULATE))))
build/hip/%/attn_hip.c: attn_hip.c test/gpu/hip_rows.py
	@mkdir -p $(@D)
	python3 test/gpu/hip_rows.py $(HIP_ROWS_$*) > $@
# attention over MPI with device tensors: test/mpi/mpi.sh
build/hip/mpi_test.o: test/mpi/mpi_test.c test/mpi/mpi_device.h $(HIP_H)
	@mkdir -p $(@D)
	mpicc $(MPI_FLAGS) -D__HIP_PLATFORM_AMD__ -DMPI_DEVICE -c $< -o $@
# what every chip's programs are linked with, where the simulator can be built: test/gpu/hip.sh run builds the rest, a chip beside another
HIP_OBJECTS = hipsim build/plain/impl.o $(HIP_PROGRAMS:%=build/hip/%.o) build/hip/hip_wrap.o
hip-build: $(if $(filter hip-build,$(MAKECMDGOALS)),$(if $(shell test/gpu/hip.sh missing),,$(HIP_OBJECTS)))

# On an NVIDIA GPU: the same programs built by nvcc, of one architecture each (sm_80: mma.sync; sm_90a: wgmma too). test/gpu/cuda.sh runs them.
CUDA_CHIPS = sm_80 sm_90 sm_90a
CUDA_NVCC  = $(or $(shell command -v nvcc),/usr/local/cuda/bin/nvcc)
CUDA_HOME  = $(patsubst %/,%,$(dir $(patsubst %/,%,$(dir $(realpath $(CUDA_NVCC))))))
CUDA_CC    = $(CC) -O2 $(STRICT) -Itest/gpu/cuda -Ibuild/cuda -isystem $(CUDA_HOME)/include
# what hip_wrap.c stands before, by CUDA's names
CUDA_WRAPPED = $(subst cudaHostFree,cudaFreeHost,$(subst cudaHostMalloc,cudaHostAlloc,$(HIP_WRAPPED:hip%=cuda%)))
## test-cuda     the GPU backend on an NVIDIA GPU: CHIP=sm_90a, or of another architecture; needs nvcc and that GPU
.PHONY: test-cuda
test-cuda:
	@test/gpu/cuda.sh $(or $(CHIP),sm_90a)
build/cuda/names.h: attn_hip.c
	@mkdir -p $(@D)
	sed -n '/^#define hip[A-Za-z_]* cuda[A-Za-z_]*$$/p' $< > $@
build/cuda/%.o: test/gpu/%.c test/gpu/cuda/hip/hip_runtime_api.h build/cuda/names.h $(HIP_H)
	@mkdir -p $(@D)
	$(CUDA_CC) -fPIC -c $< -o $@
build/cuda/impl.o: test/common/impl.c attn.h
	@mkdir -p $(@D)
	$(CC) -O2 $(STRICT) -fPIC -c $< -o $@
define CUDA_RULES
build/cuda/$(1)/%.o: %.c attn.h
	@mkdir -p $$(@D)
	$$(CUDA_NVCC) -x cu -O3 -std=c++17 -gencode arch=compute_$(1:sm_%=%),code=$(1) -Xcompiler -fPIC -Xptxas -v -I. -c $$< -o $$@ >$$@.log 2>&1 || { cat $$@.log; exit 1; }
build/cuda/$(1)/hip_fault.o: test/gpu/hip_fault.c test/gpu/cuda/hip/hip_runtime_api.h build/cuda/names.h
	@mkdir -p $$(@D)
	$$(CUDA_NVCC) -x cu -gencode arch=compute_$(1:sm_%=%),code=$(1) -Itest/gpu/cuda -Ibuild/cuda -c $$< -o $$@
build/cuda/$(1)/hip_unit build/cuda/$(1)/hip_grid: build/cuda/$(1)/%: build/cuda/%.o build/cuda/hip_wrap.o build/cuda/impl.o build/cuda/$(1)/hip_fault.o build/cuda/$(1)/attn_hip.o
	$$(CUDA_NVCC) -arch=$(1) $$^ -o $$@ -Xcompiler -pthread $$(CUDA_WRAPPED:%=-Xlinker --wrap=%) -lcmocka -lm
build/cuda/$(1)/libhip_torch.so: build/cuda/hip_torch.o build/cuda/impl.o build/cuda/$(1)/attn_hip.o
	$$(CUDA_NVCC) -arch=$(1) -shared $$^ -o $$@ -Xcompiler -pthread -lm
endef
$(foreach c,$(CUDA_CHIPS),$(eval $(call CUDA_RULES,$(c))))
