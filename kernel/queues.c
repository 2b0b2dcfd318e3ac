// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * PD, AH, SRQ and QP: creation, state and destruction. PDs, CQs and SRQs need no daemon: it learns of them when a QP
 * or a region first names them. Only connected and datagram QPs live in the daemon; QP1 is gsi.c's.
 */
#include <linux/log2.h>
#include <linux/slab.h>
#include <rdma/ib_addr.h>
#include <rdma/ib_cache.h>

#include "rrdma.h"

int rrdma_alloc_pd(struct ib_pd *ib, struct ib_udata *udata)
{
	return rrdma_name(to_dev(ib->device), &to_pd(ib)->object, RRDMA_PD);
}

int rrdma_dealloc_pd(struct ib_pd *ib, struct ib_udata *udata)
{
	rrdma_tell_destroyed(&to_pd(ib)->object, RRDMA_OP_DESTROY_PD);
	rrdma_unname(&to_pd(ib)->object);
	return 0;
}

void rrdma_fill_address(struct rrdma_address *to, const struct rdma_ah_attr *from)
{
	const struct ib_global_route *grh = rdma_ah_read_grh(from);

	memset(to, 0, sizeof(*to));
	memcpy(to->remote, grh->dgid.raw, sizeof(to->remote));
	if (grh->sgid_attr)
		memcpy(to->local, grh->sgid_attr->gid.raw, sizeof(to->local));
	to->flow_label = grh->flow_label;
	to->hop_limit = grh->hop_limit;
	to->traffic_class = grh->traffic_class;
	to->sgid_index = grh->sgid_index;
	to->service_level = rdma_ah_get_sl(from);
}

static void rrdma_fill_av(struct rxe_av *av, const struct rdma_ah_attr *from)
{
	const struct ib_global_route *grh = rdma_ah_read_grh(from);

	memset(av, 0, sizeof(*av));
	memcpy(av->grh.dgid.raw, grh->dgid.raw, sizeof(av->grh.dgid.raw));
	av->grh.flow_label = grh->flow_label;
	av->grh.sgid_index = grh->sgid_index;
	av->grh.hop_limit = grh->hop_limit;
	av->grh.traffic_class = grh->traffic_class;
	av->port_num = rdma_ah_get_port_num(from);
	if (!grh->sgid_attr)
		return;
	av->network_type = ipv6_addr_v4mapped((struct in6_addr *)grh->dgid.raw) ? RXE_NETWORK_TYPE_IPV4 :
										  RXE_NETWORK_TYPE_IPV6;
	rdma_gid2ip((struct sockaddr *)&av->sgid_addr, &grh->sgid_attr->gid);
	rdma_gid2ip((struct sockaddr *)&av->dgid_addr, &grh->dgid);
}

/* Programs put the address into each work request: with number 0 the provider does so. */
int rrdma_create_ah(struct ib_ah *ib, struct rdma_ah_init_attr *attr, struct ib_udata *udata)
{
	struct rxe_create_ah_resp response = {};

	if (!(rdma_ah_get_ah_flags(attr->ah_attr) & IB_AH_GRH))
		return -EINVAL;
	rrdma_fill_address(&to_ah(ib)->address, attr->ah_attr);
	rrdma_fill_av(&to_ah(ib)->av, attr->ah_attr);
	if (udata && udata->outlen >= sizeof(response))
		return ib_copy_to_udata(udata, &response, sizeof(response));
	return 0;
}

int rrdma_query_ah(struct ib_ah *ib, struct rdma_ah_attr *attr)
{
	struct rrdma_address *from = &to_ah(ib)->address;

	memset(attr, 0, sizeof(*attr));
	attr->type = ib->type;
	rdma_ah_set_port_num(attr, RRDMA_PORT);
	rdma_ah_set_sl(attr, from->service_level);
	rdma_ah_set_grh(attr, (union ib_gid *)from->remote, from->flow_label, from->sgid_index, from->hop_limit,
			from->traffic_class);
	return 0;
}

int rrdma_destroy_ah(struct ib_ah *ib, u32 flags)
{
	return 0;
}

int rrdma_create_srq(struct ib_srq *ib, struct ib_srq_init_attr *init, struct ib_udata *udata)
{
	struct rrdma_srq *srq = to_srq(ib);
	struct rrdma_dev *dev = to_dev(ib->device);
	struct rxe_create_srq_resp response = {};
	int err;

	if (init->srq_type != IB_SRQT_BASIC)
		return -EOPNOTSUPP;
	if (!init->attr.max_wr || init->attr.max_wr > RRDMA_WR_MAX || init->attr.max_sge > RRDMA_SGE_MAX)
		return -EINVAL;
	if (udata && udata->outlen < sizeof(response))
		return -EINVAL;
	init->attr.max_sge = max(init->attr.max_sge, 1U);
	srq->user = udata;
	spin_lock_init(&srq->queue.lock);
	srq->queue.entries = init->attr.max_wr;
	srq->queue.sges = init->attr.max_sge;
	srq->queue.ring = rrdma_make_ring(dev, init->attr.max_wr,
					  sizeof(struct rxe_recv_wqe) + init->attr.max_sge * sizeof(struct rxe_sge));
	if (IS_ERR(srq->queue.ring))
		return PTR_ERR(srq->queue.ring);
	err = rrdma_name(dev, &srq->object, RRDMA_SRQ);
	if (err)
		goto drop;
	if (udata) {
		struct rrdma_ucontext *ucontext = rdma_udata_to_drv_context(udata, struct rrdma_ucontext, ib);

		response.srq_num = srq->object.handle;
		err = rrdma_show_ring(srq->queue.ring, &ucontext->ib, &response.mi);
		if (!err)
			err = ib_copy_to_udata(udata, &response, sizeof(response));
	} else {
		err = rrdma_prepare_queue(dev, &srq->queue);
	}
	if (err)
		goto unname;
	WRITE_ONCE(srq->object.ready, true);
	return 0;

unname:
	rrdma_unname(&srq->object);
drop:
	rrdma_drop_ring(srq->queue.ring);
	return err;
}

int rrdma_modify_srq(struct ib_srq *ib, struct ib_srq_attr *attr, enum ib_srq_attr_mask mask, struct ib_udata *udata)
{
	struct rrdma_srq *srq = to_srq(ib);
	struct rrdma_request request = { .op = RRDMA_OP_ARM_SRQ, .handle = srq->object.handle };

	if (mask & IB_SRQ_MAX_WR)
		return -EOPNOTSUPP;
	if (!(mask & IB_SRQ_LIMIT))
		return 0;
	if (attr->srq_limit > srq->queue.entries)
		return -EINVAL;
	srq->limit = attr->srq_limit;
	request.limit = attr->srq_limit;
	return rrdma_is_told(&srq->object) ? rrdma_tell_latest(&srq->object, &request) : 0;
}

int rrdma_query_srq(struct ib_srq *ib, struct ib_srq_attr *attr)
{
	struct rrdma_srq *srq = to_srq(ib);

	attr->max_wr = srq->queue.entries;
	attr->max_sge = srq->queue.sges;
	attr->srq_limit = srq->limit;
	return 0;
}

int rrdma_destroy_srq(struct ib_srq *ib, struct ib_udata *udata)
{
	struct rrdma_srq *srq = to_srq(ib);

	rrdma_tell_destroyed(&srq->object, RRDMA_OP_DESTROY_SRQ);
	rrdma_unname(&srq->object);
	rrdma_end_queue(srq->object.dev, &srq->queue);
	rrdma_drop_ring(srq->queue.ring);
	return 0;
}

static int rrdma_check_qp(const struct ib_qp_init_attr *init)
{
	if (init->create_flags)
		return -EOPNOTSUPP;
	switch (init->qp_type) {
	case IB_QPT_RC:
	case IB_QPT_UC:
	case IB_QPT_UD:
	case IB_QPT_GSI:
		break;
	default:
		return -EOPNOTSUPP;
	}
	if (!init->send_cq || !init->recv_cq)
		return -EINVAL;
	if (init->cap.max_send_wr > RRDMA_WR_MAX || init->cap.max_recv_wr > RRDMA_WR_MAX ||
	    init->cap.max_send_sge > RRDMA_SGE_MAX || init->cap.max_recv_sge > RRDMA_SGE_MAX ||
	    init->cap.max_inline_data > RRDMA_INLINE_MAX)
		return -EINVAL;
	return 0;
}

/*
 * A request has room for its list; programs may use that room for inline data. A program's queue has as many entries as
 * its ring holds: the provider goes by that.
 */
static void rrdma_settle_sizes(struct ib_qp_init_attr *init, bool user)
{
	struct ib_qp_cap *cap = &init->cap;

	cap->max_send_wr = max(cap->max_send_wr, 1U);
	cap->max_send_sge = max(cap->max_send_sge, 1U);
	cap->max_inline_data = user ? max_t(u32, cap->max_inline_data, cap->max_send_sge * sizeof(struct rxe_sge)) : 0;
	if (init->srq) {
		cap->max_recv_wr = cap->max_recv_sge = 0;
	} else {
		cap->max_recv_wr = max(cap->max_recv_wr, 1U);
		cap->max_recv_sge = max(cap->max_recv_sge, 1U);
	}
	if (user) {
		cap->max_send_wr = roundup_pow_of_two(cap->max_send_wr + 1) - 1;
		if (!init->srq)
			cap->max_recv_wr = roundup_pow_of_two(cap->max_recv_wr + 1) - 1;
	}
}

static int rrdma_make_queue(struct rrdma_dev *dev, struct rrdma_queue *queue, u32 entries, u32 sges, u32 octets,
			    bool user)
{
	int err;

	queue->entries = entries;
	queue->sges = sges;
	queue->ring = rrdma_make_ring(dev, entries, octets);
	if (IS_ERR(queue->ring)) {
		err = PTR_ERR(queue->ring);
		queue->ring = NULL;
		return err;
	}
	return user ? 0 : rrdma_prepare_queue(dev, queue);
}

static int rrdma_make_queues(struct rrdma_qp *qp, struct ib_qp_init_attr *init, struct ib_udata *udata)
{
	struct rrdma_dev *dev = to_dev(qp->ib.device);
	struct rrdma_ucontext *ucontext = rdma_udata_to_drv_context(udata, struct rrdma_ucontext, ib);
	struct ib_qp_cap *cap = &init->cap;
	struct rxe_create_qp_resp response = {};
	int err;

	err = rrdma_make_queue(dev, &qp->sends, cap->max_send_wr, cap->max_send_sge,
			       sizeof(struct rxe_send_wqe) +
				       max_t(u32, cap->max_send_sge * sizeof(struct rxe_sge), cap->max_inline_data),
			       udata);
	if (!err && !init->srq)
		err = rrdma_make_queue(dev, &qp->receives, cap->max_recv_wr, cap->max_recv_sge,
				       sizeof(struct rxe_recv_wqe) + cap->max_recv_sge * sizeof(struct rxe_sge), udata);
	if (err || !udata)
		return err;
	err = rrdma_show_ring(qp->sends.ring, &ucontext->ib, &response.sq_mi);
	if (!err && qp->receives.ring)
		err = rrdma_show_ring(qp->receives.ring, &ucontext->ib, &response.rq_mi);
	return err ? err : ib_copy_to_udata(udata, &response, sizeof(response));
}

static void rrdma_drop_queues(struct rrdma_qp *qp)
{
	struct rrdma_dev *dev = to_dev(qp->ib.device);

	rrdma_end_queue(dev, &qp->sends);
	rrdma_end_queue(dev, &qp->receives);
	rrdma_drop_ring(qp->sends.ring);
	rrdma_drop_ring(qp->receives.ring);
}

/*
 * Receives of an SRQ complete in any order, and only its daemon knew which ones it had taken. The kernel knows it, too, for
 * its own users (rrdma_rewind_queue()), but not for programs.
 */
static bool rrdma_is_lost(const struct rrdma_srq *srq, u32 daemon)
{
	u32 told = READ_ONCE(srq->object.told);

	return srq->user && told && told != daemon;
}

static int rrdma_ask_for_qp(struct rrdma_qp *qp)
{
	struct rrdma_dev *dev = qp->object.dev;
	struct rrdma_request request = { .op = RRDMA_OP_CREATE_QP, .handle = qp->object.handle };
	struct rrdma_create_qp *create = &request.create_qp;
	u32 daemon = rrdma_serving(dev);
	struct rrdma_reply reply;
	int err;

	if (qp->srq && rrdma_is_lost(qp->srq, daemon))
		return -ENETDOWN;
	rrdma_mark_told(&to_pd(qp->ib.pd)->object, daemon);
	create->pd = to_pd(qp->ib.pd)->object.handle;
	create->type = qp->ib.qp_type;
	err = rrdma_cq_form(qp->send_cq, daemon, &create->send_cq);
	if (!err)
		err = rrdma_cq_form(qp->receive_cq, daemon, &create->receive_cq);
	if (err)
		return err;
	if (qp->srq) {
		rrdma_mark_told(&to_pd(qp->srq->ib.pd)->object, daemon);
		rrdma_mark_told(&qp->srq->object, daemon);
		create->srq.handle = qp->srq->object.handle;
		create->srq.sges = qp->srq->queue.sges;
		create->srq.ring = rrdma_ring_form(qp->srq->queue.ring);
		create->srq_pd = to_pd(qp->srq->ib.pd)->object.handle;
		create->srq_limit = READ_ONCE(qp->srq->limit);
	}
	create->sends = rrdma_ring_form(qp->sends.ring);
	create->receives = rrdma_ring_form(qp->receives.ring);
	create->send_entries = qp->cap.max_send_wr;
	create->receive_entries = qp->cap.max_recv_wr;
	create->send_sges = qp->cap.max_send_sge;
	create->receive_sges = qp->cap.max_recv_sge;
	create->inline_octets = qp->cap.max_inline_data;
	create->signal_all = qp->signal_all;
	create->in_kernel = !qp->user;
	err = rrdma_ask(dev, daemon, &request, &reply, RRDMA_OP_DESTROY_QP);
	if (err)
		return err;
	if (reply.number <= 1 || reply.number > 0xffffff) {
		request.op = RRDMA_OP_DESTROY_QP;
		rrdma_tell(dev, daemon, &request, GFP_KERNEL);
		return -EIO;
	}
	qp->ib.qp_num = reply.number;
	return rrdma_mark_ready(&qp->object, daemon) ? 0 : -ENETDOWN;
}

int rrdma_create_qp(struct ib_qp *ib, struct ib_qp_init_attr *init, struct ib_udata *udata)
{
	struct rrdma_qp *qp = to_qp(ib);
	struct rrdma_dev *dev = to_dev(ib->device);
	int err = rrdma_check_qp(init);

	if (err)
		return err;
	if (udata && (init->qp_type == IB_QPT_GSI || udata->outlen < sizeof(struct rxe_create_qp_resp)))
		return -EINVAL;
	rrdma_settle_sizes(init, udata);
	spin_lock_init(&qp->sends.lock);
	spin_lock_init(&qp->receives.lock);
	INIT_LIST_HEAD(&qp->postponed);
	qp->user = udata;
	qp->cap = init->cap;
	qp->signal_all = init->sq_sig_type == IB_SIGNAL_ALL_WR;
	qp->send_cq = to_cq(init->send_cq);
	qp->receive_cq = to_cq(init->recv_cq);
	qp->srq = init->srq ? to_srq(init->srq) : NULL;
	qp->attr.qp_state = IB_QPS_RESET;
	err = rrdma_make_queues(qp, init, udata);
	if (err)
		goto drop;
	err = rrdma_name(dev, &qp->object, RRDMA_QP);
	if (err)
		goto drop;
	if (init->qp_type == IB_QPT_GSI) {
		ib->qp_num = 1;
		WRITE_ONCE(dev->gsi, qp->object.handle);
		return 0;
	}
	err = rrdma_ask_for_qp(qp);
	if (!err)
		return 0;
	rrdma_unname(&qp->object);
	rrdma_forget_doorbell(qp);	/* the daemon may have postponed one */
drop:
	rrdma_drop_queues(qp);
	return err;
}

static void rrdma_take_attributes(struct rrdma_qp_attributes *to, const struct ib_qp_attr *from, int mask)
{
	to->mask = mask;
	to->state = from->qp_state;
	to->current_state = from->cur_qp_state;
	to->path_mtu = from->path_mtu;
	to->qkey = from->qkey;
	to->rq_psn = from->rq_psn;
	to->sq_psn = from->sq_psn;
	to->dest_qpn = from->dest_qp_num;
	to->access_flags = from->qp_access_flags;
	to->pkey_index = from->pkey_index;
	to->drain_notify = from->en_sqd_async_notify;
	to->max_reads = from->max_rd_atomic;
	to->max_destination_reads = from->max_dest_rd_atomic;
	to->min_rnr_timer = from->min_rnr_timer;
	to->port = from->port_num;
	to->timeout = from->timeout;
	to->retry_count = from->retry_cnt;
	to->rnr_retry = from->rnr_retry;
	if (mask & IB_QP_AV)
		rrdma_fill_address(&to->address, &from->ah_attr);
}

static bool rrdma_ends_work(const struct ib_qp_attr *attr, int mask)
{
	return (mask & IB_QP_STATE) && (attr->qp_state == IB_QPS_ERR || attr->qp_state == IB_QPS_RESET);
}

/* A QP whose daemon is gone can only be destroyed, reset or moved to the error state. */
static int rrdma_modify_dead(struct rrdma_qp *qp, const struct ib_qp_attr *attr, int mask)
{
	if (!rrdma_ends_work(attr, mask))
		return -ENETDOWN;
	qp->attr.qp_state = IB_QPS_ERR;
	rrdma_flush_qp(qp);
	return 0;
}

int rrdma_modify_qp(struct ib_qp *ib, struct ib_qp_attr *attr, int mask, struct ib_udata *udata)
{
	struct rrdma_qp *qp = to_qp(ib);
	struct rrdma_request request = { .op = RRDMA_OP_MODIFY_QP, .handle = qp->object.handle };
	int err;

	if (mask & ~IB_QP_ATTR_STANDARD_BITS)
		return -EOPNOTSUPP;
	if (mask & (IB_QP_ALT_PATH | IB_QP_PATH_MIG_STATE | IB_QP_CAP))
		return -EOPNOTSUPP;
	if (ib->qp_type == IB_QPT_GSI) {
		if (mask & IB_QP_STATE)
			qp->attr.qp_state = attr->qp_state;
		return 0;
	}
	if (READ_ONCE(qp->dead))
		return rrdma_modify_dead(qp, attr, mask);
	rrdma_take_attributes(&request.qp, attr, mask);
	if (qp->user || !rrdma_ends_work(attr, mask)) {
		err = rrdma_ask(qp->object.dev, READ_ONCE(qp->object.told), &request, NULL, 0);
	} else {
		/* A kernel user frees its buffers after this, whatever the daemon does: the kernel flushes then. */
		err = rrdma_ask_end(&qp->object, &request);
		if (err)
			return rrdma_modify_dead(qp, attr, mask);
	}
	if (READ_ONCE(qp->dead))
		return rrdma_modify_dead(qp, attr, mask);
	if (err)
		return err;
	if (mask & IB_QP_AV)
		qp->attr.ah_attr = attr->ah_attr;
	if (mask & IB_QP_STATE)
		WRITE_ONCE(qp->attr.qp_state, attr->qp_state);
	if (rrdma_ends_work(attr, mask)) {
		/* A REG_MR that saw the old state has opened its region when this returns. */
		spin_lock_irq(&qp->sends.lock);
		spin_unlock_irq(&qp->sends.lock);
		rrdma_close_fast_of(qp);
	}
	if ((mask & IB_QP_STATE) && attr->qp_state == IB_QPS_RESET)
		rrdma_reset_qp(qp);
	return 0;
}

static void rrdma_describe_qp(struct rrdma_qp *qp, const struct rrdma_qp_attributes *from, struct ib_qp_attr *attr)
{
	attr->qp_state = from->state <= IB_QPS_ERR ? from->state : IB_QPS_ERR;
	attr->cur_qp_state = attr->qp_state;
	attr->path_mtu = clamp_t(u32, from->path_mtu, IB_MTU_256, IB_MTU_4096);
	attr->path_mig_state = IB_MIG_MIGRATED;
	attr->qkey = from->qkey;
	attr->rq_psn = from->rq_psn & 0xffffff;
	attr->sq_psn = from->sq_psn & 0xffffff;
	attr->dest_qp_num = from->dest_qpn & 0xffffff;
	attr->qp_access_flags = from->access_flags;
	attr->pkey_index = 0;
	attr->en_sqd_async_notify = !!from->drain_notify;
	attr->sq_draining = !!from->draining;
	attr->max_rd_atomic = from->max_reads;
	attr->max_dest_rd_atomic = from->max_destination_reads;
	attr->min_rnr_timer = from->min_rnr_timer & 31;
	attr->port_num = RRDMA_PORT;
	attr->timeout = from->timeout & 31;
	attr->retry_cnt = from->retry_count & 7;
	attr->rnr_retry = from->rnr_retry & 7;
}

int rrdma_query_qp(struct ib_qp *ib, struct ib_qp_attr *attr, int mask, struct ib_qp_init_attr *init)
{
	struct rrdma_qp *qp = to_qp(ib);
	struct rrdma_request request = { .op = RRDMA_OP_QUERY_QP, .handle = qp->object.handle };
	struct rrdma_reply reply;
	int err;

	memset(attr, 0, sizeof(*attr));
	attr->qp_state = attr->cur_qp_state = READ_ONCE(qp->dead) ? IB_QPS_ERR : qp->attr.qp_state;
	if (ib->qp_type != IB_QPT_GSI && !READ_ONCE(qp->dead)) {
		err = rrdma_ask(qp->object.dev, READ_ONCE(qp->object.told), &request, &reply, 0);
		if (err && !READ_ONCE(qp->dead))
			return err;
		if (!err)
			rrdma_describe_qp(qp, &reply.qp, attr);
	}
	attr->port_num = RRDMA_PORT;
	attr->cap = qp->cap;
	attr->ah_attr = qp->attr.ah_attr;
	attr->ah_attr.grh.sgid_attr = NULL;	/* its reference is the core's */
	memset(init, 0, sizeof(*init));
	init->event_handler = ib->event_handler;
	init->qp_context = ib->qp_context;
	init->send_cq = ib->send_cq;
	init->recv_cq = ib->recv_cq;
	init->srq = ib->srq;
	init->cap = qp->cap;
	init->sq_sig_type = qp->signal_all ? IB_SIGNAL_ALL_WR : IB_SIGNAL_REQ_WR;
	init->qp_type = ib->qp_type;
	init->port_num = RRDMA_PORT;
	return 0;
}

int rrdma_destroy_qp(struct ib_qp *ib, struct ib_udata *udata)
{
	struct rrdma_qp *qp = to_qp(ib);
	struct rrdma_dev *dev = qp->object.dev;
	struct rrdma_request request = { .op = RRDMA_OP_DESTROY_QP, .handle = qp->object.handle };

	if (ib->qp_type == IB_QPT_GSI)
		WRITE_ONCE(dev->gsi, 0);
	else
		rrdma_ask_end(&qp->object, &request);
	rrdma_unname(&qp->object);
	rrdma_forget_doorbell(qp);
	rrdma_close_fast_of(qp);
	rrdma_forget_completions(qp->send_cq, ib);
	rrdma_forget_completions(qp->receive_cq, ib);
	rrdma_drop_queues(qp);
	return 0;
}

int rrdma_attach_group(struct ib_qp *ib, union ib_gid *gid, u16 lid)
{
	struct rrdma_request request = { .op = RRDMA_OP_ATTACH_GROUP, .handle = to_qp(ib)->object.handle };

	memcpy(request.group.gid, gid->raw, sizeof(request.group.gid));
	return rrdma_ask(to_qp(ib)->object.dev, READ_ONCE(to_qp(ib)->object.told), &request, NULL,
			 RRDMA_OP_DETACH_GROUP);
}

/* Never fails: the core would keep a QP that is being destroyed. */
int rrdma_detach_group(struct ib_qp *ib, union ib_gid *gid, u16 lid)
{
	struct rrdma_request request = { .op = RRDMA_OP_DETACH_GROUP, .handle = to_qp(ib)->object.handle };

	memcpy(request.group.gid, gid->raw, sizeof(request.group.gid));
	rrdma_ask_end(&to_qp(ib)->object, &request);
	return 0;
}

static void rrdma_raise_qp_event(struct rrdma_qp *qp, u32 number)
{
	struct ib_event event = { .device = qp->ib.device, .element.qp = &qp->ib, .event = number };

	if (qp->ib.event_handler)
		qp->ib.event_handler(&event, qp->ib.qp_context);
}

static void rrdma_raise_cq_event(struct rrdma_cq *cq)
{
	struct ib_event event = { .device = cq->ib.device, .element.cq = &cq->ib, .event = IB_EVENT_CQ_ERR };

	if (cq->ib.event_handler)
		cq->ib.event_handler(&event, cq->ib.cq_context);
}

static void rrdma_raise_srq_event(struct rrdma_srq *srq, u32 number)
{
	struct ib_event event = { .device = srq->ib.device, .element.srq = &srq->ib, .event = number };

	srq->limit = 0;
	if (srq->ib.event_handler)
		srq->ib.event_handler(&event, srq->ib.srq_context);
}

/*
 * Only events that a device may raise for the kind of object. None before its creation is sure to succeed: ib_uverbs would
 * free an object that an event still names.
 */
void rrdma_raise_event(struct rrdma_dev *dev, u32 handle, u32 number)
{
	struct rrdma_object *object;

	switch (number) {
	case IB_EVENT_QP_FATAL:
	case IB_EVENT_QP_REQ_ERR:
	case IB_EVENT_QP_ACCESS_ERR:
	case IB_EVENT_COMM_EST:
	case IB_EVENT_SQ_DRAINED:
	case IB_EVENT_QP_LAST_WQE_REACHED:
		object = rrdma_find(dev, handle, RRDMA_QP);
		if (object && READ_ONCE(object->ready))
			rrdma_raise_qp_event(container_of(object, struct rrdma_qp, object), number);
		break;
	case IB_EVENT_CQ_ERR:
		object = rrdma_find(dev, handle, RRDMA_CQ);
		if (object && READ_ONCE(object->ready))
			rrdma_raise_cq_event(container_of(object, struct rrdma_cq, object));
		break;
	case IB_EVENT_SRQ_ERR:
	case IB_EVENT_SRQ_LIMIT_REACHED:
		object = rrdma_find(dev, handle, RRDMA_SRQ);
		if (object && READ_ONCE(object->ready))
			rrdma_raise_srq_event(container_of(object, struct rrdma_srq, object), number);
		break;
	default:
		return;
	}
	if (object)
		rrdma_release(object);
}
