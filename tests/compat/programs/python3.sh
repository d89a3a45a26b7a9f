# Modules of CPython's own tests, as Debian packages them: a case is a test. Arguments: [--user] modules. With `--user` they run as user 1000.
. /compat/common.sh
# Where sem_open keeps its files. The Linux here does not mount it, and multiprocessing would be skipped as a whole.
[ -d /dev/shm ] || { mkdir /dev/shm && mount -t tmpfs -o mode=1777 tmpfs /dev/shm; }
cat >runner.py <<'END'
import faulthandler, os, sys, unittest
from test import support
# As without `-u`: nothing that needs a network, much memory or a long time.
support.use_resources = []
lines = os.fdopen(os.dup(1), "w", buffering=1)

class Result(unittest.TestResult):
    def say(self, test, result):
        if os.getpid() == owner:
            lines.write("%s: %s\n" % (test.id().replace(": ", ":"), result))
    def startTest(self, test):
        super().startTest(test)
        self.failed = False
        sys.stderr.write("== %s\n" % test.id())
        sys.stderr.flush()
    def addSuccess(self, test):
        if not self.failed: self.say(test, "ok")
    def wrong(self, test, result, why):
        self.failed = True
        self.say(test, result)
        sys.stderr.write(self._exc_info_to_string(why, test))
        sys.stderr.flush()
    def addError(self, test, why): self.wrong(test, "error", why)
    def addFailure(self, test, why): self.wrong(test, "failed", why)
    def addSkip(self, test, reason): self.say(test, "skipped")
    def addExpectedFailure(self, test, why): self.say(test, "failed as expected")
    def addUnexpectedSuccess(self, test): self.say(test, "ok against expectation")
    def addSubTest(self, test, sub, why):
        if why is not None: self.wrong(test, "failed", why)

def main():
    global owner
    owner = os.getpid()
    faulthandler.dump_traceback_later(1500, exit=True)
    loader = unittest.TestLoader()
    suite = unittest.TestSuite()
    try:
        for name in sys.argv[1:]: suite.addTests(loader.loadTestsFromName("test." + name))
    except unittest.SkipTest as why:
        lines.write("%s: skipped as a whole\n" % name)
    suite.run(Result())

# multiprocessing's children import this file, and must not run the tests once more.
if __name__ == "__main__": main()
END
as=()
if [ "$1" = --user ]; then
    shift
    as=(setpriv --reuid=1000 --regid=1000 --init-groups)
fi
for module; do
    mkdir -p "$module"
    [ ${#as[@]} = 0 ] || chown 1000:1000 "$HOME" "$module"
    (cd "$module" && timeout -k 5 1560 "${as[@]}" python3 ../runner.py "$module" >../said </dev/null)
    echo "$module (the whole): status $?"
    # What tests print themselves is no case.
    grep -E '^[A-Za-z_][^ ]*( \([^)]*\))?: (ok|error|failed|skipped)' said | sort -u
done
