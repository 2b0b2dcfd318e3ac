# The device goes while a program has it open; then the module goes.
timeout 60 ibv_rc_pingpong -g 1 >/dev/null 2>&1 &
program=$!
sleep 1.5
check "rings are listed" grep -q rrdma_make_ring /proc/vmallocinfo
check "rdma link delete" timeout 20 rdma link delete rrdma0
check "no device is left" sh -c '[ -z "$(rdma link)" ]'
kill $program
wait $program
check "the daemon ends" waits_for 10 no_daemon
check "no ring is left" sh -c '! grep rrdma_make_ring /proc/vmallocinfo'
check "rmmod" waits_for 10 rmmod rrdma
kernel_is_calm remove
