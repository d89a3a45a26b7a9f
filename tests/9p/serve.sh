# On Cairn: a tree for a client whose users are believed (564), one that is user 1000's for everybody (565), and the same to be read only (566).
chmod 711 /root
mkdir -p /root/tree /root/own
chown user /root/own
echo text >/root/own/text
echo secret >/root/own/secret
chmod 600 /root/own/secret
cairn-9p --believe 0-1000,1001 tcp:564 /root/tree &
cairn-9p --user user --most 4 tcp:565 /root/own &
cairn-9p --user user --read-only tcp:566 /root/own &
until [ -e /root/tree/end ]; do sleep 0.3; done
# Three that listen: what their clients had is gone.
turn=0
while [ "$(pgrep -c cairn-9p)" != 3 ] && [ $turn -lt 100 ]; do
    turn=$((turn + 1))
    sleep 0.1
done
pgrep -c cairn-9p
kill %1 %2 %3
stat -c '%U %a %n' /root/own/made /root/own/fifo
