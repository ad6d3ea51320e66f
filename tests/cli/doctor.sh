#!/bin/sh
# SPDX-License-Identifier: MIT
# doctor tells what of a program can be limited. The programs are made here, each with one thing to be found.
# shellcheck disable=SC2016 # $ is for the linker and for C
. "$(dirname "$0")/kit.sh"
need cc

# program NAME CODE FLAGS...: compiles and links it in the work directory.
program() {
    name=$1 code=$2
    shift 2
    printf '%s\n' "$code" > "$work/$name.c"
    cc -w -o "$work/$name" "$work/$name.c" "$@" 2> "$work/cc" || {
        cat "$work/cc" >&2
        exit 1
    }
}

# finds STATUS VERDICT FINDING...: of the program that was made last; patterns, those of findings anywhere in a line.
finds() {
    expected=$1 verdict=$2
    shift 2
    tundish doctor "$work/$name"
    exits "$expected"
    says ''
    matches "$(tail -n 1 "$work/out")" "$verdict" || fail "the verdict is not: $verdict"
    for finding; do
        matches "$(cat "$work/out")" "*$finding*" || fail "does not find: $finding"
    done
}

calls_write='#include <unistd.h>
int main(void) { return write(1, "", 0) < 0; }'
calls_send='#include <sys/socket.h>
int carry(void) { return send(1, "", 0, 0) < 0; }'
calls_carry='int carry(void); int main(void) { return carry(); }'

# What works, and what it is that does.
program plain "$calls_write"
finds 0 works "program    $work/plain" 'limited    plain: write'
tundish_with "PATH=$work:$PATH" doctor plain
exits 0
prints "program    $work/plain
*works"

# Libraries are found as the dynamic linker finds them.
mkdir "$work/lib" "$work/other"
program lib/libcarry.so "$calls_send" -shared -fPIC
program by_runpath "$calls_carry" -L"$work/lib" -lcarry '-Wl,--enable-new-dtags,-rpath,$ORIGIN/lib'
finds 0 works 'limited    libcarry.so: send'
program by_rpath "$calls_carry" -L"$work/lib" -lcarry '-Wl,--disable-new-dtags,-rpath,${ORIGIN}/lib'
finds 0 works 'limited    libcarry.so: send'
program by_path "$calls_carry" "$work/lib/libcarry.so"
finds 0 works 'limited    libcarry.so: send'
program by_name "$calls_carry" -L"$work/lib" -lcarry
finds 4 'partly: libcarry.so, which by_name needs, is not found*' 'gap        libcarry.so, which by_name needs'
tundish_with "LD_LIBRARY_PATH=$work/other:$work/lib" doctor "$work/by_name"
exits 0
prints '*limited    libcarry.so: send*works'

# An RPATH serves libraries of libraries, a RUNPATH does not; a broken file on the way is passed by.
program lib/libmiddle.so 'int carry(void); int middle(void) { return carry(); }' \
    -shared -fPIC -L"$work/lib" -lcarry
calls_middle='int middle(void); int main(void) { return middle(); }'
echo text > "$work/other/libmiddle.so"
program rpath_deep "$calls_middle" -L"$work/lib" -lmiddle -Wl,--unresolved-symbols=ignore-all \
    "-Wl,--disable-new-dtags,-rpath,$work/other:$work/lib"
finds 0 works 'limited    libcarry.so: send'
program runpath_deep "$calls_middle" -L"$work/lib" -lmiddle -Wl,--unresolved-symbols=ignore-all \
    "-Wl,--enable-new-dtags,-rpath,$work/other:$work/lib"
finds 4 'partly: libcarry.so, which libmiddle.so needs, is not found*'

# What cannot be reached at all.
program nothing 'int main(void) { return 0; }'
finds 3 'not at all: neither it nor its libraries import a name that is limited'
program hooked '#include <unistd.h>
int main(void) { return fsync(1); }'
finds 4 'partly: neither it nor its libraries import a name that is limited, only names that a \[hook\] could count' \
    'hookable   hooked: fsync'
if printf '%s\n' "$calls_write" | cc -x c -static -o "$work/static" - 2> /dev/null; then
    name=static
    finds 3 'not at all: is statically linked'
    cp "$work/static" "$work/static copy"
    name='static copy'
    finds 3 'not at all: is statically linked'
fi
if printf '%s\n' "$calls_write" | cc -x c -static-pie -o "$work/static_pie" - 2> /dev/null; then
    name=static_pie
    finds 3 'not at all: is statically linked'
fi
go='__asm__(".section .go.buildinfo,\"a\"\n.long 1\n.previous");'
program go "$calls_write
$go"
finds 3 'not at all: is a Go program: it makes system calls without libc'
program go_note "$calls_write
__asm__(\".section .note.go,\\\"a\\\",%note\\n.long 4, 4, 4\\n.asciz \\\"Go\\\\0\\\"\\n.long 7\\n.previous\");"
finds 3 'not at all: is a Go program*'
program lib/libgo.so "$calls_send
$go" -shared -fPIC
program with_go "$calls_carry" "$work/lib/libgo.so"
finds 4 'partly: libgo.so: a Go library*'
program musl "$calls_write" -Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1
finds 3 'not at all: is made for musl (/lib/ld-musl-x86_64.so.1)*'
program foreign "$calls_write" -Wl,--dynamic-linker=/system/bin/linker64
finds 3 "not at all: its dynamic linker is not glibc's: /system/bin/linker64"
program homeless "$calls_write" -Wl,--dynamic-linker=/no/where/ld-linux-x86-64.so.2
finds 3 'not at all: its dynamic linker is missing: /no/where/ld-linux-x86-64.so.2'

# header NAME CLASS MACHINE: the first bytes of a little-endian ELF program, and nothing behind them.
header() {
    name=$1
    printf '\177ELF%b\001\001\0\0\0\0\0\0\0\0\0\002\0%b\0\001\0\0\0' "$2" "$3" > "$work/$name"
    head -c 40 /dev/zero >> "$work/$name"
    chmod +x "$work/$name"
}
header small '\001' '\003'
case $(getconf LONG_BIT) in
64) finds 3 'not at all: is a 32-bit program' ;;
esac
header odd '\002' '\052'
case $(getconf LONG_BIT) in
64) finds 3 'not at all: is a program for another kind of machine' ;;
esac

# All that this version wraps is known, from the same list that the linker reads.
names=$(grep -v -e '^#' -e '^tundish_' "$source_tree/tests/contract/exports-preload.txt")
# shellcheck disable=SC2086 # words
{
    printf 'extern char %s;\n' $names
    echo 'int main(void) { return 0'
    printf '+ (int)(long)&%s\n' $names
    echo '; }'
} > "$work/all.c"
cc -w -fPIC -shared -o "$work/lib/liball.so" "$work/all.c" || exit 1
program all "$calls_write" -Wl,--no-as-needed "$work/lib/liball.so" -Wl,--unresolved-symbols=ignore-all
tundish doctor "$work/all"
same "$(sed -n 's/^\(limited\|attended\) *liball.so: //p' "$work/out" | tr ' ' '\n' | sort)" \
    "$(echo "$names" | sort)" 'the wrapped names'
# One that takes no token is to be listed as attended, or else it makes a program look as if it were limited.
same "$(sed -n 's/^limited *liball.so: //p' "$work/out" | tr ' ' '\n' | \
    grep -v -e write -e send -e connect -e splice -e tee -e copy_file_range -e read -e recv)" '' \
    'names that take no token'

# Ways around.
program uring_library 'int io_uring_queue_init(void) { return 0; }' -shared -fPIC -Wl,-soname,liburing.so.2
mv "$work/uring_library" "$work/lib/liburing.so.2"
program uring "int io_uring_queue_init(void);
int main(void) { return io_uring_queue_init() + write(1, \"\", 0); }" "$work/lib/liburing.so.2" \
    "-Wl,-rpath,$work/lib"
finds 4 'partly: uring: can use io_uring*'
program namespaces '#include <dlfcn.h>
int main(void) { return write(1, "", 0) + (dlmopen(-1, "x", RTLD_NOW) == 0); }' -D_GNU_SOURCE -ldl
finds 4 'partly: namespaces: opens libraries in other namespaces (dlmopen)*'
program opens '#include <dlfcn.h>
int main(void) { return write(1, "", 0) + (dlopen("x", RTLD_NOW | RTLD_GLOBAL) == 0); }' -D_GNU_SOURCE -ldl
finds 0 works 'note       opens: opens libraries while it runs (dlopen)'
program asynchronous '#include <aio.h>
struct aiocb block;
int main(void) { return write(1, "", 0) + aio_write(&block); }' -lrt
finds 4 'partly: asynchronous: writes by aio*'
program lib/libsymbolic.so 'int write(int f, const void *p, unsigned long n) { return f; }
int carry(void) { return write(1, "", 0) + connect(1, 0, 0); }' -shared -fPIC -Wl,-Bsymbolic
program with_symbolic "$calls_carry" "$work/lib/libsymbolic.so"
finds 4 'partly: libsymbolic.so: defines a limited name and is bound to its own (DF_SYMBOLIC)' \
    'limited    libsymbolic.so: connect'
program own 'int write(int f, const void *p, unsigned long n) { return connect(f, 0, 0); }
int main(void) { return write(1, "", 0); }' -rdynamic
finds 4 'partly: own: defines a limited name itself*'
program talks '#include <stdio.h>
#include <netdb.h>
#include <syslog.h>
#include <unistd.h>
int main(int n, char **v) {
    struct addrinfo *found;
    FILE *file = fdopen(1, "w");
    syslog(LOG_INFO, "%d", n);
    return fprintf(file, "%d", n) + getaddrinfo(v[0], "1", 0, &found) + write(1, "", 0);
}'
finds 0 works 'note       talks: stdio:' 'note       talks: makes streams of descriptors' 'note       talks: looks up names' \
    'note       talks: writes to the system log'

# What is in the code can be told on the machine whose code is read.
if [ "$(uname -m)" = x86_64 ]; then
    for flags in -O0 -O2 '-O2 -fno-plt' '-O2 -fcf-protection=none' '-O2 -no-pie'; do
        deep='#include <dlfcn.h>
int main(void) { write(1, "", 0); return dlopen("x", RTLD_LAZY | RTLD_DEEPBIND) == 0; }'
        # shellcheck disable=SC2086 # words
        program deep "$deep" -D_GNU_SOURCE $flags -ldl
        finds 4 'partly: deep: opens libraries with RTLD_DEEPBIND*'
        # shellcheck disable=SC2086
        program rings 'int main(void) { write(1, "", 0); return syscall(425L, 1L, 0L); }' $flags
        finds 4 'partly: rings: can use io_uring*'
        # shellcheck disable=SC2086
        program harmless 'int main(void) { write(1, "", 0); return syscall(39L); }' $flags
        finds 0 works 'note       harmless: calls syscall()'
    done
    program raw 'int main(void) {
    long result = 426;
    write(1, "", 0);
    __asm__("mov $426, %%eax\nsyscall" : "=a"(result) : : "rcx", "r11", "memory");
    return result;
}'
    finds 4 'partly: raw: can use io_uring*'
fi

# Scripts are their interpreters.
# script NAME TEXT
script() {
    name=$1
    printf '%s\n' "$2" > "$work/$1"
    chmod +x "$work/$1"
}
script direct "#! $work/plain -x"
finds 0 works "script     $work/direct: run by $work/plain -x" 'limited    plain: write'
script by_env '#!/usr/bin/env -S A=b plain'
tundish_with "PATH=$work:$PATH" doctor "$work/by_env"
exits 0
prints "*program    $work/plain*works"
script twice "#!$work/direct"
finds 0 works "script     $work/twice: run by $work/direct" "script     $work/direct: run by $work/plain"
script plain_text 'echo without a first line of that kind'
tundish doctor "$work/plain_text"
prints "script     $work/plain_text: run by /bin/sh
*"
tundish_with "PATH=$work" doctor "$work/by_env"
exits 0
script lost '#!/no/such/interpreter'
tundish doctor "$work/lost"
exits 127
says 'tundish: /no/such/interpreter: No such file or directory'
script empty '#! '
tundish doctor "$work/empty"
exits 126
says "tundish: $work/empty: cannot run: its first line names no interpreter"
script loop "#!$work/loop"
tundish doctor "$work/loop"
exits 126
says '*scripts that run scripts: too many of them'

# What is no command at all, or no single one.
tundish doctor no-such-command
exits 127
says 'tundish: no-such-command: command not found'
prints ''
tundish doctor "$work/cc"
exits 126
tundish doctor
exits 64
says "tundish: doctor: needs one COMMAND or PID; try 'tundish help doctor'"
tundish doctor true false
exits 64
printf '%s\n' "$calls_write" | cc -w -x c -o "$work/two
lines" -
tundish doctor "$work/two
lines"
same "$(grep -c '^limited *two?lines: write$' "$work/out")" 1 'a line for a name of two lines'

# Privileges, which only root can hand out.
[ "$(id -u)" -eq 0 ] || exit 0
for bits in u+s g+s; do
    cp "$work/plain" "$work/privileged"
    chown 1:1 "$work/privileged"
    chmod $bits "$work/privileged"
    name=privileged
    case $bits in
    u+s) finds 3 'not at all: is set-user-ID: it ignores what is preloaded' ;;
    g+s) finds 3 'not at all: is set-group-ID: it ignores what is preloaded' ;;
    esac
done
chown 0:0 "$work/privileged"
chmod u+s,g+s "$work/privileged"
finds 0 works
command -v setcap > /dev/null && command -v setpriv > /dev/null || exit 0
cp "$work/plain" "$work/capable"
setcap cap_net_bind_service=ep "$work/capable" 2> /dev/null || exit 0
name=capable
finds 0 works
keep setpriv --reuid=65534 --regid=65534 --clear-groups "$bin" doctor "$work/capable"
matches "$(cat "$work/err")" '*ermission*' && exit 0
exits 3
prints '*not at all: has file capabilities: it ignores what is preloaded'
