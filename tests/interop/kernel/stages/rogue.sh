# Hostile programs beside an honest one; an honest daemon. Kernel and daemon survive, and serve the honest program.
SECONDS_OF_MALICE=${SECONDS_OF_MALICE:-60}
gid=$(cat /sys/class/infiniband/rrdma0/ports/1/gids/1)
before=$(daemon_pid)
/share/rogue /dev/infiniband/uverbs0 "$gid" $SECONDS_OF_MALICE ${SEED:-46} >/tmp/rogue.log 2>&1 &
rogue=$!
end=$((SECONDS + SECONDS_OF_MALICE - 10))
rounds=0 bad=0
while [ $SECONDS -lt $end ]; do
  timeout -k 1 60 /share/exchange rrdma0 1 >/tmp/exchange.log 2>&1 || bad=$((bad + 1))
  rounds=$((rounds + 1))
done
if [ $bad -eq 0 ] && [ $rounds -gt 0 ]; then ok "an honest program beside them, $rounds times"; else
  failed "an honest program beside them ($bad of $rounds)"
  tail -n 3 /tmp/exchange.log
fi
if wait $rogue; then ok "$(cat /tmp/rogue.log)"; else
  failed "the hostile programs"
  cat /tmp/rogue.log
fi
check "the daemon is the same" [ "$before" = "$(daemon_pid)" ]
pair "ibv_rc_pingpong afterwards" "ibv_rc_pingpong -g 1 -n 100 -c" "ibv_rc_pingpong -g 1 -n 100 -c localhost"
check "nothing is left" waits_for 40 sh -c 'rdma res show | grep -q "qp 1 cm_id 0 mr 0 ctx 0 srq 0"'
kernel_is_calm rogue
