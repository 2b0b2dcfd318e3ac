# NVMe over Fabrics: target and host are both the kernel's, on this device. Then the daemon dies under load.
modprobe nvmet_rdma ${NVMET_OPTIONS:-}
for module in brd nvmet nvme_rdma; do modprobe $module; done
[ -d /sys/kernel/config/nvmet ] || mount -t configfs none /sys/kernel/config
config=/sys/kernel/config/nvmet
target() {
  mkdir $config/subsystems/rrdma $config/subsystems/rrdma/namespaces/1 $config/ports/1 &&
    echo 1 >$config/subsystems/rrdma/attr_allow_any_host &&
    printf /dev/ram0 >$config/subsystems/rrdma/namespaces/1/device_path &&
    echo 1 >$config/subsystems/rrdma/namespaces/1/enable &&
    echo $ADDRESS >$config/ports/1/addr_traddr &&
    echo rdma >$config/ports/1/addr_trtype &&
    echo 4420 >$config/ports/1/addr_trsvcid &&
    echo ipv4 >$config/ports/1/addr_adrfam &&
    ln -s $config/subsystems/rrdma $config/ports/1/subsystems/rrdma
}
# Without a block device fio would make a file of that name.
verified() { test -b /dev/nvme0n1 && timeout $((200 + SECONDS_OF_LOAD)) fio --name=verified --filename=/dev/nvme0n1 --direct=1 --ioengine=libaio --verify=crc32c --do_verify=1 "$@"; }
check "nvmet" target
uuid=46460046-4646-4646-4646-464646464646
check "nvme connect" timeout 60 nvme connect -t rdma -a $ADDRESS -s 4420 -n rrdma -i 2 --reconnect-delay=2 \
  --ctrl-loss-tmo=60 --hostnqn=nqn.2014-08.org.nvmexpress:uuid:$uuid --hostid=$uuid
check "block device" waits_for 5 test -b /dev/nvme0n1
check "fio, 4 KiB, random, verified" verified --rw=randwrite --bs=4k --size=4M --iodepth=8
check "fio, 128 KiB, verified" verified --rw=write --bs=128k --size=8M --iodepth=4

# Requests wait in the host until it has connected again.
with_deaths "fio goes on, verified" verified --rw=randwrite --bs=16k --size=8M --iodepth=4 --verify_backlog=64 $(as_long)
check "nvme disconnect" timeout 60 nvme disconnect -n rrdma
rm $config/ports/1/subsystems/rrdma
rmdir $config/ports/1 $config/subsystems/rrdma/namespaces/1 $config/subsystems/rrdma
check "no QP is left" waits_for 20 sh -c 'rdma res show | grep -q "qp 1 cm_id 0 mr 0"'
check "modprobe -r" sh -c 'modprobe -r nvme_rdma; modprobe -r nvmet_rdma; ! lsmod | grep -q _rdma.*rdma_cm'
kernel_is_calm nvme
