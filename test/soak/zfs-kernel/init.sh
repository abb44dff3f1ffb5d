#!/bin/sh
# The only process of the machine: mounts what programs expect, loads ZFS, runs the trials, and ends it.
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mkdir -p /dev/shm /dev/pts
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs -o mode=1777,size=1g tmpfs /tmp
ip link set lo up
echo '127.0.0.1 localhost' >/etc/hosts
export PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb
modprobe zfs && /usr/local/bin/node /trials.mjs
echo "END $?"
sync
echo o >/proc/sysrq-trigger
sleep 60
