# A work queue: producers and consumers over a FIFO with a lock.
mkfifo q; : >done
for w in 1 2 3; do (while flock q.lock sh -c 'read -r job <&3 && echo "$job" >job.'$w' ' 3<&0; do echo "$(cat job.$w)" >>done; done <q) & done 2>/dev/null
seq 1 30 >q; wait; sort -n done | md5sum; wc -l <done; rm -f q q.lock job.*
