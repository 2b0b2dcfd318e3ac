# A program takes all mappings of the daemon. It is refused; the daemon lives, and serves the next program.
before=$(cat /proc/sys/vm/max_map_count)
kill -9 $(daemon_pid)
check "port down" waits_for 10 port_is DOWN
echo 2000 >/proc/sys/vm/max_map_count
check "a daemon that may have 2,000 mappings" start_daemon
pid=$(daemon_pid)
if timeout 120 /share/hog rrdma0 /proc/$pid/maps 1950 >/tmp/hog.log 2>&1; then ok "refused after $(cat /tmp/hog.log)"; else
  failed "a program that takes all"
  cat /tmp/hog.log
fi
check "the daemon is the same" [ "$pid" = "$(daemon_pid)" ]
pair "ibv_rc_pingpong afterwards" "ibv_rc_pingpong -g 1 -n 100 -c" "ibv_rc_pingpong -g 1 -n 100 -c localhost"
check "nothing is left" waits_for 40 sh -c 'rdma res show | grep -q "qp 1 cm_id 0 mr 0 ctx 0 srq 0"'
kill -9 $(daemon_pid)
check "port down" waits_for 10 port_is DOWN
echo $before >/proc/sys/vm/max_map_count
check "the next daemon" start_daemon
kernel_is_calm full
