# if, elif, else, test, negation.
f() { if [ "$1" -lt 0 ]; then echo negative; elif [ "$1" -eq 0 ]; then echo zero; else echo positive; fi; }
f -5; f 0; f 7
if ! false; then echo not-false; fi
if true && ! false || false; then echo and-or; fi
[ -z "" ] && echo empty
[ abc = abc ] && [ abc != abd ] && echo equal
if [ -f /bin/busybox -a -x /bin/busybox ]; then echo busybox is there; fi
