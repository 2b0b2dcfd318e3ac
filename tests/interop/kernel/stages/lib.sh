# Read by every stage in the guest. A stage prints "ok NAME" or "FAILED NAME" for each thing that it shows.
ADDRESS=10.77.0.2
# A task that waits so long for anything but its own death shows in the kernel's log.
echo 30 >/proc/sys/kernel/hung_task_timeout_secs 2>/dev/null
failures=0

ok() { echo "ok $1"; }
failed() {
  echo "FAILED $1"
  failures=$((failures + 1))
}
# check NAME COMMAND...: the command succeeds.
check() {
  local name=$1
  shift
  if "$@" >/tmp/check.log 2>&1; then ok "$name"; else
    failed "$name"
    tail -n 5 /tmp/check.log
  fi
}
# pair NAME SERVER CLIENT: two programs; both succeed. A client that came before its server listened tries again: a client
# that fails later ends the server, too.
pair() {
  local name=$1 server client_code try
  timeout 90 sh -c "$2" >/tmp/server.log 2>&1 &
  server=$!
  sleep 1.5
  for try in 1 2 3; do
    timeout 80 sh -c "$3" >/tmp/client.log 2>&1
    client_code=$?
    [ $client_code -ne 0 ] && sleep 3 && kill -0 $server 2>/dev/null || break
  done
  if wait $server && [ $client_code -eq 0 ]; then ok "$name"; else
    failed "$name (client $client_code)"
    tail -n 3 /tmp/client.log /tmp/server.log
  fi
}
daemon_pid() {
  local name
  for name in /proc/[0-9]*/cmdline; do
    case $({ tr "\0" " " <"$name"; } 2>/dev/null) in *"rrdmad --kernel"*)
      name=${name#/proc/}
      echo "${name%/cmdline}"
      ;;
    esac
  done
}
port_is() { rdma link show rrdma0/1 | grep -q "state $1"; }
# waits_for SECONDS COMMAND...
waits_for() {
  local end=$((SECONDS + $1))
  shift
  until "$@"; do
    [ $SECONDS -lt $end ] || return 1
    sleep 0.2
  done
}
start_daemon() {
  setsid /share/rrdmad --kernel rrdma0 >>/share/daemon.log 2>&1 </dev/null &
  waits_for 60 port_is ACTIVE
}
# with_deaths NAME COMMAND...: the command succeeds although the daemon is killed 2 s after its beginning and then every
# 45 s; each time the next daemon starts a second later.
with_deaths() {
  local name=$1 load next=$((SECONDS + 2)) deaths=0
  shift
  "$@" >/tmp/load.log 2>&1 &
  load=$!
  while kill -0 $load 2>/dev/null; do
    if [ $SECONDS -ge $next ]; then
      kill -9 $(daemon_pid)
      sleep 1
      start_daemon || break
      deaths=$((deaths + 1))
      next=$((SECONDS + 45))
    fi
    sleep 0.5
  done
  if wait $load && [ $deaths -gt 0 ]; then ok "$name, $deaths x kill -9"; else
    failed "$name ($deaths x kill -9)"
    grep -iE 'verify|error|differ|cannot' /tmp/load.log | head -n 5
    tail -n 5 /tmp/load.log
  fi
}
# Options of fio for a load of SECONDS_OF_LOAD, if that is given.
SECONDS_OF_LOAD=${SECONDS_OF_LOAD:-0}
as_long() { [ $SECONDS_OF_LOAD -eq 0 ] || echo --time_based --runtime=$SECONDS_OF_LOAD; }
# For stages that compare, after `remove`: our device, and then rxe in its place.
take_rrdma() {
  check "insmod" insmod /share/rrdma.ko
  check "rdma link add" rdma link add rrdma0 type rrdma netdev eth0
  check "rrdmad --kernel" start_daemon
}
no_daemon() { [ -z "$(daemon_pid)" ]; }
take_rxe() {
  local pid
  rdma link delete rrdma0
  check "the daemon ends" waits_for 10 no_daemon
  check "rmmod" waits_for 10 rmmod rrdma
  # The daemon that owns UDP port 4791, which rxe takes for as long as its module is loaded.
  for pid in $(pidof rrdmad); do kill $pid; done
  sleep 1
  modprobe rdma_rxe
  check "rdma link add rxe0" rdma link add rxe0 type rxe netdev eth0
}
drop_rxe() {
  rdma link delete rxe0
  modprobe -r rdma_rxe
}
# The kernel says nothing that it should not. Call it at the end of a stage.
kernel_is_calm() {
  if dmesg | grep -E 'BUG:|BUG [a-z]|Oops|WARNING:|hung_task|blocked for more|general protection|refcount_t|list_del corruption'; then
    failed "the kernel log of $1"
  else
    ok "the kernel log of $1"
  fi
  exit $((failures != 0))
}
