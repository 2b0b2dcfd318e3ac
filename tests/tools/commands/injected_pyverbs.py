# Calls every verb of pyverbs inside `rrdma run` with injected failures. Repeats each call until it succeeds.
#
#   injected_pyverbs.py verbs        "FUNCTION ERRNO...": the errors of each, in this order
#   injected_pyverbs.py statuses N   "status N state N" of N queue pairs that write once
#   injected_pyverbs.py rounds N     "grown BYTES DESCRIPTORS": the growth after calling all verbs N times
import ctypes
import errno
import os
import sys

import pyverbs.enums as e
from pyverbs.addr import AH, GID, AHAttr, GlobalRoute
from pyverbs.cq import CQ, CQEX, CompChannel, CqInitAttrEx, PollCqAttr
from pyverbs.device import DM, AllocDmAttr, Context
from pyverbs.mr import DMMR, MR, MW, DmaBufMR, MWBind, MWBindInfo
from pyverbs.pd import PD, ParentDomain, ParentDomainInitAttr
from pyverbs.pyverbs_error import PyverbsRDMAError
from pyverbs.qp import QP, QPAttr, QPCap, QPEx, QPInitAttr, QPInitAttrEx
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr, SrqInitAttrEx
from pyverbs.wr import SGE, RecvWR, SendWR
from pyverbs.xrcd import XRCD, XRCDInitAttr

PORT = 1
ACCESS = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE
SIZE = 4096
MEMORY = ctypes.create_string_buffer(SIZE)

seen = {}


def tried(name, call, failures=20):
    """Returns the result of the call once it succeeds, and records the errors before that."""
    for _ in range(failures):
        try:
            return call()
        except PyverbsRDMAError as problem:
            code = problem.error_code
            seen.setdefault(name, []).append(-code if code < -1 else code)  # -1: pyverbs ignores errno there
    raise AssertionError(f"{name} fails for ever: {seen[name]}")


def closed(name, thing):
    tried(name, thing.close)


def region(pd, access):
    """Registers existing memory: pyverbs leaks memory that it allocates itself if the registration fails."""
    return tried("ibv_reg_mr", lambda: MR(pd, SIZE, access, address=ctypes.addressof(MEMORY)))


def address_of(context):
    gid = tried("ibv_query_gid", lambda: context.query_gid(PORT, 0))
    return AHAttr(gr=GlobalRoute(dgid=GID(gid.gid), sgid_index=0, hop_limit=64), is_global=1, port_num=PORT)


def connect(context, qp):
    """Connects the queue pair to itself."""
    attr = QPAttr(qp_state=e.IBV_QPS_INIT, port_num=PORT)
    attr.qp_access_flags = ACCESS
    tried("ibv_modify_qp", lambda: qp.modify(attr, e.IBV_QP_STATE | e.IBV_QP_PKEY_INDEX | e.IBV_QP_PORT | e.IBV_QP_ACCESS_FLAGS))
    attr = QPAttr(qp_state=e.IBV_QPS_RTR, port_num=PORT)
    attr.path_mtu, attr.dest_qp_num, attr.max_dest_rd_atomic, attr.min_rnr_timer = e.IBV_MTU_1024, qp.qp_num, 1, 12
    attr.ah_attr = address_of(context)
    tried("ibv_modify_qp", lambda: qp.modify(attr, e.IBV_QP_STATE | e.IBV_QP_AV | e.IBV_QP_PATH_MTU | e.IBV_QP_DEST_QPN | e.IBV_QP_RQ_PSN
                                             | e.IBV_QP_MAX_DEST_RD_ATOMIC | e.IBV_QP_MIN_RNR_TIMER))
    attr = QPAttr(qp_state=e.IBV_QPS_RTS, port_num=PORT)
    attr.timeout, attr.retry_cnt, attr.rnr_retry, attr.max_rd_atomic = 14, 7, 7, 1
    tried("ibv_modify_qp", lambda: qp.modify(attr, e.IBV_QP_STATE | e.IBV_QP_TIMEOUT | e.IBV_QP_RETRY_CNT | e.IBV_QP_RNR_RETRY
                                             | e.IBV_QP_SQ_PSN | e.IBV_QP_MAX_QP_RD_ATOMIC))


def write_to(mr):
    wr = SendWR(wr_id=1, num_sge=1, sg=[SGE(mr.buf, 64, mr.lkey)], opcode=e.IBV_WR_RDMA_WRITE, send_flags=e.IBV_SEND_SIGNALED)
    wr.set_wr_rdma(mr.rkey, mr.buf + 1024)
    return wr


def completion(cq):
    for _ in range(50_000_000):
        count, entries = tried("ibv_poll_cq", lambda: cq.poll())
        if count:
            return entries[0]
    raise AssertionError("no completion")


def ask(context):
    tried("ibv_query_device", context.query_device)
    tried("ibv_query_device_ex", context.query_device_ex)
    tried("ibv_query_port", lambda: context.query_port(PORT))
    tried("ibv_query_gid", lambda: context.query_gid(PORT, 0))
    tried("ibv_query_gid_ex", lambda: context.query_gid_ex(PORT, 0))
    tried("ibv_query_gid_table", lambda: context.query_gid_table(16))
    tried("ibv_query_pkey", lambda: context.query_pkey(PORT, 0))


def memory(context, pd):
    mr = region(pd, ACCESS)
    tried("ibv_rereg_mr", lambda: mr.rereg(e.IBV_REREG_MR_CHANGE_ACCESS, pd, 0, 0, ACCESS | e.IBV_ACCESS_REMOTE_READ))
    closed("ibv_dereg_mr", mr)
    dm = tried("ibv_alloc_dm", lambda: DM(context, AllocDmAttr(length=SIZE)))
    access = e.IBV_ACCESS_ZERO_BASED | e.IBV_ACCESS_LOCAL_WRITE
    closed("ibv_dereg_mr", tried("ibv_reg_dm_mr", lambda: DMMR(pd, SIZE, access, dm=dm, offset=0)))
    closed("ibv_free_dm", dm)
    file = os.memfd_create("memory")
    os.truncate(file, SIZE)
    closed("ibv_dereg_mr", tried("ibv_reg_dmabuf_mr", lambda: DmaBufMR(pd, SIZE, ACCESS, dmabuf=file)))
    os.close(file)
    on_demand = region(pd, ACCESS | e.IBV_ACCESS_ON_DEMAND)
    piece = SGE(on_demand.buf, SIZE, on_demand.lkey)
    tried("ibv_advise_mr", lambda: pd.advise_mr(e._IBV_ADVISE_MR_ADVICE_PREFETCH, 1, [piece]))
    closed("ibv_dereg_mr", on_demand)
    parent = tried("ibv_alloc_parent_domain", lambda: ParentDomain(context, ParentDomainInitAttr(pd)))
    closed("ibv_dealloc_pd", parent)
    ah = tried("ibv_create_ah", lambda: AH(pd, attr=address_of(context)))
    closed("ibv_destroy_ah", ah)


def shared_queues(context, pd, mr):
    srq = tried("ibv_create_srq", lambda: SRQ(pd, SrqInitAttr(SrqAttr(max_wr=8))))
    tried("ibv_modify_srq", lambda: srq.modify(SrqAttr(srq_limit=2), e.IBV_SRQ_LIMIT))
    tried("ibv_query_srq", srq.query)
    tried("ibv_post_srq_recv", lambda: srq.post_recv(RecvWR(sg=[SGE(mr.buf, 64, mr.lkey)], num_sge=1)))
    closed("ibv_destroy_srq", srq)
    domain = tried("ibv_open_xrcd", lambda: XRCD(context, XRCDInitAttr(e.IBV_XRCD_INIT_ATTR_FD | e.IBV_XRCD_INIT_ATTR_OFLAGS, os.O_CREAT, -1)))
    form = SrqInitAttrEx(max_wr=8)
    form.comp_mask = e.IBV_SRQ_INIT_ATTR_TYPE | e.IBV_SRQ_INIT_ATTR_PD | e.IBV_SRQ_INIT_ATTR_XRCD | e.IBV_SRQ_INIT_ATTR_CQ
    cq = tried("ibv_create_cq", lambda: CQ(context, 4))
    form.srq_type, form.pd, form.xrcd, form.cq = e.IBV_SRQT_XRC, pd, domain, cq
    closed("ibv_destroy_srq", tried("ibv_create_srq_ex", lambda: SRQ(context, form)))
    closed("ibv_destroy_cq", cq)
    closed("ibv_close_xrcd", domain)


def queue_pairs(context, pd, mr):
    channel = tried("ibv_create_comp_channel", lambda: CompChannel(context))
    cq = tried("ibv_create_cq", lambda: CQ(context, 16, None, channel))
    tried("ibv_resize_cq", lambda: cq.resize(64))
    tried("ibv_req_notify_cq", cq.req_notify)
    cap = QPCap(max_send_wr=4, max_recv_wr=4)
    qp = tried("ibv_create_qp", lambda: QP(pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq, cap=cap)))
    connect(context, qp)
    tried("ibv_query_qp", lambda: qp.query(e.IBV_QP_STATE))
    tried("ibv_post_recv", lambda: qp.post_recv(RecvWR(sg=[SGE(mr.buf, 64, mr.lkey)], num_sge=1)))
    tried("ibv_post_send", lambda: qp.post_send(write_to(mr)))
    assert completion(cq).status == e.IBV_WC_SUCCESS
    bound = region(pd, ACCESS | e.IBV_ACCESS_MW_BIND)
    window = tried("ibv_alloc_mw", lambda: MW(pd, e.IBV_MW_TYPE_1))
    bind = MWBind(MWBindInfo(bound, bound.buf, SIZE, e.IBV_ACCESS_REMOTE_WRITE), e.IBV_SEND_SIGNALED)
    tried("ibv_bind_mw", lambda: qp.bind_mw(window, bind))
    assert completion(cq).status == e.IBV_WC_SUCCESS
    closed("ibv_dealloc_mw", window)
    closed("ibv_dereg_mr", bound)
    closed("ibv_destroy_qp", qp)
    closed("ibv_destroy_cq", cq)
    closed("ibv_destroy_comp_channel", channel)


def extended(context, pd, mr):
    cq = tried("ibv_create_cq_ex", lambda: CQEX(context, CqInitAttrEx(cqe=16)))
    form = QPInitAttrEx(qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq, cap=QPCap(max_send_wr=4, max_recv_wr=4), pd=pd, sq_sig_all=1,
                        comp_mask=e.IBV_QP_INIT_ATTR_PD | e.IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, send_ops_flags=e.IBV_QP_EX_WITH_RDMA_WRITE)
    qp = tried("ibv_create_qp_ex", lambda: QPEx(context, form))
    connect(context, qp)

    def build():
        qp.wr_start()
        qp.wr_rdma_write(mr.rkey, mr.buf + 1024)
        qp.wr_set_sge(SGE(mr.buf, 64, mr.lkey))
        qp.wr_complete()
    tried("ibv_wr_complete", build)
    for _ in range(50_000_000):
        result = poll(cq)
        if result == 0:
            break
        assert result == errno.ENOENT, result
    assert cq.status == e.IBV_WC_SUCCESS
    cq.end_poll()
    closed("ibv_destroy_qp", qp)
    closed("ibv_destroy_cq", cq)


def poll(cq):
    """start_poll returns its errors; ENOENT means that the queue is empty."""
    result = cq.start_poll(PollCqAttr())
    while result not in (0, errno.ENOENT):
        seen.setdefault("ibv_start_poll", []).append(result)
        result = cq.start_poll(PollCqAttr())
    return result


def all_verbs():
    context = tried("ibv_open_device", lambda: Context(name="rrdma0"))
    ask(context)
    pd = tried("ibv_alloc_pd", lambda: PD(context))
    memory(context, pd)
    mr = region(pd, ACCESS)
    queue_pairs(context, pd, mr)
    extended(context, pd, mr)
    shared_queues(context, pd, mr)
    closed("ibv_dereg_mr", mr)
    closed("ibv_dealloc_pd", pd)
    closed("ibv_close_device", context)


def statuses(count):
    with Context(name="rrdma0") as context, PD(context) as pd, MR(pd, SIZE, ACCESS) as mr, CQ(context, 16) as cq:
        for _ in range(count):
            with QP(pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq, cap=QPCap(max_send_wr=4, max_recv_wr=4))) as qp:
                connect(context, qp)
                qp.post_send(write_to(mr))
                print("status", completion(cq).status, "state", qp.query(e.IBV_QP_STATE)[0].qp_state)


def resident():
    with open("/proc/self/statm") as numbers:
        return int(numbers.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def rounds(count):
    """Runs twice as many rounds: in the first half, caches grow to their full size."""
    for half in range(2):
        if half == 1:
            before = resident(), len(os.listdir("/proc/self/fd"))
        for _ in range(count):
            all_verbs()
            seen.clear()
    print("grown", resident() - before[0], len(os.listdir("/proc/self/fd")) - before[1])


if sys.argv[1] == "verbs":
    all_verbs()
    for name, errors in seen.items():
        print(name, *(errno.errorcode.get(error, error) for error in errors))
else:
    {"statuses": statuses, "rounds": rounds}[sys.argv[1]](int(sys.argv[2]))
