# Eight processes make, rename, link and remove in one folder and in each other's.
# cairn-test: limit=600
mkdir all
one() {
    n=0
    while [ $n -lt 60 ]; do
        echo "$1 $n" >"all/$1-$n"; ln "all/$1-$n" "all/l$1-$n"; mv "all/$1-$n" "all/same-$((n % 7))"
        mkdir "all/d$1-$n" && mv "all/l$1-$n" "all/d$1-$n/x" && [ $((n % 3)) = 0 ] && rm -r "all/d$1-$n"
        rm -f "all/same-$(((n + $1) % 7))"
        n=$((n + 1))
    done
}
for p in 1 2 3 4 5 6 7 8; do one $p & done; wait
find all -type d -name 'd*' | wc -l; find all -name x | xargs cat | sort | sha256sum; find all -name 'l*' | wc -l
# Which of these are left depends on who came last; one is in any case, and each has its one line.
echo last >all/same-last; find all -name 'same-*' | while read -r f; do wc -l <"$f"; done | sort -u | head -n 1
rm -rf all; ls -A
append() { n=0; while [ $n -lt 200 ]; do echo "$1 line $n"; n=$((n + 1)); done >>log; }
for p in 1 2 3 4 5 6 7 8; do append $p & done; wait; sort log | sha256sum; wc -l <log; rm log
