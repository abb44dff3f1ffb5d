#!/bin/bash
# Builds in the current folder a Debian 12 with a kernel and ZFS for it (`root`), which takes about eight minutes. Node is copied from here.
set -e
# What is mounted is seen by this script only: nobody who removes the folder gets into /dev.
[ -n "$MOUNTS_APART" ] || MOUNTS_APART=yes exec unshare --mount --propagation private bash "$0"
debootstrap --variant=minbase --components=main,contrib \
  --include=linux-image-cloud-amd64,linux-headers-cloud-amd64,kmod,procps,iproute2,ca-certificates \
  bookworm root ${DEBIAN_MIRROR:+"$DEBIAN_MIRROR"}
mount -t proc proc root/proc
mount -t sysfs sysfs root/sys
mount --bind /dev root/dev
printf '#!/bin/sh\nexit 101\n' >root/usr/sbin/policy-rc.d
chmod 755 root/usr/sbin/policy-rc.d
# The module is built for the kernel of the machine, not for that of the host.
DEBIAN_FRONTEND=noninteractive chroot root apt-get install -qy --no-install-recommends zfs-dkms zfsutils-linux postgresql-15
find root/lib/modules -name 'zfs.ko*' | grep -q . || {
  tail -50 root/var/lib/dkms/zfs/*/build/make.log
  exit 1
}
cp "$(command -v node)" root/usr/local/bin/node
