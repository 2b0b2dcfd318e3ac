# Figures beside the kernel's rxe in the same guest. Runs after `remove`. A line "figure NAME DEVICE VALUE UNIT" for each; ratios are for the reader, the guest may be emulated.
RUNS=${RUNS:-3}
config=/sys/kernel/config/nvmet
for module in ib_uverbs rdma_cm rdma_ucm ib_umad brd nvmet nvmet_rdma nvme_rdma; do modprobe $module; done
[ -d $config ] || mount -t configfs none /sys/kernel/config

# perftest PROGRAM COLUMN OPTIONS...: prints that column of the client's line of figures.
perftest() {
  local program=$1 column=$2 server
  shift 2
  timeout 100 $program -d $DEVICE -x 1 -F "$@" >/tmp/server.log 2>&1 &
  server=$!
  sleep 2
  timeout 90 $program -d $DEVICE -x 1 -F "$@" localhost >/tmp/client.log 2>&1
  wait $server
  awk -v column=$column '/^ [0-9]+ +[0-9]+ / { print $column }' /tmp/client.log
}
# The middle one of the runs.
middle() { sort -n | awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] }'; }
figure() {
  local name=$1 unit=$2 value
  shift 2
  value=$(for run in $(seq $RUNS); do "$@"; done | middle)
  if [ -n "$value" ]; then echo "figure $name $DEVICE $value $unit"; else
    failed "$name on $DEVICE"
    tail -n 3 /tmp/client.log /tmp/server.log
  fi
}
connect_nvme() {
  mkdir $config/subsystems/figures $config/subsystems/figures/namespaces/1 $config/ports/1
  echo 1 >$config/subsystems/figures/attr_allow_any_host
  printf /dev/ram0 >$config/subsystems/figures/namespaces/1/device_path
  echo 1 >$config/subsystems/figures/namespaces/1/enable
  echo $ADDRESS >$config/ports/1/addr_traddr
  echo rdma >$config/ports/1/addr_trtype
  echo 4420 >$config/ports/1/addr_trsvcid
  echo ipv4 >$config/ports/1/addr_adrfam
  ln -s $config/subsystems/figures $config/ports/1/subsystems/figures
  uuid=46460046-4646-4646-4646-464646464647
  timeout 60 nvme connect -t rdma -a $ADDRESS -s 4420 -n figures -i 2 \
    --hostnqn=nqn.2014-08.org.nvmexpress:uuid:$uuid --hostid=$uuid && waits_for 5 test -b /dev/nvme0n1
}
disconnect_nvme() {
  timeout 60 nvme disconnect -n figures
  rm $config/ports/1/subsystems/figures
  rmdir $config/ports/1 $config/subsystems/figures/namespaces/1 $config/subsystems/figures
}
fio_iops() {
  timeout 60 fio --name=figures --filename=/dev/nvme0n1 --direct=1 --ioengine=libaio --rw=randread --bs=4k \
    --iodepth=$1 --size=4M --time_based --runtime=8 --output-format=terse >/tmp/client.log 2>/tmp/server.log
  awk -F ';' '{ print $8 }' /tmp/client.log
}
figures() {
  figure ib_send_lat_8B us perftest ib_send_lat 6 -s 8 -n 1000
  figure ib_write_bw_64KiB MiB/s perftest ib_write_bw 4 -s 65536 -n 500
  check "nvme connect on $DEVICE" connect_nvme
  figure fio_4KiB_randread_depth_1 IOPS fio_iops 1
  figure fio_4KiB_randread_depth_16 IOPS fio_iops 16
  check "nvme disconnect on $DEVICE" disconnect_nvme
}

take_rrdma
DEVICE=rrdma0
figures
take_rxe
DEVICE=rxe0
figures
drop_rxe
kernel_is_calm figures
