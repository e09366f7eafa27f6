#!/bin/sh
# SPDX-License-Identifier: MIT
# Installs what hipsim needs on Debian 12: compilers, LLVM 19 with headers, HIP headers, device libraries.
set -e
SUDO=; [ "$(id -u)" = 0 ] || SUDO=sudo
$SUDO apt-get update -qq
$SUDO apt-get install -y --no-install-recommends gcc g++ make clang-19 clang-tools-19 lld-19 llvm-19 llvm-19-dev libamdhip64-dev rocm-device-libs python3
