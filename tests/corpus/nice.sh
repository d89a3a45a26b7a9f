# nice and renice.
nice; nice -n 5 nice; nice -n 10 sh -c 'nice -n 3 nice'; nice -n 19 sh -c 'nice -n 5 nice'; nice sh -c 'exit 9'; echo $?
