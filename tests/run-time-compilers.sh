#!/bin/sh
# node and Java with their compilers, and modules of Python's own tests, from Debian's packages, on Cairn and on Linux: too large for `./cairn test` (some 150 MB to download, minutes to run).
#
#   tests/run-time-compilers.sh                      node and Java
#   tests/run-time-compilers.sh test_mmap test_os    these modules of Python's tests
#
# What differs is shown as `diff` does, Linux's lines first. The packages are unpacked under build/run-time-compilers, never installed.
set -eu
cd "$(dirname -- "$0")/.."
place=${CAIRN_BUILD:-$PWD/build}/run-time-compilers
mkdir -p "$place"

if [ ! -e "$place/disk.ext4" ]; then
    rm -rf "$place/tree" && mkdir -p "$place/archives/partial" "$place/tree/usr/lib" "$place/tree/usr/bin"
    : >"$place/status"
    python=$(apt-cache show python3 | sed -n 's/^Version: \(3\.[0-9]*\).*/\1/p' | head -n 1)
    apt-get -qq -o Dir::State::status="$place/status" -o Dir::Cache::archives="$place/archives" -o Debug::NoLocking=1 -o APT::Sandbox::User= \
        --no-install-recommends --yes --download-only install nodejs default-jdk-headless python3 "libpython$python-testsuite"
    ln -s usr/bin "$place/tree/bin" && ln -s usr/lib "$place/tree/lib"
    for package in "$place"/archives/*.deb; do
        dpkg-deb --fsys-tarfile "$package" | tar --extract --keep-directory-symlink --no-same-owner --directory "$place/tree" --exclude='./usr/share/doc/*' --exclude='./usr/share/man/*'
    done
    mke2fs -q -t ext4 -d "$place/tree" -E root_owner=0:0 "$place/disk.new" 3G
    mv "$place/disk.new" "$place/disk.ext4"
    rm -rf "$place/tree" "$place/archives"
fi

cat >"$place/Hello.java" <<'JAVA'
import java.util.*;
import java.util.concurrent.*;

public class Hello {
    static long fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
    static int deep(int n) { return deep(n + 1) + 1; }
    public static void main(String[] a) throws Exception {
        System.out.println(fib(30) + " " + System.getProperty("java.vm.info"));
        ExecutorService pool = Executors.newFixedThreadPool(4);
        List<Future<Long>> all = new ArrayList<>();
        for (int i = 0; i < 8; i++) { final int n = 15 + i; all.add(pool.submit(() -> fib(n))); }
        long sum = 0;
        for (Future<Long> f : all) sum += f.get();
        pool.shutdown();
        System.out.println(sum);
        try { int[] x = null; System.out.println(x[0]); } catch (NullPointerException e) { System.out.println("no pointer"); }
        try { deep(0); } catch (StackOverflowError e) { System.out.println("no stack"); }
        System.gc();
        System.out.println(new String(new ProcessBuilder("echo", "child").start().getInputStream().readAllBytes()).trim());
    }
}
JAVA
cat >"$place/hello.js" <<'NODE'
const fs = require('fs'), child = require('child_process'), net = require('net'), { Worker } = require('worker_threads');
let sum = 0;
for (let i = 0; i < 3e6; i++) sum += i % 7;
console.log(sum, child.execSync('echo child').toString().trim());
new Worker("let s = 0; for (let i = 0; i < 1e6; i++) s += i; require('worker_threads').parentPort.postMessage(s)", { eval: true }).on('message', m => {
    console.log('worker', m);
    const server = net.createServer(c => c.on('data', d => c.end('echo ' + d))).listen('/tmp/node.socket', () => {
        const client = net.connect('/tmp/node.socket');
        client.write('hello');
        client.on('data', d => console.log(d.toString()));
        client.on('close', () => server.close(last));
    });
});
async function last() {
    await fs.promises.writeFile('/tmp/node.text', 'abc'.repeat(1000));
    console.log((await fs.promises.readFile('/tmp/node.text')).length);
    const add = [0, 97, 115, 109, 1, 0, 0, 0, 1, 7, 1, 96, 2, 127, 127, 1, 127, 3, 2, 1, 0, 7, 7, 1, 3, 97, 100, 100, 0, 0, 10, 9, 1, 7, 0, 32, 0, 32, 1, 106, 11];
    console.log('wasm', (await WebAssembly.instantiate(new Uint8Array(add))).instance.exports.add(2, 3));
}
NODE
cat >"$place/run.sh" <<'GUEST'
export LD_LIBRARY_PATH=/mnt/usr/lib/x86_64-linux-gnu PATH=/mnt/usr/bin:$PATH
cd /tmp
if [ $# != 0 ]; then
    export PYTHONHOME=/mnt/usr
    for module; do
        timeout 300 /mnt/usr/bin/python3 -m test -v "$module" >out 2>&1
        echo "$module: status $?, $(grep -cE '\.\.\. ok$' out) ok"
        grep -E '^(FAIL|ERROR):' out | sort -u
    done
    exit
fi
ln -sfn /mnt/usr/share/nodejs /usr/share/
for folder in /mnt/etc/java-*; do ln -sfn "$folder" /etc/; done
set -- /mnt/usr/lib/jvm/java-*-openjdk-amd64/bin/java
node /hello.js; echo "node: $?"
"$1" -version 2>&1; "$1" /Hello.java; echo "java: $?"
GUEST
for system in linux cairn; do
    ./cairn exec --system $system --root debian --snapshot --mem 1G --timeout 3000 --disk "$place/disk.ext4" --mount /dev/vdb:/mnt \
        --add "$place/hello.js:/hello.js" --add "$place/Hello.java:/Hello.java" --add "$place/run.sh:/run.sh" -- bash /run.sh "$@" >"$place/$system" 2>&1 ||
        echo "$system: status $?" >>"$place/$system"
done
diff "$place/linux" "$place/cairn" && tail -n 30 "$place/cairn"
