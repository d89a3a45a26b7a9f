# The servers of the root and of this disk are killed again and again for $1 seconds, at any entry, while $2 workers work on both. Says at the end what happened.
# What was put into the root at boot is not to be lost.
sync
. /restart/lib.sh
worker=0
while [ $worker -lt "$2" ]; do
    worker=$((worker + 1))
    case $((worker % 2)) in 0) place=/root ;; 1) place=$PWD ;; esac
    python3 /restart/worker.py "$place/worker-$worker" "$1" $worker &
done
end=$((SECONDS + $1)) kills=0
while [ $SECONDS -lt $end ]; do
    for name in ext4-vda ext4-vdb; do
        killed $name $((RANDOM % 1000)); kills=$((kills + 1)); sleep 1.$((RANDOM % 10))
    done
done
wait
echo "$kills kills"
echo END
