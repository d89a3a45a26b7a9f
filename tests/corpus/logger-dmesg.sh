# hostname, domain-less: names of the system.
cat /etc/hostname; hostname x.example 2>/dev/null; hostname; hostname cairn; uname -n; [ "$(uname -r)" ] && echo release; arch
