# Languages whose programs are compiled while they run, or that have collectors and threads. Argument: which.
. /compat/common.sh
case $1 in
lua)
    check 'version' lua5.4 -e 'print(_VERSION)'
    check 'numbers' lua5.4 -e 'print(7//2, 7%-3, 2^53, 1e308*10, math.maxinteger+1 == math.mininteger, 3 | 4, "10"+5)'
    check 'strings' lua5.4 -e 'print(("x"):rep(5,","), ("hello world"):gsub("o","0"), ("%5.1f|%q"):format(3.14159,"a\n"), #string.pack("<i4s1z", 7, "ab", "c"))'
    check 'co-routines' lua5.4 -e 'local g = coroutine.wrap(function() for i = 1, 3 do coroutine.yield(i) end end) print(g(), g(), g())'
    check 'collector' lua5.4 -e 'for i = 1, 200000 do local t = {i, tostring(i)} end collectgarbage() print(collectgarbage("count") < 1000)'
    check 'files' lua5.4 -e 'local f = io.open("f", "w+") f:write("a\n", 12, "\n") f:seek("set") print(f:read("l", "n")) f:close() os.rename("f", "g") print(io.open("f"), os.remove("g"))'
    check 'pipes' lua5.4 -e 'local p = io.popen("echo hi; exit 3") print(p:read("a"), p:close()) print(os.execute("kill -9 $$"))'
    check 'errors' lua5.4 -e 'print(pcall(error, {1}), select("#", pcall(function() local x = nil; x.y = 1 end))) error("out")'
    check 'deep' lua5.4 -e 'local function f(n) if n == 0 then return 0 end return 1 + f(n - 1) end print(f(10000), pcall(function() local function g() return 1 + g() end return g() end))'
    check 'sort' lua5.4 -e 'local t = {} local x = 1 for i = 1, 50000 do x = (x * 1103515245 + 12345) % 2^31 t[i] = x end table.sort(t) for i = 2, #t do assert(t[i - 1] <= t[i]) end print(#t)'
    check 'luajit' luajit -e 'local s = 0 for i = 1, 3e7 do s = s + i % 7 end print(s, jit.status())'
    check 'luajit, ffi' luajit -e 'local f = require "ffi" f.cdef "int getpid(void); int atoi(const char *);" print(f.C.getpid() > 0, f.C.atoi("77"))'
    ;;
perl)
    check 'version' perl -e 'print "$^V\n"'
    check 'sockets' perl -MIO::Socket -e '$s = IO::Socket::INET->new(Listen => 1, LocalAddr => "127.0.0.1") or die; $p = $s->sockport; if (!fork) { $c = IO::Socket::INET->new("127.0.0.1:$p"); print $c "hello\n"; exit } print $s->accept->getline; wait; print $?, "\n"'
    check 'pipes' perl -e 'open P, "-|", "seq 3; exit 2"; print while <P>; close P; print $? >> 8, "\n"; open Q, "|cat"; print Q "x\n"; close Q'
    check 'signals' perl -e '$SIG{ALRM} = sub { die "alarm\n" }; eval { alarm 1; sleep 9 }; print $@; $SIG{CHLD} = sub { $n++ }; fork or exit for 1..3; 1 while wait > 0; print $n > 0, "\n"'
    check 'files' perl -e 'open F, "+>f"; print F "a" x 9999; seek F, 0, 0; truncate F, 5; print -s F, <F>, "\n"; print join " ", map { $_ // "" } (stat "f")[2,3,4,7]; print -e "g", rename("f", "g"), -e "g", unlink("g"), "\n"; mkdir "d"; opendir D, "d"; print sort readdir D'
    check 'locks' perl -MFcntl=:flock -e 'open F, ">l"; flock F, LOCK_EX; if (!fork) { open G, ">l"; print flock(G, LOCK_EX | LOCK_NB) ? "got" : "busy: $!", "\n"; exit } wait'
    check 'sort' perl -e '$x = 1; @a = map { $x = ($x * 69069 + 1) % 2**31 } 1..50000; @b = sort { $a <=> $b } @a; print "$b[0] $b[-1] $#b\n"'
    check 'regular expressions' perl -e '$_ = "a1b22c333"; print join "|", /(\d+)/g; s/(\w)(\d+)/$2$1/g; print; print "x" =~ /^(?<n>x)(?{ print 7 })$/, $+{n}, "\n"'
    check 'threads of its own' perl -e 'use threads; print join(" ", map { $_->join } map { my $n = $_; threads->create(sub { $n * $n }) } 1..6), "\n"'
    check 'select' perl -e 'pipe R, W; vec($r, fileno R, 1) = 1; print scalar(select($a = $r, undef, undef, 0.1)), "\n"; syswrite W, "x"; print scalar(select($a = $r, undef, undef, 1)), "\n"'
    check 'time' perl -MTime::HiRes=sleep,time -e '$t = time; sleep 0.2; print time - $t >= 0.2 ? "so\n" : "not\n"; print scalar gmtime 1e9'
    check 'statuses' perl -e 'system "kill -15 \$\$"; print $? & 127, "\n"; system "/nothing"; print $?, "\n"; exec "/nothing" or print "$!\n"; exit 77'
    check 'memory' perl -e '$x = "y" x 50_000_000; print length $x; %h = map { $_ => 1 } 1..100000; print scalar keys %h'
    check 'ipc' perl -MIPC::SysV=:all -e '$q = msgget(IPC_PRIVATE, 0600 | IPC_CREAT); msgsnd $q, pack("l! a*", 5, "hi"), 0; msgrcv $q, $m, 10, 0, 0; print unpack "x[l!] a*", $m; msgctl $q, IPC_RMID, 0; $s = shmget IPC_PRIVATE, 100, 0600 | IPC_CREAT; shmwrite $s, "abc", 0, 3; shmread $s, $m, 0, 3; print $m; shmctl $s, IPC_RMID, 0'
    ;;
java)
    cat >Hello.java <<'END'
public class Hello { public static void main(String[] a) { System.out.println("hello " + String.join(",", a)); } }
END
    cat >Threads.java <<'END'
import java.util.*; import java.util.concurrent.*; import java.util.concurrent.atomic.*; import java.nio.file.*; import java.net.*; import java.io.*;
public class Threads { public static void main(String[] a) throws Exception {
  ExecutorService pool = Executors.newFixedThreadPool(8); List<Future<Long>> all = new ArrayList<>();
  for (int i = 0; i < 40; i++) { final int n = i; all.add(pool.submit(() -> { long s = 0; for (int k = 0; k < 20000; k++) s += k % (n + 1); return s; })); }
  long sum = 0; for (Future<Long> f : all) sum += f.get(); pool.shutdown(); System.out.println(sum);
  AtomicInteger n = new AtomicInteger(); Thread[] t = new Thread[20]; Object lock = new Object(); int[] plain = {0};
  for (int i = 0; i < 20; i++) { t[i] = new Thread(() -> { for (int k = 0; k < 500; k++) { n.incrementAndGet(); synchronized (lock) { plain[0]++; } } }); t[i].start(); }
  for (Thread x : t) x.join(); System.out.println(n + " " + plain[0]);
  Path p = Paths.get("file"); Files.writeString(p, "text\n"); System.out.println(Files.size(p) + Files.readString(p).trim());
  ServerSocket s = new ServerSocket(0, 5, InetAddress.getLoopbackAddress());
  Thread c = new Thread(() -> { try (Socket k = new Socket(InetAddress.getLoopbackAddress(), s.getLocalPort())) { k.getOutputStream().write("net\n".getBytes()); } catch (IOException e) { System.out.println(e); } }); c.start();
  System.out.println(new BufferedReader(new InputStreamReader(s.accept().getInputStream())).readLine());
  Process q = new ProcessBuilder("sh", "-c", "echo child; exit 3").start(); System.out.println(new String(q.getInputStream().readAllBytes()).trim() + q.waitFor());
  byte[][] garbage = new byte[100][]; for (int i = 0; i < 3000; i++) garbage[i % 100] = new byte[20000]; System.gc(); System.out.println(garbage.length);
  try { Object[] big = new Object[Integer.MAX_VALUE - 8]; System.out.println(big.length); } catch (OutOfMemoryError e) { System.out.println("out of memory"); }
  try { deep(0); } catch (StackOverflowError e) { System.out.println("stack"); }
  try { String z = null; z.length(); } catch (NullPointerException e) { System.out.println("null"); }
  Runtime.getRuntime().addShutdownHook(new Thread(() -> System.out.println("hook"))); System.exit(4); }
  static int deep(int n) { return deep(n + 1) + 1; } }
END
    check 'version' sh -c 'java -version 2>&1 | head -n 1'
    check 'compile' javac Hello.java Threads.java
    check 'hello' java Hello a b
    check 'threads' java -Xmx200m Threads
    check 'interpreted' java -Xint Hello c
    check 'collectors' sh -c 'for c in Serial Parallel G1; do java -Xmx200m -XX:+Use${c}GC Hello $c; done'
    ;;
node)
    check 'hello' node -e 'console.log("hello", 2n ** 100n)'
    check 'files' node -e 'const f = require("fs"); f.writeFileSync("a", "x".repeat(1000)); console.log(f.statSync("a").size, f.readdirSync(".")); f.promises.readFile("a").then(b => console.log(b.length))'
    check 'children' node -e 'const c = require("child_process"); console.log(c.execSync("echo hi").toString(), c.spawnSync("sh", ["-c", "exit 5"]).status); c.spawn("cat", { stdio: ["pipe", "inherit", "inherit"] }).stdin.end("piped\n")'
    check 'workers' node -e 'const w = require("worker_threads"); let n = 0; for (let i = 0; i < 3; i++) new w.Worker("require(`worker_threads`).parentPort.postMessage(7)", { eval: true }).on("message", m => { n += m; if (n == 21) console.log(n) })'
    check 'server' node -e 'const h = require("http"); const s = h.createServer((q, r) => r.end("page")).listen(0, "127.0.0.1", () => h.get({ port: s.address().port, host: "127.0.0.1" }, r => r.on("data", d => { console.log(d.toString()); s.close() })))'
    check 'timers' node -e 'setTimeout(() => console.log(2), 50); setImmediate(() => console.log(1)); process.nextTick(() => console.log(0))'
    check 'compiled' node -e 'let s = 0; for (let i = 0; i < 2e7; i++) s = (s + i * 3) | 0; console.log(s)'
    check 'wasm' node -e 'const m = new WebAssembly.Module(new Uint8Array([0,97,115,109,1,0,0,0,1,7,1,96,2,127,127,1,127,3,2,1,0,7,7,1,3,97,100,100,0,0,10,9,1,7,0,32,0,32,1,106,11])); console.log(new WebAssembly.Instance(m).exports.add(2, 3))'
    check 'signal' node -e 'process.on("SIGUSR2", () => { console.log("usr2"); process.exit(3) }); process.kill(process.pid, "SIGUSR2"); setTimeout(() => {}, 5000)'
    check 'watch' node -e 'const f = require("fs"); f.writeFileSync("w", ""); const w = f.watch("w", e => { console.log(e); w.close() }); setTimeout(() => f.appendFileSync("w", "x"), 100)'
    check 'zlib, crypto' node -e 'const z = require("zlib"); console.log(z.gunzipSync(z.gzipSync("a".repeat(9999))).length, require("crypto").createHash("sha256").update("x").digest("hex"))'
    ;;
ruby)
    check 'hello' ruby -e 'puts "hello #{2**100}"'
    check 'threads' ruby -e 'q = Queue.new; t = 5.times.map { |i| Thread.new { q << i * i } }; t.each(&:join); p q.size.times.map { q.pop }.sort'
    check 'fork' ruby -e 'r, w = IO.pipe; fork { r.close; w.puts "child"; exit! 3 }; w.close; puts r.read; Process.wait; p $?.exitstatus'
    check 'children' ruby -e 'p `echo hi`, $?.to_i; system("exit 4"); p $?.exitstatus; IO.popen("cat", "r+") { |c| c.puts "x"; c.close_write; p c.read }'
    check 'signals' ruby -e 'trap("USR1") { puts "usr1" }; Process.kill("USR1", $$); sleep 0.1; begin; Process.kill("TERM", $$); sleep 5; rescue SignalException => e; p e; end'
    check 'sockets' ruby -rsocket -e 's = TCPServer.new("127.0.0.1", 0); t = Thread.new { c = s.accept; c.puts "net"; c.close }; p TCPSocket.new("127.0.0.1", s.addr[1]).read; a, b = UNIXSocket.pair; a.send_io($stdout); b.recv_io.puts "passed"'
    check 'files' ruby -e 'File.write("f", "abc"); File.open("f", "r+") { |f| f.flock(File::LOCK_EX); f.seek(1); f.write "X"; f.truncate 2 }; p File.read("f"), File.stat("f").size, Dir.children(".").sort'
    check 'collector' ruby -e '300000.times { "x" * 100 }; GC.start; p GC.count > 0; GC.compact rescue p $!.class'
    check 'ractors' ruby -W0 -e 'p 3.times.map { |i| Ractor.new(i) { |n| n * 2 } }.map(&:take)'
    check 'jit' ruby --yjit -e 'def f(n) = n < 2 ? n : f(n - 1) + f(n - 2); p f(22)'
    check 'fibers' ruby -e 'f = Fiber.new { 3.times { |i| Fiber.yield i }; :end }; p 4.times.map { f.resume }; p 300.times.map { |i| Fiber.new { Fiber.yield; i } }.each(&:resume).map(&:resume).sum'
    check 'time limit' ruby -rtimeout -e 'begin; Timeout.timeout(0.3) { sleep 5 }; rescue Timeout::Error => e; p e.class; end'
    ;;
php)
    check 'hello' php -r 'echo "hello ", PHP_VERSION, "\n";'
    check 'work' php -r '$s = 0; for ($i = 0; $i < 1000000; $i++) $s = ($s * 31 + $i) % 1000003; echo $s;'
    check 'files' php -r 'file_put_contents("f", "abc"); $h = fopen("f", "r+"); flock($h, LOCK_EX); fseek($h, 1); fwrite($h, "X"); ftruncate($h, 2); echo file_get_contents("f"), filesize("f"), implode(",", scandir("."));'
    check 'children' php -r 'echo shell_exec("echo hi"); exec("exit 5", $o, $s); echo $s; $p = proc_open(["cat"], [["pipe", "r"], ["pipe", "w"]], $pipes); fwrite($pipes[0], "x"); fclose($pipes[0]); echo stream_get_contents($pipes[1]), proc_close($p);'
    check 'fork' php -r '$p = pcntl_fork(); if (!$p) exit(6); pcntl_waitpid($p, $s); echo pcntl_wexitstatus($s); pcntl_async_signals(true); pcntl_signal(SIGUSR1, function () { echo "usr1"; }); posix_kill(posix_getpid(), SIGUSR1);'
    check 'sockets' php -r '$s = stream_socket_server("tcp://127.0.0.1:0"); $c = stream_socket_client("tcp://" . stream_socket_get_name($s, false)); $a = stream_socket_accept($s); fwrite($a, "net\n"); echo fgets($c);'
    check 'regular expressions' php -r 'echo preg_replace("/(\d+)/e_" === 0 ?: "/(\d)(\d)/", "$2$1", "a12b345"), preg_match("/^(?<x>a+)(?=b)/", "aab", $m), $m["x"];'
    check 'compiled' php -d opcache.enable_cli=1 -d opcache.jit=tracing -d opcache.jit_buffer_size=16M -r 'function f($n) { return $n < 2 ? $n : f($n - 1) + f($n - 2); } echo f(21);'
    check 'server' sh -c 'echo "<?php echo 6 * 7;" >i.php; php -S 127.0.0.1:8082 >/dev/null 2>&1 & for i in 1 2 3 4 5 6; do sleep 1; php -r "echo file_get_contents(\"http://127.0.0.1:8082/i.php\");" 2>/dev/null && break; done; kill $!'
    ;;
esac
