# machines.mk - attn.h on machines other than this one: what `make test` has of it is a sample.

# Beside those of `make setup`; each script says what it lacks and counts it as skipped.
MACHINE_PACKAGES = gcc-mingw-w64-x86-64-posix g++-mingw-w64-x86-64-posix clang-19 wine wine64 gcc-arm-none-eabi libnewlib-arm-none-eabi \
                   qemu-system-arm

.PHONY: setup-machines test-windows test-embedded sizes
## setup-machines  what test-windows and test-embedded need beside setup, from Debian's packages
setup-machines: setup
	$(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(MACHINE_PACKAGES)

## test-windows  attn.h and attn_bench by mingw-w64 and clang, run by wine
test-windows:
	@test/build/windows.sh

## test-embedded  builds that leave parts out, plain C, a Cortex-M7 in qemu
test-embedded:
	@test/build/embedded.sh full

## sizes         code by room of attn.h and by ISA, at -O2 and -Os, into test/results/sizes.md
sizes:
	@mkdir -p build/sizes test/results
	@python3 test/build/sizes.py > build/sizes.md
	@mv build/sizes.md test/results/sizes.md
