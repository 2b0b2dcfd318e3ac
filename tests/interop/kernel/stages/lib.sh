# Read by every stage in the guest. A stage prints "ok NAME" or "FAILED NAME" for each thing that it shows.
ADDRESS=10.77.0.2
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
# pair NAME SERVER CLIENT: two programs; both succeed.
pair() {
  local name=$1 server client_code
  timeout 90 sh -c "$2" >/tmp/server.log 2>&1 &
  server=$!
  sleep 1.5
  timeout 80 sh -c "$3" >/tmp/client.log 2>&1
  client_code=$?
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
  waits_for 15 port_is ACTIVE
}
# The kernel says nothing that it should not. Call it at the end of a stage.
kernel_is_calm() {
  if dmesg | grep -E 'BUG:|Oops|WARNING:|hung_task|blocked for more|general protection|refcount_t|list_del corruption'; then
    failed "the kernel log of $1"
  else
    ok "the kernel log of $1"
  fi
  exit $((failures != 0))
}
