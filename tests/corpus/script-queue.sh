# A work queue: three consumers take jobs from one folder by renaming; each job is done once.
mkdir q done; for i in $(seq 1 30); do echo $i >q/$i; done
for w in 1 2 3; do (for j in q/*; do mv $j done/${j#q/}.$w 2>/dev/null; done) & done; wait; ls q | wc -l; ls done | wc -l; cat done/* | sort -n | md5sum; rm -r done
