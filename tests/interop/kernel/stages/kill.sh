# kill -9 of the daemon under load: programs get errors, the port goes down, the next daemon serves.
as_user="setpriv --reuid=65534 --regid=65534 --clear-groups --"
timeout 60 $as_user ib_write_bw -x 1 -D 30 -F >/tmp/server.log 2>&1 &
server=$!
sleep 1.5
timeout 60 $as_user ib_write_bw -x 1 -D 30 -F localhost >/tmp/client.log 2>&1 &
client=$!
sleep 3
began=$SECONDS
kill -9 $(daemon_pid)
wait $client
client_code=$?
wait $server
server_code=$?
# 124: timeout had to end it.
if [ $client_code -ne 124 ] && [ $server_code -ne 124 ] && [ $client_code -ne 0 ]; then
  ok "programs end with errors, after $((SECONDS - began)) s"
else failed "programs without a daemon (client $client_code, server $server_code)"; fi
check "port down" port_is DOWN
check "nothing is left" sh -c 'rdma res show | grep -q "rrdma0: pd 1 cq 1 qp 1 cm_id 0 mr 0 ctx 0 srq 0"'
check "the next daemon" start_daemon
pair "ibv_rc_pingpong afterwards" "ibv_rc_pingpong -g 1 -n 100 -c" "ibv_rc_pingpong -g 1 -n 100 -c localhost"
pair "rping afterwards" "rping -s -a $ADDRESS -C 5 -V" "rping -c -a $ADDRESS -C 5 -V"
kernel_is_calm kill
