# case: patterns, alternatives, classes, fall to *.
kind() { case $1 in [0-9]) echo digit;; [a-z]*) echo word;; -?|--*) echo option;; '') echo empty;; *.c|*.h) echo source;; *) echo other;; esac; }
for a in 5 hello -x --long '' X.c '*' '[' 55; do kind "$a"; done
case "a b" in "a b") echo quoted;; esac
case abc in *b*) echo inside;; esac
