# Programs that no library can be loaded into: static with glibc and libibverbs, also in Go, and with musl and nothing else.
as_user="setpriv --reuid=65534 --regid=65534 --clear-groups --"
gid=$(cat /sys/class/infiniband/rrdma0/ports/1/gids/1)
check "static program with libibverbs" timeout 60 $as_user /share/exchange rrdma0 1
check "static program with librdmacm" timeout 60 $as_user /share/cm_exchange $ADDRESS 7471
check "static Go program with libibverbs by cgo" timeout 60 $as_user /share/exchange_go rrdma0 1
check "static musl program" timeout 60 $as_user /share/bare /dev/infiniband/uverbs0 "$gid"
kernel_is_calm static
