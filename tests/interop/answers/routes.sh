#!/bin/sh
# How rdma_resolve_addr answers, one line for each case. Wants eth0 with 10.77.0.2/24 and fd77::2/64 and a peer there that has
# 10.77.0.1 and fd77::1; makes the rest itself. `set-up` once, as root; then `ask COMMAND...`, which is the probe.
#   routes.sh set-up | routes.sh ask COMMAND...
set -e
timeout_ms=1000

set_up() {
  # Two more interfaces: vx, which the caller gives a device, and wx, which has none.
  for name in v w; do
    ip link add ${name}x type veth peer name ${name}y
    echo 0 >/proc/sys/net/ipv6/conf/${name}x/accept_dad
    ip link set ${name}y up
    ip link set ${name}x up
  done
  ip addr add 10.90.0.1/24 dev vx
  ip addr add 10.91.0.1/24 dev wx
  ip addr add fd90::1/64 dev vx nodad
  for kind in unreachable:1 blackhole:2 prohibit:3 throw:5; do
    ip route add ${kind%:*} 10.66.${kind#*:}.0/24
    ip -6 route add ${kind%:*} fd66:${kind#*:}::/64
  done
  # The metric of IPv4's error routes is the best; IPv6's is not.
  ip route add 10.66.6.0/24 via 10.77.0.98
  ip route add 10.66.7.0/24 via 10.77.0.1
  ip -6 route add fd66:6::/64 via fd77::98 dev eth0
  ip -6 route add fd66:7::/64 via fd77::1 dev eth0
}

ask() {
  while read -r name source destination; do
    case $name in '' | '#'*) continue ;; esac
    "$@" route "$name" "$source" "$destination" $timeout_ms </dev/null
  done <<CASES
neighbour - 10.77.0.1
neighbour.source 10.77.0.2 10.77.0.1
unreachable - 10.66.1.1
unreachable.source 10.77.0.2 10.66.1.1
blackhole - 10.66.2.1
blackhole.source 10.77.0.2 10.66.2.1
prohibit - 10.66.3.1
prohibit.source 10.77.0.2 10.66.3.1
throw - 10.66.5.1
no_route - 10.66.4.1
no_route.source 10.77.0.2 10.66.4.1
absent_neighbour - 10.77.0.99
absent_neighbour.source 10.77.0.2 10.77.0.99
absent_gateway.source 10.77.0.2 10.66.6.1
gateway - 10.66.7.1
gateway.source 10.77.0.2 10.66.7.1
wrong_source 10.5.5.5 10.77.0.1
source_of_another_device 10.90.0.1 10.77.0.1
source_without_a_device 10.91.0.1 10.77.0.1
interface_without_a_device - 10.91.0.2
broadcast.source 10.77.0.2 10.77.0.255
own_address - 10.77.0.2
own_address.source 10.77.0.2 10.77.0.2
v6.neighbour - fd77::1
v6.neighbour.source fd77::2 fd77::1
v6.unreachable - fd66:1::1
v6.unreachable.source fd77::2 fd66:1::1
v6.blackhole - fd66:2::1
v6.blackhole.source fd77::2 fd66:2::1
v6.prohibit - fd66:3::1
v6.prohibit.source fd77::2 fd66:3::1
v6.no_route - fd66:4::1
v6.no_route.source fd77::2 fd66:4::1
v6.absent_neighbour.source fd77::2 fd77::99
v6.absent_gateway.source fd77::2 fd66:6::1
v6.gateway.source fd77::2 fd66:7::1
v6.wrong_source fd55::5 fd77::1
v6.source_of_another_device fd90::1 fd77::1
v6.scope.missing - fe80::99
v6.scope.absent_neighbour - fe80::99%eth0
v6.scope.interface_without_a_device - fe80::99%wx
v6.scope.no_such_interface - fe80::99%nothing
v6.scope.source_of_another_interface fd77::2 fe80::99%vx
v4_source_v6_destination 10.77.0.2 fd77::1
CASES
}

verb=$1
shift
case $verb in
  set-up) set_up ;;
  ask) ask "$@" ;;
  *) exit 2 ;;
esac
