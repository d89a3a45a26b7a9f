# On Linux: $1 is the port of its host that leads to the server. What the disk of this machine gives is printed first, then what the server gives.
busybox ip link set eth0 up
busybox ip address add 10.0.2.15/24 dev eth0
chmod 711 /root
mkdir -p /root/here /mnt/there
python3 /9p/client.py /root/here || exit 1
echo there
options=trans=tcp,version=9p2000.L,port=$1,access=user
turn=0
until mount -t 9p -o $options 10.0.2.2 /mnt/there 2>/tmp/why; do
    turn=$((turn + 1))
    [ $turn -gt 100 ] && { cat /tmp/why; exit 1; }
    sleep 1
done
python3 /9p/client.py /mnt/there
touch /mnt/there/end
umount /mnt/there
