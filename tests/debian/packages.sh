# dpkg: packages made, installed, configured with all their scripts, verified, removed, purged; scripts that fail; alternatives, diversions, triggers; unpacked packages configured later.
export LC_ALL=C DEBIAN_FRONTEND=noninteractive
cd /tmp && mkdir -p made && cd made
# A package of this name and version, whose scripts say what they are told; further lines of its control file are standard input.
package() {
    mkdir -p $1/DEBIAN $1/etc $1/usr/bin $1/usr/share/$1
    printf 'Package: %s\nVersion: %s\nArchitecture: all\nMaintainer: x <x@x>\nDescription: x\n' $1 $2 >$1/DEBIAN/control; cat >>$1/DEBIAN/control
    for script in preinst postinst prerm postrm; do
        printf '#!/bin/sh\nset -e\necho "%s of $DPKG_MAINTSCRIPT_PACKAGE: $*"\n' $script >$1/DEBIAN/$script; chmod 755 $1/DEBIAN/$script
    done
    printf '#!/bin/sh\necho %s %s\n' $1 $2 >$1/usr/bin/$1-$2; echo setting=$2 >$1/etc/$1.conf; echo /etc/$1.conf >$1/DEBIAN/conffiles
    chmod 755 $1/usr/bin/$1-$2
}
build() { dpkg-deb --root-owner-group -b $1 . >/dev/null; }
state() { dpkg-query -W -f '${db:Status-Abbrev}|${Package} ${Version}\n' "$@"; }
package one 1 </dev/null
cat >>one/DEBIAN/postinst <<'end'
[ "$1" != configure ] || { useradd --system --no-create-home oneuser; install -d -o oneuser -m 750 /var/lib/one; update-alternatives --install /usr/bin/it it /usr/bin/one-1 5; }
end
cat >>one/DEBIAN/prerm <<'end'
update-alternatives --remove it /usr/bin/one-1
end
cat >>one/DEBIAN/postrm <<'end'
[ "$1" != purge ] || { rm -rf /var/lib/one; userdel oneuser; }
end
printf 'interest-noawait /usr/share/two\nactivate-noawait nobody\n' >one/DEBIAN/triggers
chmod 4755 one/usr/bin/one-1; build one
echo 'Depends: one' | package two 1; echo data >two/usr/share/two/file; build two
echo "== install"
dpkg -i two_1_all.deb 2>&1 | grep -v 'Reading\|Preparing'; state one two
dpkg -i one_1_all.deb 2>&1 | grep -v Reading; dpkg --configure -a; state one two; dpkg -l two | tail -n 1 | tr -s ' '; dpkg -V one two && echo verified
stat -c '%a %U:%G %n' /var/lib/one /usr/bin/one-1 /etc/one.conf; it; readlink /usr/bin/it /etc/alternatives/it; update-alternatives --query it
echo "== triggers, reinstallation, changes"
dpkg -i two_1_all.deb 2>&1 | grep -i trigger; echo mine >>/etc/one.conf; echo x >>/usr/share/two/file; dpkg -V one two; dpkg -S /usr/bin/one-1; dpkg -L two
echo "== upgrade"
rm one/usr/bin/one-1; package one 2 </dev/null; echo 'interest-noawait /usr/share/two' >one/DEBIAN/triggers; build one; dpkg -i --force-confold one_2_all.deb 2>&1 | grep -v Reading; cat /etc/one.conf; ls /etc/one.conf*; ls /usr/bin/one*
echo "== a script fails"
echo 'exit 3' >>two/DEBIAN/postinst; build two; dpkg -i two_1_all.deb 2>&1 | tail -n 3; state two; dpkg --audit | tail -n 1 | cut -c 1-5
dpkg --configure -a 2>&1 | tail -n 2; sed -i '$d' /var/lib/dpkg/info/two.postinst; dpkg --configure two; state two
echo "== removal"
dpkg -r one 2>&1 | tail -n 2; dpkg -r two one 2>&1 | grep -v Reading; state one two 2>&1; dpkg -P one two 2>&1 | grep -v Reading; state one two 2>&1; getent passwd oneuser; ls /etc/one.conf /usr/bin/it 2>&1
echo "== packages that were unpacked only"
dpkg-divert --local --rename --add /usr/bin/bzcmp; dpkg-divert --list '/usr/bin/bz*'; ls /usr/bin/bzcmp* 2>&1; dpkg-divert --rename --remove /usr/bin/bzcmp
for name in base-passwd debianutils gawk libc-bin less sudo tzdata; do
    sed -i "/^Package: $name\$/,/^\$/s/^Status: .*/Status: install ok unpacked/" /var/lib/dpkg/status
done
state base-passwd less libc-bin sudo; dpkg --configure -a 2>&1 | grep -v '^update-alternatives: warning\|invoke-rc.d\|is now: ' | sort; state base-passwd less libc-bin sudo; dpkg --audit
update-alternatives --get-selections | sort; readlink -f /usr/bin/awk /usr/bin/pager; cat /etc/timezone
cd /tmp && rm -r made
