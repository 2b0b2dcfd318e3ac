# Daemons that die or lie at a chosen moment; the next one serves.
kill -9 $(daemon_pid)
check "port down" waits_for 10 port_is DOWN
timeout 120 /share/dying rrdma0 >/tmp/dying.log 2>&1
code=$?
cat /tmp/dying.log
[ $code -eq 0 ] || failed "dying daemons (exit code $code)"
check "an honest daemon afterwards" start_daemon
pair "ibv_rc_pingpong afterwards" "ibv_rc_pingpong -g 1 -n 100 -c" "ibv_rc_pingpong -g 1 -n 100 -c localhost"
pair "rping afterwards" "rping -s -a $ADDRESS -C 5 -V" "rping -c -a $ADDRESS -C 5 -V"
check "nothing is left" waits_for 40 sh -c 'rdma res show | grep -q "qp 1 cm_id 0 mr 0 ctx 0 srq 0"'
kernel_is_calm dying
