# Programs with privilege: su, sudo, passwd, newgrp, sg, chsh, login, and those that keep accounts; owners and modes as the packages have them; dpkg's records.
export LC_ALL=C
cd /; stat -c '%a %u:%g %n' etc/{passwd,shadow,gshadow,sudoers} var/{mail,local,log/{wtmp,btmp,lastlog}} run/utmp home/user
find usr etc home root -xdev \( -perm /6000 -o ! -user 0 -o ! -group 0 \) -printf '%m %u:%g %p\n' | sort -k 3
dpkg -L sudo | grep -E 'bin/|sudoers$'; dpkg -S /usr/bin/sudo /etc/sudoers; dpkg -l bash sudo | tail -n 2 | cut -c 1-9; dpkg --verify bash sudo passwd; which poweroff login
# What this script changes of the accounts is put back at its end.
mkdir /root/kept && cp -a /etc/passwd /etc/shadow /etc/group /etc/gshadow /etc/subuid /etc/subgid /root/kept
printf 'root:secret\nuser:word\n' | chpasswd -c SHA512 -s 1000; stat -c '%a %U:%G' /etc/shadow
echo "== su"
su -c 'id; echo $HOME' user; su - user -c 'id; pwd'
su user -c 'echo secret | su -c id'; echo $?
su user -c 'echo wrong | su -c id'; echo $?
su user -c 'cat /etc/shadow; echo x >/etc/passwd'; echo $?
echo "== sudo"
sudo -u user id; su user -c 'echo word | sudo -S -p "" id'; su user -c 'sudo -n id'; echo $?
echo 'user ALL=(ALL) NOPASSWD: /usr/bin/whoami, /usr/bin/env' >/etc/sudoers.d/test
su user -c 'sudo whoami; sudo -n id; LD_PRELOAD=x HIDDEN=1 sudo env' | grep -E '^(root|HIDDEN|LD_|SUDO_U|USER)' | sort
su user -c 'sudo -l | tail -n 2'; visudo -cf /etc/sudoers; rm /etc/sudoers.d/test
echo "== passwd"
su user -c 'printf "word\nNewer-Word7\nNewer-Word7\n" | passwd'; echo $?
passwd -S user | cut -d ' ' -f 1,2; chage -l user | tail -n 3
echo "== groups and shells"
su user -c 'printf "id -g\n" | newgrp sudo'; su user -c 'sg sudo "id -gn"'
su user -c 'echo Newer-Word7 | chsh -s /bin/sh'; chsh -s /bin/dash user; getent passwd user
groupadd team; useradd -m -G team bob; su bob -c 'id; pwd; ls -A ~'; gpasswd -a user team; id -Gn user; userdel -rf bob 2>/dev/null; groupdel team; getent group team; echo $?
echo "== capabilities of files"
cp /usr/bin/cat /usr/local/bin/reads; setcap cap_dac_override+ep /usr/local/bin/reads; getcap /usr/local/bin/reads
su user -c 'reads /etc/shadow | head -c 5; cat /etc/shadow; setcap -r /usr/local/bin/reads 2>&1 | tail -c 24'; setcap -v cap_dac_override+ep /usr/local/bin/reads
mv /usr/local/bin/reads /usr/local/bin/other; getcap /usr/local/bin/other; echo >>/usr/local/bin/other; getcap /usr/local/bin/other; rm /usr/local/bin/other
echo "== login"
printf 'id; stat -c "%%a %%U:%%G" $(tty); exit\n' >/tmp/login.in
(cat /tmp/login.in; sleep 1) | script -qec 'login -f user' /dev/null | tr -d '\r' | grep -E '^(uid|6)'; lastlog -u user | tail -n 1 | grep -c user; rm /tmp/login.in
cp -a /root/kept/* /etc/ && rm -r /root/kept
