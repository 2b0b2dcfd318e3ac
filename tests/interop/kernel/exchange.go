// Two RC queue pairs of one device in one process: SEND, WRITE and READ of 100,000 bytes, each byte compared. A Go
// program that calls verbs by cgo, linked statically: no library can be loaded into it.
//
//	exchange_go DEVICE GID_INDEX
package main

/*
#cgo LDFLAGS: -Wl,--start-group -libverbs -lrxe-rdmav34 -lnl-route-3 -lnl-3 -lpthread -Wl,--end-group
#define RDMA_STATIC_PROVIDERS rxe
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdlib.h>

// cgo calls no macros, and no inline functions with unions in their arguments.
static struct ibv_device **devices(void) { return ibv_get_device_list(NULL); }
static struct ibv_mr *reg(struct ibv_pd *pd, void *at, size_t octets) {
  return ibv_reg_mr(pd, at, octets, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
}
static int post(struct ibv_qp *qp, int opcode, struct ibv_mr *from, struct ibv_mr *to) {
  struct ibv_sge sge = {.addr = (unsigned long)from->addr, .length = from->length, .lkey = from->lkey};
  struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED}, *bad;
  wr.wr.rdma.remote_addr = (unsigned long)to->addr;
  wr.wr.rdma.rkey = to->rkey;
  return ibv_post_send(qp, &wr, &bad);
}
static int receive(struct ibv_qp *qp, struct ibv_mr *to) {
  struct ibv_sge sge = {.addr = (unsigned long)to->addr, .length = to->length, .lkey = to->lkey};
  struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
  return ibv_post_recv(qp, &wr, &bad);
}
// The status of the next completion; negative: there is none.
static int poll_one(struct ibv_cq *cq) {
  struct ibv_wc wc;
  return ibv_poll_cq(cq, 1, &wc) == 1 ? (int)wc.status : -1;
}
static int to_rts(struct ibv_qp *qp, unsigned peer, union ibv_gid *gid, int index) {
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1,
                             .qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE};
  int error = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  if (error) return error;
  attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer,
                              .max_dest_rd_atomic = 1, .min_rnr_timer = 12,
                              .ah_attr = {.is_global = 1, .port_num = 1,
                                          .grh = {.dgid = *gid, .sgid_index = index, .hop_limit = 64}}};
  error = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  if (error) return error;
  attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};
  return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                                      IBV_QP_MAX_QP_RD_ATOMIC);
}
*/
import "C"

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
	"unsafe"
)

const octets = 100000

func check(ok bool, what string) {
	if !ok {
		fmt.Fprintln(os.Stderr, "FAILED:", what)
		os.Exit(1)
	}
}

func open(name string) *C.struct_ibv_context {
	list := C.devices()
	check(list != nil, "ibv_get_device_list")
	for _, device := range unsafe.Slice(list, 64) {
		if device == nil {
			break
		}
		if C.GoString(C.ibv_get_device_name(device)) == name {
			return C.ibv_open_device(device)
		}
	}
	return nil
}

func complete(cq *C.struct_ibv_cq, count int) {
	end := time.Now().Add(20 * time.Second)
	for count > 0 {
		check(time.Now().Before(end), "a completion in time")
		if status := C.poll_one(cq); status >= 0 {
			check(status == 0, fmt.Sprint("completion: status ", status))
			count--
		}
	}
}

func main() {
	if len(os.Args) != 3 {
		os.Exit(2)
	}
	index, _ := strconv.Atoi(os.Args[2])
	context := open(os.Args[1])
	check(context != nil, "the device")
	var gid C.union_ibv_gid
	check(C.ibv_query_gid(context, 1, C.int(index), &gid) == 0, "ibv_query_gid")
	pd := C.ibv_alloc_pd(context)
	cq := C.ibv_create_cq(context, 16, nil, nil, 0)
	check(pd != nil && cq != nil, "PD and CQ")
	var qps [2]*C.struct_ibv_qp
	var mrs [2]*C.struct_ibv_mr
	var buffers [2][]byte
	for i := range qps {
		var init C.struct_ibv_qp_init_attr
		init.send_cq, init.recv_cq, init.qp_type = cq, cq, C.IBV_QPT_RC
		init.cap.max_send_wr, init.cap.max_recv_wr, init.cap.max_send_sge, init.cap.max_recv_sge = 4, 4, 1, 1
		qps[i] = C.ibv_create_qp(pd, &init)
		memory := C.malloc(octets)
		mrs[i] = C.reg(pd, memory, octets)
		buffers[i] = unsafe.Slice((*byte)(memory), octets)
		check(qps[i] != nil && mrs[i] != nil, "QP and MR")
	}
	for i := range qps {
		check(C.to_rts(qps[i], C.uint(qps[1-i].qp_num), &gid, C.int(index)) == 0, "ibv_modify_qp")
	}
	for seed, opcode := range []C.int{C.IBV_WR_SEND, C.IBV_WR_RDMA_WRITE, C.IBV_WR_RDMA_READ} {
		for i := range buffers[0] {
			buffers[0][i], buffers[1][i] = byte(i*7+seed), byte(i*5+seed)
		}
		completions := 1
		if opcode == C.IBV_WR_SEND {
			check(C.receive(qps[1], mrs[1]) == 0, "ibv_post_recv")
			completions = 2
		}
		check(C.post(qps[0], opcode, mrs[0], mrs[1]) == 0, "ibv_post_send")
		complete(cq, completions)
		check(bytes.Equal(buffers[0], buffers[1]), fmt.Sprint("bytes of opcode ", opcode))
	}
	fmt.Println("SEND, WRITE, READ:", octets, "bytes each")
}
