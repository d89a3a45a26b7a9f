# Long argument lists and environments.
set -- $(seq 1 5000); echo $#; /bin/echo "$@" | wc -c
big=$(head -c 100000 /dev/zero | tr '\0' x); echo ${#big}; export big; sh -c 'echo ${#big}'
/bin/echo $(seq 1 15000) | md5sum
