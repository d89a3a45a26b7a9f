#!/bin/sh
# The tests of glibc and of Linux itself (tools/testing/selftests), from Debian's source packages, on Linux and on Cairn in the same machine:
#
#     tests/suites.sh glibc|kernel [PATTERN]
#
# prints the programs whose exit statuses differ, with the first lines that they wrote. Only programs with PATTERN in their names, if it is given.
# What is built stays in build/suites. It wants the packages gcc, libcap-dev, libcap-ng-dev, libpopt-dev, libnuma-dev, and some 20 minutes for all of a suite.
set -eu
cd "$(dirname "$0")/.."
suite=${1:?glibc or kernel}
pattern=${2:-.}
here=$PWD/build/suites/$suite
mkdir -p "$here/bin" "$here/errors"

# $1: package, $2: what of its archive
fetch() {
    [ -e "$here/fetched" ] && return
    (cd "$here" && apt-get -q -o APT::Sandbox::User=root download "$1" && dpkg-deb -x "$1"_*.deb package && rm -f "$1"_*.deb)
    archive=$(find "$here/package" -name '*.tar.xz' | head -1)
    shift
    mkdir -p "$here/source"
    tar -C "$here/source" --strip-components=1 --wildcards -xf "$archive" "$@"
    rm -rf "$here/package"
    touch "$here/fetched"
}

# Each program by itself, two at a time: names of sources come on standard input, $1 is the script for one.
compile_each() {
    xargs -P "$(nproc)" -n 1 sh -c "$1" one
    strip "$here"/bin/* 2>/dev/null || true
}

glibc() {
    fetch glibc-source '*'
    [ -e "$here/built" ] && return
    include=$here/include
    mkdir -p "$include/malloc" "$here/objects"
    source=$here/source
    ln -sfn "$source/support" "$include/support"
    cp "$source"/include/array_length.h "$source"/include/libc-diag.h "$source"/include/intprops.h "$source"/test-skeleton.c "$include/"
    cp "$source"/malloc/dynarray* "$include/malloc/"
    grep -v include_next "$source/include/scratch_buffer.h" >"$include/scratch_buffer.h"
    cp "$source/malloc/dynarray.h" "$include/"
    for empty in config.h libc-config.h shlib-compat.h atomic.h; do : >"$include/$empty"; done
    # What the build of glibc defines, for its tests beside the C library that is installed.
    cat >"$include/outside.h" <<'END'
#define _GNU_SOURCE 1
#define _ISOMAC 1
#define IS_IN(x) 0
#define PTHREAD_IN_LIBC 1
#define TIMEOUTFACTOR 1
#define attribute_hidden
#define libc_hidden_proto(x)
#define libc_hidden_def(x)
#define DEFAULT_STACK_PERMS (PF_R | PF_W)
#include <elf.h>
#include <errno.h>
#include <limits.h>
#define __set_errno(e) (errno = (e))
#define OBJDIR_PATH "/"
#define OBJDIR_ELF_LDSO_PATH "/lib64/ld-linux-x86-64.so.2"
#define SRCDIR_PATH "/"
#define INSTDIR_PATH "/usr"
#define BINDIR_PATH "/usr/bin"
#define SBINDIR_PATH "/sbin"
#define ROOTSBINDIR_PATH "/sbin"
#define SLIBDIR_PATH "/lib"
#define LIBDIR_PATH "/usr/lib"
#define LOCALEDIR_PATH "/usr/share/locale"
#define SYSCONFDIR_PATH "/etc"
#define COMPLOCALEDIR_PATH "/usr/lib/locale"
END
    export CC_OUTSIDE="gcc -O1 -w -std=gnu11 -include $include/outside.h -I$include"
    cd "$source"
    cat >"$here/objects/answers.c" <<'END'
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
bool support_path_support_time64_value(const char *path, int64_t a, int64_t b) { return true; }
int support_socket_so_timestamp_time64(int fd) { return 0; }
pthread_attr_t *support_small_stack_thread_attribute(void) {
    static pthread_attr_t all;
    pthread_attr_init(&all);
    pthread_attr_setstacksize(&all, 65536);
    return &all;
}
END
    export here
    { ls support/*.c malloc/dynarray_*.c malloc/scratch_buffer_*.c | grep -v '/tst-\|container\|README\|links-dso\|time64\|_main\.c\|test-run-command'
      echo support/support_test_main.c; echo "$here/objects/answers.c"; } |
        compile_each '$CC_OUTSIDE -Isupport -c "$1" -o "$here/objects/$(basename "$1" .c).o" 2>/dev/null || true'
    rm -f "$here/support.a"
    ar rcs "$here/support.a" "$here"/objects/*.o
    for folder in posix io rt nptl signal time misc socket resource sysvipc dirent sysdeps/unix/sysv/linux sysdeps/pthread inet login stdlib stdio-common libio; do
        ls $folder/tst-*.c $folder/bug-*.c $folder/test-*.c 2>/dev/null || true
    done | grep -v 'time64\|printers' |
        compile_each 'name=$(echo "${1%.c}" | tr / _); timeout 60 $CC_OUTSIDE -iquote "$(dirname "$1")" -iquote sysdeps/pthread -iquote sysdeps/unix/sysv/linux -iquote nptl \
            "$1" -o "$here/bin/$name" "$here/support.a" -lm -ldl -lutil 2>"$here/errors/$name" || true'
    touch "$here/built"
}

kernel() {
    fetch linux-source-6.1 '*/tools/testing/selftests/*' '*/tools/include/*'
    [ -e "$here/built" ] && return
    export here
    cd "$here/source/tools/testing/selftests"
    for folder in timers futex/functional mqueue proc pidfd clone3 exec ptrace seccomp sigaltstack splice memfd mincore openat2 mount mount_setattr move_mount_set_group kcmp membarrier \
        ipc capabilities core filesystems nsfs pid_namespace prctl rlimits sched syscall_user_dispatch timens tmpfs vDSO vm breakpoints landlock net x86; do
        ls $folder/*.c
    done | grep -v 'step_after_suspend\|landlock/true\|clocksource-switch\|leapcrash\|skew\|alarmtimer-suspend\|mq_perf\|thuge' |
        compile_each 'folder=$(dirname "$1"); name=$(echo "${1%.c}" | tr / _); beside=
            for other in helpers common vm_util parse_vdso; do [ -e "$folder/$other.c" ] && [ "$folder/$other.c" != "$1" ] && beside="$beside $folder/$other.c"; done
            for with in "" "$beside"; do
                timeout 60 gcc -O1 -w -D_GNU_SOURCE -I. -I$folder/.. -I$folder "$1" $with -o "$here/bin/$name" -lpthread -lrt -lcap -lcap-ng -lpopt -lnuma -lm 2>"$here/errors/$name" && break
            done || true'
    touch "$here/built"
}

# Each program in turn, with its status; the first lines of what failed.
run() {
    libraries=
    for library in libc.so.6 libm.so.6 libpthread.so.0 libdl.so.2 librt.so.1 libutil.so.1 libcap.so.2 libcap-ng.so.0 libpopt.so.0 libnuma.so.1 libgcc_s.so.1; do
        path=/lib/x86_64-linux-gnu/$library
        [ ! -e $path ] || libraries="$libraries --add $(readlink -f $path):$path"
    done
    ./cairn exec --system "$1" --mem 2G $libraries --add "$(readlink -f /lib64/ld-linux-x86-64.so.2):/lib64/ld-linux-x86-64.so.2" \
        --add "$here/all.tar:/all.tar" --add "$here/each.sh:/each.sh" -- sh /each.sh >"$here/$1.txt" 2>&1 || true
}

(unset CDPATH; "$suite")
cd "$here/bin"
ls | grep -- "$pattern" >../names
tar -cf ../all.tar -T ../names
cd - >/dev/null
cat >"$here/each.sh" <<'END'
mkdir -p /tmp/bin /tmp/work && cd /tmp/bin && tar -xf /all.tar
for name in *; do
    mkdir -p /tmp/work && cd /tmp/work
    timeout -s KILL 25 "/tmp/bin/$name" >/tmp/printed 2>&1 </dev/null
    status=$?
    echo "@@ $name $status"
    case $status in 0 | 77) ;; *) head -c 900 /tmp/printed | head -12 | sed 's/^/    /' ;; esac
    cd /tmp && rm -rf work printed
    # (What it left running goes with it.)
    pkill -9 -x "$(echo "$name" | cut -c1-15)" 2>/dev/null
done
END
run linux
run cairn
awk '
    FNR == 1 { file++ }
    /^@@ / { name = $2; status[file, name] = $3; if (file == 1) order[++count] = name; next }
    file == 2 { lines[name] = lines[name] $0 "\n" }
    END {
        for (i = 1; i <= count; i++) {
            name = order[i]
            linux = status[1, name]; cairn = status[2, name]
            passed += linux == 0; both += linux == 0 && cairn == 0
            if (linux != cairn) printf "%s: on Linux %s, on Cairn %s\n%s", name, linux, cairn == "" ? "not run" : cairn, lines[name]
        }
        printf "%d programs; on Linux %d end with 0, of these %d on Cairn\n", count, passed, both
    }' "$here/linux.txt" "$here/cairn.txt"
