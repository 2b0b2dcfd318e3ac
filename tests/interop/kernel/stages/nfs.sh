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
check "files compare" timeout 300 bash -c "$(declare -f copies); copies"
trace=/sys/kernel/tracing
[ -d $trace/events ] || mount -t tracefs none $trace
echo 1 >$trace/events/rpcrdma/xprtrdma_mr_reminv/enable
check "fio on a file, verified" timeout 200 fio --name=nfs --directory=/mnt --rw=randrw --bs=8k --size=2M --verify=crc32c --do_verify=1
# A reply invalidates the key of the client's memory (SEND with invalidate), and the client hears of it.
check "keys are invalidated by the peer" grep -q xprtrdma_mr_reminv $trace/trace
echo 0 >$trace/events/rpcrdma/xprtrdma_mr_reminv/enable

check "no call waited for its timeout" sh -c '! dmesg | grep "not responding"'
# Calls wait in the client until it has connected again.
under_load() {
  local end=$((SECONDS + SECONDS_OF_LOAD))
  fio --name=load --directory=/mnt --rw=randwrite --bs=8k --size=4M --fsync=8 --verify=crc32c --verify_backlog=64 $(as_long) || return 1
  until [ $SECONDS -ge $end ]; do copies || return 1; done
  copies
}
with_deaths "fio and copies go on, verified" timeout $((300 + SECONDS_OF_LOAD)) bash -c "$(declare -f copies as_long under_load); SECONDS_OF_LOAD=$SECONDS_OF_LOAD; under_load"
check "umount" timeout 30 umount /mnt
echo 0 >/proc/fs/nfsd/threads
check "no QP is left" waits_for 20 sh -c 'rdma res show | grep -q "qp 1 cm_id 0 mr 0"'
kernel_is_calm nfs
