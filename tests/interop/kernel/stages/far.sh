# Kernel users between two guests (rxe_peer.py): serve_USER in one, use_USER in the other, end_USER in the first. ADDRESS is
# the server's. No stage of its own.
config=/sys/kernel/config
iqn=iqn.2014-08.org.example:far
load() {
  local module
  for module; do modprobe $module; done
  [ -d $config/nvmet ] || [ -d $config/target ] || mount -t configfs none $config 2>/dev/null
}
verified() {
  local device=$1
  shift
  waits_for 10 test -b $device && timeout 200 fio --name=verified --filename=$device --direct=1 --ioengine=libaio \
    --verify=crc32c --do_verify=1 "$@"
}
# Both sizes: a request in one packet, and one in many.
verified_twice() {
  verified $1 --rw=randwrite --bs=4k --size=2M --iodepth=8 && verified $1 --rw=write --bs=128k --size=8M --iodepth=4
}

serve_nvme() {
  local subsystem=$config/nvmet/subsystems/far port=$config/nvmet/ports/7
  load brd nvmet nvmet_rdma
  mkdir $subsystem $subsystem/namespaces/1 $port && echo 1 >$subsystem/attr_allow_any_host &&
    printf /dev/ram0 >$subsystem/namespaces/1/device_path && echo 1 >$subsystem/namespaces/1/enable &&
    echo $ADDRESS >$port/addr_traddr && echo rdma >$port/addr_trtype && echo 4420 >$port/addr_trsvcid &&
    echo ipv4 >$port/addr_adrfam && ln -s $subsystem $port/subsystems/far
}
use_nvme() {
  local uuid=46460046-4646-4646-4646-464646464648 code
  load nvme_rdma
  timeout 60 nvme connect -t rdma -a $ADDRESS -s 4420 -n far -i 2 --hostnqn=nqn.2014-08.org.nvmexpress:uuid:$uuid \
    --hostid=$uuid && verified_twice /dev/nvme0n1
  code=$?
  timeout 60 nvme disconnect -n far && modprobe -r nvme_rdma && return $code
}
end_nvme() {
  rm $config/nvmet/ports/7/subsystems/far
  rmdir $config/nvmet/ports/7 $config/nvmet/subsystems/far/namespaces/1 $config/nvmet/subsystems/far
  modprobe -r nvmet_rdma
}

serve_nfs() {
  load nfsd rpcrdma nfs nfsv4
  mkdir -p /export /var/lib/nfs/v4recovery /var/lib/nfs/rpc_pipefs /run/rpcbind /var/lib/nfs/sm
  touch /var/lib/nfs/rmtab /var/lib/nfs/etab
  mount -t tmpfs export /export
  [ -e /proc/fs/nfsd/threads ] || mount -t nfsd nfsd /proc/fs/nfsd
  echo '/export *(rw,no_root_squash,fsid=0,insecure,no_subtree_check)' >/etc/exports
  printf 'udp tpi_clts v inet udp - -\ntcp tpi_cots_ord v inet tcp - -\n' >/etc/netconfig
  rpcbind -w >/dev/null 2>&1
  pidof rpc.mountd >/dev/null || rpc.mountd --no-nfs-version 3
  exportfs -a && rpc.nfsd --no-nfs-version 3 --no-udp 4 && echo rdma 20049 >/proc/fs/nfsd/portlist
}
use_nfs() {
  local code
  load rpcrdma nfs nfsv4
  mkdir -p /mnt
  timeout 60 mount.nfs $ADDRESS:/ /mnt -o rdma,port=20049,vers=4.1,hard || return 1
  grep -q 'proto=rdma' /proc/mounts && dd if=/dev/urandom of=/tmp/file bs=64k count=32 && cp /tmp/file /mnt/file && sync &&
    echo 3 >/proc/sys/vm/drop_caches && cmp /tmp/file /mnt/file &&
    timeout 200 fio --name=nfs --directory=/mnt --rw=randrw --bs=8k --size=2M --verify=crc32c --do_verify=1
  code=$?
  timeout 30 umount /mnt && return $code
}
end_nfs() {
  echo 0 >/proc/fs/nfsd/threads && exportfs -ua && umount /export
}

serve_iser() {
  local disk=$config/target/core/rd_mcp_0/far group=$config/target/iscsi/$iqn/tpgt_1 attribute
  load target_core_mod iscsi_target_mod ib_isert
  mkdir -p $disk && echo rd_pages=4096 >$disk/control && echo 1 >$disk/enable && mkdir -p $group/lun/lun_0 &&
    ln -s $disk $group/lun/lun_0/port || return 1
  for attribute in authentication=0 demo_mode_write_protect=0 generate_node_acls=1 cache_dynamic_acls=1; do
    echo ${attribute#*=} >$group/attrib/${attribute%=*} || return 1
  done
  mkdir $group/np/$ADDRESS:3260 && echo 1 >$group/np/$ADDRESS:3260/iser && echo 1 >$group/enable
}
use_iser() {
  local code pid
  load ib_iser sd_mod
  mkdir -p /etc/iscsi/nodes /etc/iscsi/send_targets /etc/iscsi/ifaces /run/lock/iscsi
  echo InitiatorName=iqn.2014-08.org.example:initiator >/etc/iscsi/initiatorname.iscsi
  setsid iscsid -f >/tmp/iscsid.log 2>&1 </dev/null &
  sleep 1
  iscsiadm -m node -o new -T $iqn -p $ADDRESS:3260,1 -I iser &&
    timeout 60 iscsiadm -m node -T $iqn -p $ADDRESS:3260,1 -I iser --login && verified_twice /dev/sda
  code=$?
  timeout 60 iscsiadm -m node -T $iqn --logout && iscsiadm -m node -o delete -T $iqn || code=1
  for pid in $(pidof iscsid); do kill $pid; done
  return $code
}
end_iser() {
  local disk=$config/target/core/rd_mcp_0/far group=$config/target/iscsi/$iqn/tpgt_1
  echo 0 >$group/enable
  rmdir $group/np/$ADDRESS:3260
  rm $group/lun/lun_0/port
  rmdir $group/lun/lun_0 $group ${group%/*} $disk ${disk%/*}
}
