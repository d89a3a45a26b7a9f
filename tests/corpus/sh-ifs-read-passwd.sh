# Fields of /etc/passwd.
while IFS=: read -r name x uid gid rest; do echo "$uid $gid $name"; done </etc/passwd | sort -n
cut -d: -f1,3 /etc/passwd | sort
