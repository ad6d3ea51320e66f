#!/bin/bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2317,SC2016 # functions are called through check; $LD_PRELOAD is for the inner shell
# test_install.sh CC LIBDIR VERSION: installs to a prefix of its own and uses what is there, as strangers would:
# by pkg-config, by find_package, shared and static, and from a Debian package.
set -u -o pipefail
cc=$1 libdir=$2 version=$3
here=$(dirname "$(readlink -f "$0")")
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix
failed=0

# check WHAT COMMAND...: its output is shown only when it fails.
check() {
    local what=$1
    shift
    if "$@" >"$work/log" 2>&1; then
        printf 'ok      %s\n' "$what"
    else
        printf 'FAILED  %s: %s\n' "$what" "$*"
        sed 's/^/        /' "$work/log"
        failed=1
    fi
}

# The list with this build's names in it.
expected() {
    local type
    type=$(sed -n 's/^CMAKE_BUILD_TYPE:[^=]*=//p' "$KIT_BUILD/CMakeCache.txt" | tr '[:upper:]' '[:lower:]')
    sed "s,^LIB,$libdir,; s,TYPE,${type:-noconfig},; s,VERSION,$version,; s,MAJOR,${version%%.*}," \
        "$here/installed.txt" | LC_ALL=C sort
}

same_files() {
    diff -u --label expected --label found <(expected) "$1"
}

with_pkg_config() {
    local flags
    flags=$(PKG_CONFIG_PATH=$prefix/$libdir/pkgconfig pkg-config "$@" tundish) || return
    # shellcheck disable=SC2086 # flags are words
    "$cc" -o "$work/smoke" "$here/consumer/smoke.c" $flags "${link[@]}" && "$work/smoke" "$version"
}

with_cmake() {
    cmake -G Ninja -S "$here/consumer" -B "$work/consumer" -DCMAKE_C_COMPILER="$cc" \
        -DCMAKE_PREFIX_PATH="$prefix" && cmake --build "$work/consumer"
}

# man always succeeds, so its silence is what counts.
manual_pages() {
    local page
    for page in "$prefix"/share/man/man?/*; do
        LC_ALL=C.UTF-8 MANWIDTH=80 man --warnings -E UTF-8 -l "$page" 2>&1 >/dev/null | sed "s,^,${page##*/}: ,"
    done >"$work/manual"
    cat "$work/manual"
    [ ! -s "$work/manual" ]
}

finds_its_library() {
    local preload
    preload=$("$prefix/bin/tundish" run --rate 1000/s -- /bin/sh -c 'echo "$LD_PRELOAD"') || return
    echo "LD_PRELOAD=$preload"
    [ "$(readlink -f "${preload##*:}")" = "$(readlink -f "$prefix/$libdir/libtundish-preload.so")" ]
}

# unit_starts PROGRAM TREE: the unit below TREE has that program started.
unit_starts() {
    grep -q "^ExecStart=$1 sidecar " "$2/share/doc/tundish/examples/tundish-sidecar.service"
}

deb_lists() {
    dpkg-deb -c "$work"/deb/*.deb | awk '$1 !~ /^d/ { sub("^[.]/usr/", "", $6); print $6 }' | LC_ALL=C sort \
        >"$work/files" && same_files "$work/files"
}

deb_depends_on() {
    dpkg-deb -f "$work"/deb/*.deb Depends | tee /dev/stderr | grep -q "$1"
}

check "installs" cmake --install "$KIT_BUILD" --prefix "$prefix"
(cd "$prefix" && find . ! -type d | sed 's,^[.]/,,' | LC_ALL=C sort) >"$work/files"
check "installs all of it and nothing else" same_files "$work/files"
if command -v man >/dev/null; then
    check "the manual pages are well-formed" manual_pages
else
    echo "not here: man-db"
fi

link=("-Wl,-rpath,$prefix/$libdir")
check "pkg-config, shared" with_pkg_config --cflags --libs
link=(-static)
check "pkg-config, static" with_pkg_config --cflags --libs --static
check "find_package" with_cmake
check "find_package, shared" "$work/consumer/smoke_tundish" "$version"
check "find_package, static" "$work/consumer/smoke_tundish_static" "$version"

check "the program runs" "$prefix/bin/tundish" --version
check "the program finds its library" finds_its_library
check "the unit starts the program" unit_starts "$prefix/bin/tundish" "$prefix"
check "installs below DESTDIR" env DESTDIR="$work/stage" cmake --install "$KIT_BUILD" --prefix /opt/tundish
check "the unit there starts what will be the program" \
    unit_starts /opt/tundish/bin/tundish "$work/stage/opt/tundish"

if command -v dpkg-deb >/dev/null && command -v dpkg-shlibdeps >/dev/null; then
    check "cpack makes a package" cpack -G DEB -B "$work/deb" --config "$KIT_BUILD/CPackConfig.cmake"
    check "the package holds the same files" deb_lists
    check "the package depends on libc" deb_depends_on libc6
    check "the package unpacks" dpkg-deb -x "$(echo "$work"/deb/*.deb)" "$work/unpacked"
    check "the packaged program runs" "$work/unpacked/usr/bin/tundish" --version
    check "the packaged unit starts it" unit_starts /usr/bin/tundish "$work/unpacked/usr"
else
    echo "not here: dpkg-dev"
fi
exit "$failed"
