# rdma-core's Python tests on our device, then on rxe in the same guest. Runs after `remove`.
for module in ib_uverbs rdma_cm rdma_ucm ib_umad; do modprobe $module; done
suite() { timeout -k 5 ${SUITE_SECONDS:-400} python3 -B /share/pyverbs_runner.py /share/pyverbs_tests 1 $1 >/share/pyverbs-$1.txt 2>&1; }
take_rrdma
suite rrdma0
check "nothing is left" waits_for 40 sh -c 'rdma res show | grep -q "qp 1 cm_id 0 mr 0 ctx 0 srq 0"'
take_rxe
suite rxe0
if python3 -B /share/pyverbs_compare.py /share/pyverbs-rrdma0.txt /share/pyverbs-rxe0.txt >/tmp/compare.log 2>&1; then
  ok "$(tail -n 1 /tmp/compare.log)"
else failed "pyverbs"; fi
cat /tmp/compare.log
drop_rxe
kernel_is_calm pyverbs
