# The device appears, and the tools list it.
for module in ib_uverbs rdma_cm rdma_ucm ib_umad; do modprobe $module; done
check "insmod" insmod /share/rrdma.ko
check "rdma link add" rdma link add rrdma0 type rrdma netdev eth0
check "port down without a daemon" port_is DOWN
check "rrdmad --kernel" start_daemon
check "rdma res show" sh -c 'rdma res show | grep -q "rrdma0: pd 1 cq 1 qp 1"'
check "ibv_devinfo" sh -c 'ibv_devinfo -d rrdma0 | grep -q PORT_ACTIVE'
check "ibstat" sh -c 'ibstat rrdma0 | grep -q "State: Active"'
check "mode of /dev/rrdma" sh -c '[ "$(stat -c %a /dev/rrdma)" = 600 ]'
kernel_is_calm device
