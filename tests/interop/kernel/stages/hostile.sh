# A daemon that answers and writes at random, with programs on the device, hostile ones among them. The kernel survives.
SECONDS_OF_MALICE=${SECONDS_OF_MALICE:-60}
kill -9 $(daemon_pid)
check "port down" waits_for 10 port_is DOWN
/share/hostile rrdma0 $SECONDS_OF_MALICE 46 >/tmp/hostile.log 2>&1 &
hostile=$!
/share/rogue /dev/infiniband/uverbs0 "$(cat /sys/class/infiniband/rrdma0/ports/1/gids/1)" $SECONDS_OF_MALICE 47 >/tmp/rogue.log 2>&1 &
rogue=$!
end=$((SECONDS + SECONDS_OF_MALICE))
runs=0
while [ $SECONDS -lt $end ]; do
  timeout -k 1 3 ibv_rc_pingpong -g 1 -n 20 >/dev/null 2>&1 &
  timeout -k 1 3 ib_write_bw -x 1 -n 20 -F >/dev/null 2>&1 &
  timeout -k 1 3 /share/exchange rrdma0 1 >/dev/null 2>&1
  timeout -k 1 2 ibv_srq_pingpong -g 1 -n 20 localhost >/dev/null 2>&1
  timeout -k 1 2 rping -c -a $ADDRESS -C 2 >/dev/null 2>&1
  runs=$((runs + 1))
done
if wait $hostile; then ok "$(cat /tmp/hostile.log), $runs rounds of programs"; else
  failed "the hostile daemon"
  cat /tmp/hostile.log
fi
# Half of them may not even get the device from such a daemon.
wait $rogue
if grep -q "hostile programs" /tmp/rogue.log; then ok "beside it $(cat /tmp/rogue.log)"; else
  failed "hostile programs beside it"
  cat /tmp/rogue.log
fi
check "an honest daemon afterwards" start_daemon
pair "ibv_rc_pingpong afterwards" "ibv_rc_pingpong -g 1 -n 100 -c" "ibv_rc_pingpong -g 1 -n 100 -c localhost"
pair "rping afterwards" "rping -s -a $ADDRESS -C 5 -V" "rping -c -a $ADDRESS -C 5 -V"
check "nothing is left" waits_for 40 sh -c 'rdma res show | grep -q "qp 1 cm_id 0 mr 0 ctx 0 srq 0"'
kernel_is_calm hostile
