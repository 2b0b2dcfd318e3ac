# NFS over RDMA: server and client are both the kernel's, on this device.
for module in nfsd rpcrdma nfs nfsv4; do modprobe $module; done
mkdir -p /export /mnt /var/lib/nfs/v4recovery /var/lib/nfs/rpc_pipefs /proc/fs/nfsd /run/rpcbind /var/lib/nfs/sm
touch /var/lib/nfs/rmtab /var/lib/nfs/etab
mount -t tmpfs export /export
[ -e /proc/fs/nfsd/threads ] || mount -t nfsd nfsd /proc/fs/nfsd
echo '/export *(rw,no_root_squash,fsid=0,insecure,no_subtree_check)' >/etc/exports
printf 'udp tpi_clts v inet udp - -\ntcp tpi_cots_ord v inet tcp - -\nudp6 tpi_clts v inet6 udp - -\ntcp6 tpi_cots_ord v inet6 tcp - -\n' >/etc/netconfig
rpcbind -w >/dev/null 2>&1
check "exportfs" exportfs -a
check "rpc.nfsd" rpc.nfsd --no-nfs-version 3 --no-udp 4
check "rpc.mountd" rpc.mountd --no-nfs-version 3
check "nfsd on RDMA" sh -c 'echo rdma 20049 >/proc/fs/nfsd/portlist'
check "mount" timeout 60 mount.nfs $ADDRESS:/ /mnt -o rdma,port=20049,vers=4.1,hard
check "it is RDMA" grep -q 'proto=rdma' /proc/mounts
copies() {
  local i
  for i in 1 2 3 4; do
    dd if=/dev/urandom of=/tmp/file$i bs=64k count=$((i * 8)) 2>/dev/null
    cp /tmp/file$i /mnt/file$i || return 1
  done
  sync
  echo 3 >/proc/sys/vm/drop_caches
  for i in 1 2 3 4; do cmp /tmp/file$i /mnt/file$i && cmp /tmp/file$i /export/file$i || return 1; done
}
check "files compare" timeout 120 bash -c "$(declare -f copies); copies"
check "fio on a file, verified" timeout 200 fio --name=nfs --directory=/mnt --rw=randrw --bs=8k --size=2M --verify=crc32c --do_verify=1
check "umount" timeout 30 umount /mnt
echo 0 >/proc/fs/nfsd/threads
check "no QP is left" waits_for 20 sh -c 'rdma res show | grep -q "qp 1 cm_id 0 mr 0"'
kernel_is_calm nfs
