# Files in the order of their times, seen by ls, find and test.
for y in 2003 2001 2002; do echo $y >f$y; touch -t ${y}01010000 f$y; done; ls -t; ls -tr; find . -type f -newer f2001 | sort; [ f2002 -nt f2001 ] && [ f2002 -ot f2003 ] && echo between; ls -l --full-time f2001 2>/dev/null | awk '{ print $6 }'; date -u -r f2002 +%F
