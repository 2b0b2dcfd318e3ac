# Unmodified programs, as an ordinary user, between two QPs of the device.
as_user="setpriv --reuid=65534 --regid=65534 --clear-groups --"
for program in rc uc ud srq; do
  pair "ibv_${program}_pingpong" "$as_user ibv_${program}_pingpong -g 1 -n 100" "$as_user ibv_${program}_pingpong -g 1 -n 100 localhost"
done
pair "ibv_rc_pingpong -c -e" "$as_user ibv_rc_pingpong -g 1 -n 100 -c -e" "$as_user ibv_rc_pingpong -g 1 -n 100 -c -e localhost"
for program in ib_write_bw ib_read_bw ib_send_bw ib_atomic_bw ib_send_lat ib_write_lat; do
  pair "$program" "$as_user $program -x 1 -n 100 -F" "$as_user $program -x 1 -n 100 -F localhost"
done
pair "rping" "$as_user rping -s -a $ADDRESS -C 20 -V" "$as_user rping -c -a $ADDRESS -C 20 -V"
pair "ucmatose" "$as_user ucmatose" "$as_user ucmatose -s $ADDRESS"
pair "udaddy" "$as_user udaddy" "$as_user udaddy -s $ADDRESS"
check "nothing is left" sh -c 'rdma res show | grep -q "rrdma0: pd 1 cq 1 qp 1 cm_id 0 mr 0 ctx 0 srq 0"'
kernel_is_calm programs
