# iSER: target (LIO) and initiator (open-iscsi) are both the kernel's, on this device.
for module in target_core_mod iscsi_target_mod ib_isert ib_iser sd_mod; do modprobe $module; done
[ -d /sys/kernel/config/target ] || mount -t configfs none /sys/kernel/config
iqn=iqn.2014-08.org.example:rrdma
disk=/sys/kernel/config/target/core/rd_mcp_0/rrdma
group=/sys/kernel/config/target/iscsi/$iqn/tpgt_1
target() {
  local attribute
  mkdir -p $disk && echo rd_pages=4096 >$disk/control && echo 1 >$disk/enable &&
    mkdir -p $group/lun/lun_0 && ln -s $disk $group/lun/lun_0/port || return 1
  for attribute in authentication=0 demo_mode_write_protect=0 generate_node_acls=1 cache_dynamic_acls=1; do
    echo ${attribute#*=} >$group/attrib/${attribute%=*} || return 1
  done
  mkdir $group/np/$ADDRESS:3260 && echo 1 >$group/np/$ADDRESS:3260/iser && echo 1 >$group/enable
}
initiator() {
  mkdir -p /etc/iscsi/nodes /etc/iscsi/send_targets /etc/iscsi/ifaces /run/lock/iscsi
  echo InitiatorName=iqn.2014-08.org.example:initiator >/etc/iscsi/initiatorname.iscsi
  setsid iscsid -f >/tmp/iscsid.log 2>&1 </dev/null &
  sleep 1
  iscsiadm -m node -o new -T $iqn -p $ADDRESS:3260,1 -I iser &&
    timeout 60 iscsiadm -m node -T $iqn -p $ADDRESS:3260,1 -I iser --login
}
verified() { test -b /dev/sda && timeout $((200 + SECONDS_OF_LOAD)) fio --name=verified --filename=/dev/sda --direct=1 --ioengine=libaio --verify=crc32c --do_verify=1 "$@"; }
check "target" target
check "login" initiator
check "block device" waits_for 10 test -b /dev/sda
check "it is iSER" sh -c 'iscsiadm -m session | grep -q "^iser:"'
check "fio, 4 KiB, random, verified" verified --rw=randwrite --bs=4k --size=4M --iodepth=8
check "fio, 128 KiB, verified" verified --rw=write --bs=128k --size=8M --iodepth=4
with_deaths "fio goes on, verified" verified --rw=randwrite --bs=16k --size=8M --iodepth=4 --verify_backlog=64 $(as_long)
check "logout" timeout 60 iscsiadm -m node -T $iqn --logout
for pid in $(pidof iscsid); do kill $pid; done
echo 0 >$group/enable
rmdir $group/np/$ADDRESS:3260
rm $group/lun/lun_0/port
rmdir $group/lun/lun_0 $group ${group%/*} $disk ${disk%/*}
check "no QP is left" waits_for 20 sh -c 'rdma res show | grep -q "qp 1 cm_id 0 mr 0"'
kernel_is_calm iser
