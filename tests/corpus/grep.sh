# grep: options, regular expressions, status, several files.
printf 'apple\nBanana\ncherry\napple pie\n' >f; printf 'apple\n' >g
grep apple f; grep -i banana f; grep -v apple f; grep -c apple f; grep -n apple f; grep -l apple f g; grep -x apple f; grep -w pie f; grep -o 'p*' f
grep -E 'an+|ch' f; grep -F 'a.p' f; grep '^a.*e$' f; grep nothing f; echo $?; grep -q apple f; echo $?; grep apple nowhere 2>/dev/null; echo $?
mkdir d; cp f d; grep -r cherry d; grep -h apple f g; grep -e cherry -e pie f; grep -A1 Banana f; grep -B1 cherry f; grep -m1 apple f
