#!/usr/bin/env bash
# test/cross/setup.sh - Debian's cross compilers, C libraries and cmocka for other machines, unpacked under build/cross: nothing is
# installed, for gcc's cross compilers cannot be installed beside gcc-multilib. What cannot be had is said, and its rows are then
# skipped. Nothing is done for a machine that is there already. Usage: setup.sh [TRIPLE/DEBIAN'S NAME ..]
set -u
cd "$(dirname "$0")/../.." || exit 1
export LC_ALL=C
command -v dpkg-deb >/dev/null && command -v apt-get >/dev/null || { echo "skipped: no apt-get: not a Debian system"; exit 0; }
root=$PWD/build/cross version=$(gcc -dumpversion)
mkdir -p "$root/deb" "$root/lists/partial" "$root/cache/archives/partial"
# lists of other machines' packages, apart from the system's own
foreign=(-o Dir::State::Lists="$root/lists" -o Dir::Cache="$root/cache" -o Debug::NoLocking=1 -o APT::Sandbox::User=root)

get() { # where to, packages
    local to=$1 d
    shift
    rm -rf "$root/deb" && mkdir -p "$root/deb" "$to" || return 1
    (cd "$root/deb" && apt-get "${foreign[@]}" download "$@") >"$root/log" 2>&1 || { tail -n 2 "$root/log"; return 1; }
    for d in "$root"/deb/*.deb; do dpkg-deb -x "$d" "$to" || return 1; done
}

[ $# -gt 0 ] || set -- aarch64-linux-gnu/arm64 arm-linux-gnueabihf/armhf s390x-linux-gnu/s390x powerpc64le-linux-gnu/ppc64el riscv64-linux-gnu/riscv64
missing=()
for machine in "$@"; do
    [ -e "$root/${machine%/*}.done" ] && continue
    missing+=("$machine")
    [ "${machine#*/}" = riscv64 ] || foreign+=(-o "APT::Architectures::=${machine#*/}")  # Debian 12 has none: no cmocka
done
[ ${#missing[@]} -gt 0 ] || exit 0
apt-get "${foreign[@]}" update -qq >"$root/log" 2>&1    # of some archive in vain: what is missing shows below
for machine in "${missing[@]}"; do
    triple=${machine%/*} deb=${machine#*/}
    get "$root" "gcc-$version-$triple" "cpp-$version-$triple" "libgcc-$version-dev-$deb-cross" "libgcc-s1-$deb-cross" \
        "libc6-$deb-cross" "libc6-dev-$deb-cross" "linux-libc-dev-$deb-cross" "binutils-$triple" ||
        { echo "skipped: $triple: its packages cannot be had"; continue; }
    # scripts of ld and gcc itself, made for one place, are told of this one
    grep -lI 'GNU ld script' "$root/usr/$triple"/lib*/*.so | xargs -r sed -i "s|\([ (]\)/usr/$triple/|\1$root/usr/$triple/|g"
    rm -f "$root/usr/bin/$triple-gcc"
    printf '#!/bin/sh\nLD_LIBRARY_PATH="%s" exec "%s" "$@"\n' "$root/usr/lib/$(gcc -dumpmachine)" "$root/usr/bin/$triple-gcc-$version" \
        >"$root/usr/bin/$triple-gcc"
    chmod +x "$root/usr/bin/$triple-gcc"
    if get "$root/cmocka" "libcmocka-dev:$deb" "libcmocka0:$deb"; then
        cp -P "$root"/cmocka/usr/lib/*/libcmocka.so* "$root/usr/$triple/lib/"
        cp "$root/cmocka/usr/include/cmocka.h" "$root/usr/$triple/include/"
        rm -rf "$root/cmocka"
    else echo "skipped: $triple: cmocka cannot be had, so no unit tests"; fi
    touch "$root/$triple.done"
    echo "$triple: gcc $("$root/usr/bin/$triple-gcc" -dumpversion)"
done
rm -rf "$root/deb" "$root/lists" "$root/cache"
