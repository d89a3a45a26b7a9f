# Read a configuration, change it with sed, read it again.
cat >conf <<'END'
# comment
name = cairn
port=80

path = /usr/bin  # trailing
END
get() { sed -n "s/^ *$1 *= *\([^#]*[^# ]\).*/\1/p" conf; }
for k in name port path; do echo "$k:$(get $k)"; done; sed -i 's/^port=.*/port=8080/' conf; get port; grep -vc '^ *\(#\|$\)' conf
