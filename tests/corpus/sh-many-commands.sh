# A thousand short commands in a row.
i=0; while [ $i -lt 300 ]; do /bin/true || echo bad; i=$((i + 1)); done; echo $i
i=0; while [ $i -lt 200 ]; do echo $i | cat >/dev/null || echo bad; i=$((i + 1)); done; echo $i
