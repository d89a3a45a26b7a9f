# A folder of 3,000 files: make, count, list in order, remove half, rename.
mkdir d; cd d; seq 1 3000 | xargs touch; ls | wc -l; ls | sort -n | head -n 3; seq 1 2 3000 | xargs rm; ls | wc -l; for i in 2 4 6; do mv $i r$i; done; ls | grep r | sort; cd ..; find d -type f | wc -l; rm -r d; ls
