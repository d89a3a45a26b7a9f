# find by size, permission, links, newer, empty.
head -c 5000 /dev/zero >big; echo x >small; : >empty; mkdir hollow; chmod 600 small; ln big big2
find . -type f -size +1k | sort; find . -empty | sort; find . -perm 600; find . -links 2 -type f | sort
touch -t 202001010000 old; touch -t 202002010000 mark; find . -type f -newer mark ! -name old | sort
find . -type f -not -newer mark | sort; find . -user root -maxdepth 1 | wc -l
