# apt on an archive that is a folder: lists, dependencies, installation, removal, as root and as a user.
export LC_ALL=C DEBIAN_FRONTEND=noninteractive
mkdir -p /srv/archive /tmp/made && cd /tmp/made
for name in leaf:1 tree:1 leaf:2; do
    version=${name#*:} name=${name%:*}
    mkdir -p $name/DEBIAN $name/usr/bin; printf '#!/bin/sh\necho %s %s\n' $name $version >$name/usr/bin/$name; chmod 755 $name/usr/bin/$name
    printf 'Package: %s\nVersion: %s\nArchitecture: all\nMaintainer: x <x@x>\n' $name $version >$name/DEBIAN/control
    [ $name = leaf ] || echo 'Depends: leaf' >>$name/DEBIAN/control
    echo 'Description: x' >>$name/DEBIAN/control
    dpkg-deb --root-owner-group -b $name /srv/archive >/dev/null
done
cd /srv/archive
list() {
    for file in "$@"; do
        dpkg-deb -f $file; printf 'Filename: ./%s\nSize: %s\nSHA256: %s\n\n' $file $(stat -c %s $file) $(sha256sum $file | cut -d ' ' -f 1)
    done >Packages
}
list leaf_1_all.deb tree_1_all.deb
mv /etc/apt/sources.list /tmp/made/; echo 'deb [trusted=yes] file:/srv/archive ./' >/etc/apt/sources.list
# How far it is, and how long it took, is no answer.
quietly() { "$@" 2>&1 | tr '\r' '\n' | grep -v '^Get:\|^Fetched\|^(Reading\|^Preparing\|kB\|^debconf: delaying\|^Need to\|^Ign:\|^Hit:'; }
echo "== update"; quietly apt-get update; apt-cache policy tree | head -n 3
echo "== install"; quietly apt-get install -y tree; tree; leaf; apt-mark showauto leaf tree
echo "== a user"; su user -c 'apt-cache show tree | head -n 2; apt-get remove -y tree 2>&1 | tail -n 1'
echo "== another version, removal"; list leaf_2_all.deb tree_1_all.deb; quietly apt-get update; quietly apt-get install -y leaf tree-; leaf; dpkg -l leaf tree 2>&1 | grep '^[a-z][a-z] '
dpkg -P leaf; mv /tmp/made/sources.list /etc/apt/ && rm -r /srv/archive /tmp/made /var/lib/apt/lists/*_*
