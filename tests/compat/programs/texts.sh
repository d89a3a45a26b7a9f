# sed, grep, awk, sort and their kin over texts: a case is a command. Argument: which of them.
. /compat/common.sh
seq 1 500 >numbers
awk 'BEGIN { for (i = 0; i < 400; i++) printf "%c%c %d %s\n", 97 + i % 26, 65 + (i * 7) % 26, i * 37 % 101, (i % 3 ? "even" : "odd") }' >table
printf 'one\ntwo words\n\n\tindented\nlast without end' >short
head -c 20000 /dev/zero | tr '\0' x >long
case $1 in
sed)
    check 'substitute' sed 's/\([0-9]\)\([0-9]\)/\2\1/g' numbers
    check 'extended' sed -E 's/^([a-z])([A-Z]) ([0-9]+)/\3:\2:\1/;t;d' table
    check 'delete' sed '/[13579]$/d' numbers
    check 'ranges' sed -n '/^10$/,/^2.$/p;100,+5p;0~50p' numbers
    check 'hold' sed -n '1!G;h;$p' numbers
    check 'join' sed ':a;N;$!ba;s/\n/,/g' numbers
    check 'append' sed -e '2i before' -e '3a after' -e '4c changed' short
    check 'translate' sed 'y/abc/xyz/' table
    cp numbers copy
    check 'in place' sed -i.old 's/^/# /' copy
    check 'in place, after' cmp copy.old numbers
    check 'write' sed -n '/5/w fives' numbers
    check 'write, after' cat fives
    check 'execute' sed -n '1e echo from a shell' numbers
    check 'no file' sed p nowhere
    check 'wrong' sed 's/a/' numbers
    check 'many files' sed -s -n '$=' numbers table short
    check 'nul' sed -z 's/\n/+/g' numbers
    check 'quit' sed 10q5 numbers
    ;;
grep)
    check 'fixed' grep -F 'odd' table
    check 'none' grep zebra table
    check 'count' grep -c '^a' table
    check 'extended' grep -E '^(a|b)[A-M] [0-9]{2} ' table
    check 'perl' grep -P '(?<= )\d{3}(?= odd)' table
    check 'perl, only' grep -oP '\b(\d)\1\b' numbers
    check 'context' grep -n -A2 -B1 '^100$' numbers
    check 'back reference' grep -E '^(.)\1$' numbers
    check 'invert' grep -vc 1 numbers
    check 'recursive' grep -r --include='n*' 499 .
    check 'list' grep -l odd table numbers
    check 'binary' grep -c x /bin/true
    check 'words' grep -w even table
    check 'quiet' grep -q 500 numbers
    check 'no file' grep x nowhere
    check 'a folder' grep x .
    check 'wrong' grep '\(' numbers
    check 'long line' grep -c xxxx long
    seq 100 150 >patterns
    check 'patterns' grep -Fxf patterns numbers
    ;;
esac
