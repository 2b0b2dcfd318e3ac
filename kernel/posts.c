// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Work requests and completions. Programs write their rings themselves and only ring the doorbell. For kernel users the
 * requests are written here, and remembered: a completion of the daemon names a slot, and everything that the user gets
 * (wr_id, opcode, the longest length) comes from memory that the daemon cannot see.
 *
 * A posted request grants the daemon its SGEs until it completes. When the daemon is gone, the kernel flushes.
 *
 * Lock order: a CQ's lock, then a queue's. All calls in any context.
 */
#include <linux/slab.h>

#include "rrdma.h"

int rrdma_prepare_queue(struct rrdma_dev *dev, struct rrdma_queue *queue)
{
	u32 i;
	int err;

	queue->stride = ALIGN(struct_size_t(struct rrdma_work, sge, queue->sges), 8);
	queue->work = kvcalloc(queue->ring->slots, queue->stride, GFP_KERNEL);
	if (!queue->work)
		return -ENOMEM;
	for (i = 0; i < queue->ring->slots; i++) {
		INIT_LIST_HEAD(&rrdma_work_at(queue, i)->done);
		rrdma_work_at(queue, i)->queue = queue;
	}
	err = xa_alloc_irq(&dev->grants, &queue->grant, queue, XA_LIMIT(0, (1 << 15) - 1), GFP_KERNEL);
	if (err) {
		kvfree(queue->work);
		queue->work = NULL;
	}
	return err;
}

void rrdma_end_queue(struct rrdma_dev *dev, struct rrdma_queue *queue)
{
	if (!queue->work)
		return;
	xa_erase_irq(&dev->grants, queue->grant);
	kvfree(queue->work);
	queue->work = NULL;
}

struct rrdma_work *rrdma_work_at(struct rrdma_queue *queue, u32 index)
{
	return (struct rrdma_work *)(queue->work + (size_t)(index & (queue->ring->slots - 1)) * queue->stride);
}

/* The next free slot: for receives it may not follow the last one, because an SRQ completes in any order. */
struct rrdma_work *rrdma_take_work(struct rrdma_queue *queue)
{
	struct rrdma_work *work = rrdma_work_at(queue, queue->producer);

	if (queue->used >= queue->entries || work->state != RRDMA_WORK_FREE)
		return NULL;
	queue->used++;
	work->state = RRDMA_WORK_POSTED;
	work->sges = 0;
	return work;
}

static void rrdma_free_work(struct rrdma_work *work)
{
	if (work->state != RRDMA_WORK_FREE)
		work->queue->used--;
	work->state = RRDMA_WORK_FREE;
}

void rrdma_finish_work(struct rrdma_work *work, struct rrdma_qp *qp, enum ib_wc_status status, struct list_head *done)
{
	if (work->state != RRDMA_WORK_POSTED)
		return;
	work->state = RRDMA_WORK_DONE;
	memset(&work->wc, 0, sizeof(work->wc));
	work->wc.wr_id = work->wr_id;
	work->wc.status = status;
	work->wc.opcode = work->opcode;
	work->wc.qp = &qp->ib;
	work->wc.port_num = RRDMA_PORT;
	list_add_tail(&work->done, done);
}

void rrdma_add_done(struct rrdma_cq *cq, struct list_head *done)
{
	unsigned long flags;

	if (list_empty(done))
		return;
	spin_lock_irqsave(&cq->lock, flags);
	list_splice_tail_init(done, &cq->own);
	spin_unlock_irqrestore(&cq->lock, flags);
	rrdma_complete_cq(cq);
}

/* Of one QP, or all. */
void rrdma_forget_completions(struct rrdma_cq *cq, struct ib_qp *qp)
{
	struct rrdma_work *work, *next;
	unsigned long flags;

	spin_lock_irqsave(&cq->lock, flags);
	list_for_each_entry_safe(work, next, &cq->own, done) {
		if (!qp || work->wc.qp == qp)
			list_del_init(&work->done);
	}
	spin_unlock_irqrestore(&cq->lock, flags);
}

static void rrdma_flush_queue(struct rrdma_queue *queue, struct rrdma_qp *qp, struct rrdma_cq *cq)
{
	unsigned long flags;
	LIST_HEAD(done);
	u32 i;

	if (!queue->work)
		return;
	spin_lock_irqsave(&queue->lock, flags);
	for (i = 0; i < queue->ring->slots; i++)
		rrdma_finish_work(rrdma_work_at(queue, queue->producer + i), qp, IB_WC_WR_FLUSH_ERR, &done);
	queue->oldest = queue->producer;
	spin_unlock_irqrestore(&queue->lock, flags);
	rrdma_add_done(cq, &done);
}

/*
 * A program's queue: what the daemon had not completed is between the indices. The CQ is the kernel's now. False: it is not,
 * because a new daemon writes to it.
 */
static bool rrdma_flush_user_queue(struct rrdma_ring *ring, struct rrdma_qp *qp, struct rrdma_cq *cq)
{
	u32 left, index, producer, cqe_index;
	unsigned long flags;

	spin_lock_irqsave(&cq->lock, flags);
	if (rrdma_is_told(&cq->object)) {
		spin_unlock_irqrestore(&cq->lock, flags);
		return !ring;
	}
	rrdma_settle_cq(cq);
	if (!ring)	/* an SRQ's: they stay */
		goto out;
	producer = READ_ONCE(ring->buf->producer_index) & (ring->slots - 1);
	index = READ_ONCE(ring->buf->consumer_index) & (ring->slots - 1);
	cqe_index = READ_ONCE(cq->ring->buf->producer_index) & (cq->ring->slots - 1);
	for (left = ring->slots; left && index != producer; left--) {
		u32 next = (cqe_index + 1) & (cq->ring->slots - 1);
		struct ib_uverbs_wc *wc = rrdma_slot(cq->ring, cqe_index);

		if (next == (READ_ONCE(cq->ring->buf->consumer_index) & (cq->ring->slots - 1)))
			break;
		memset(wc, 0, sizeof(*wc));
		wc->wr_id = *(u64 *)rrdma_slot(ring, index);	/* first in both kinds of request */
		wc->status = IB_WC_WR_FLUSH_ERR;
		wc->qp_num = qp->ib.qp_num;
		wc->port_num = RRDMA_PORT;
		cqe_index = next;
		smp_store_release(&cq->ring->buf->producer_index, cqe_index);
		index = (index + 1) & (ring->slots - 1);
	}
	WRITE_ONCE(ring->buf->consumer_index, index);
out:
	spin_unlock_irqrestore(&cq->lock, flags);
	rrdma_complete_cq(cq);
	return true;
}

bool rrdma_flush_qp(struct rrdma_qp *qp)
{
	struct rrdma_dev *dev = qp->object.dev;
	bool all = true;
	unsigned long flags;

	if (qp->ib.qp_type == IB_QPT_GSI)
		return true;
	spin_lock_irqsave(&dev->lock, flags);
	qp->dead = true;
	spin_unlock_irqrestore(&dev->lock, flags);
	if (qp->user) {
		all = rrdma_flush_user_queue(qp->sends.ring, qp, qp->send_cq);
		all = rrdma_flush_user_queue(qp->receives.ring, qp, qp->receive_cq) && all;
	} else {
		rrdma_flush_queue(&qp->sends, qp, qp->send_cq);
		rrdma_flush_queue(&qp->receives, qp, qp->receive_cq);
		rrdma_close_fast_of(qp);
	}
	return all;
}

static void rrdma_reset_queue(struct rrdma_queue *queue)
{
	unsigned long flags;
	u32 i;

	if (!queue->work)
		return;
	spin_lock_irqsave(&queue->lock, flags);
	for (i = 0; i < queue->ring->slots; i++) {
		if (rrdma_work_at(queue, i)->state == RRDMA_WORK_POSTED)
			rrdma_free_work(rrdma_work_at(queue, i));
	}
	queue->oldest = queue->producer;
	spin_unlock_irqrestore(&queue->lock, flags);
}

/* The daemon has reset the QP: none of its requests completes any more. */
void rrdma_reset_qp(struct rrdma_qp *qp)
{
	rrdma_reset_queue(&qp->sends);
	rrdma_reset_queue(&qp->receives);
}

static int rrdma_fill_list(struct rrdma_queue *queue, struct rrdma_work *work, u32 slot, const struct ib_sge *list,
			   int count, struct rxe_dma_info *dma)
{
	u64 length = 0;
	int i;

	if (count < 0 || count > queue->sges)
		return -EINVAL;
	for (i = 0; i < count; i++) {
		if (list[i].length >> RRDMA_GRANT_OFFSET_BITS)
			return -EINVAL;
		work->sge[i] = list[i];
		length += list[i].length;
		dma->sge[i].length = list[i].length;
		dma->sge[i].lkey = list[i].lkey;
		dma->sge[i].addr = list[i].addr;
		if (list[i].lkey == RRDMA_GRANT_KEY)
			dma->sge[i].addr = RRDMA_GRANT_BASE |
					   (u64)queue->grant << (RRDMA_GRANT_SLOT_BITS + RRDMA_GRANT_SGE_BITS +
								 RRDMA_GRANT_OFFSET_BITS) |
					   (u64)slot << (RRDMA_GRANT_SGE_BITS + RRDMA_GRANT_OFFSET_BITS) |
					   (u64)i << RRDMA_GRANT_OFFSET_BITS;
	}
	work->sges = count;
	dma->length = length;
	dma->num_sge = count;
	return length >> 31 ? -EINVAL : 0;
}

static int rrdma_fill_receive_slot(struct rrdma_queue *queue, struct rrdma_work *work, u32 slot,
				   const struct ib_sge *list, int count)
{
	struct rxe_recv_wqe *wqe = rrdma_slot(queue->ring, slot);

	memset(wqe, 0, sizeof(*wqe));
	wqe->wr_id = slot;
	return rrdma_fill_list(queue, work, slot, list, count, &wqe->dma);
}

/*
 * An SRQ whose daemon is gone. Receives complete in any order, so the ring's index does not say which requests that daemon
 * still had. The kernel knows: they move to the end of the ring, and the next daemon takes them all.
 */
void rrdma_rewind_queue(struct rrdma_queue *queue)
{
	unsigned long flags;
	u32 from, to, left;

	spin_lock_irqsave(&queue->lock, flags);
	from = to = queue->producer;
	for (left = queue->ring->slots; left; left--) {
		struct rrdma_work *work = rrdma_work_at(queue, --from), *moved;

		if (work->state != RRDMA_WORK_POSTED || --to == from)
			continue;
		moved = rrdma_work_at(queue, to);
		moved->wr_id = work->wr_id;
		moved->opcode = work->opcode;
		moved->signaled = work->signaled;
		moved->state = RRDMA_WORK_POSTED;
		work->state = RRDMA_WORK_FREE;
		rrdma_fill_receive_slot(queue, moved, to & (queue->ring->slots - 1), work->sge, work->sges);
	}
	WRITE_ONCE(queue->ring->buf->consumer_index, to & (queue->ring->slots - 1));
	WRITE_ONCE(queue->ring->buf->producer_index, queue->producer & (queue->ring->slots - 1));
	spin_unlock_irqrestore(&queue->lock, flags);
}

static int rrdma_fill_send(struct rrdma_qp *qp, struct rrdma_work *work, const struct ib_send_wr *wr,
			   struct rxe_send_wqe *wqe)
{
	switch (wr->opcode) {
	case IB_WR_SEND:
	case IB_WR_SEND_WITH_IMM:
	case IB_WR_SEND_WITH_INV:
		work->opcode = IB_WC_SEND;
		if (qp->ib.qp_type == IB_QPT_UD) {
			wqe->wr.wr.ud.remote_qpn = ud_wr(wr)->remote_qpn;
			wqe->wr.wr.ud.remote_qkey = ud_wr(wr)->remote_qkey;
			wqe->wr.wr.ud.av = to_ah(ud_wr(wr)->ah)->av;
		}
		break;
	case IB_WR_RDMA_WRITE:
	case IB_WR_RDMA_WRITE_WITH_IMM:
	case IB_WR_RDMA_READ:
		work->opcode = wr->opcode == IB_WR_RDMA_READ ? IB_WC_RDMA_READ : IB_WC_RDMA_WRITE;
		wqe->wr.wr.rdma.remote_addr = rdma_wr(wr)->remote_addr;
		wqe->wr.wr.rdma.rkey = rdma_wr(wr)->rkey;
		break;
	case IB_WR_ATOMIC_CMP_AND_SWP:
	case IB_WR_ATOMIC_FETCH_AND_ADD:
		work->opcode = wr->opcode == IB_WR_ATOMIC_CMP_AND_SWP ? IB_WC_COMP_SWAP : IB_WC_FETCH_ADD;
		wqe->wr.wr.atomic.remote_addr = atomic_wr(wr)->remote_addr;
		wqe->wr.wr.atomic.compare_add = atomic_wr(wr)->compare_add;
		wqe->wr.wr.atomic.swap = atomic_wr(wr)->swap;
		wqe->wr.wr.atomic.rkey = atomic_wr(wr)->rkey;
		break;
	case IB_WR_LOCAL_INV:
		work->opcode = IB_WC_LOCAL_INV;
		break;
	case IB_WR_REG_MR: {
		struct rrdma_mr *mr = to_mr(reg_wr(wr)->mr);

		work->opcode = IB_WC_REG_MR;
		wqe->wr.wr.mw.addr = mr->ib.iova;
		wqe->wr.wr.mw.length = mr->ib.length;
		wqe->wr.wr.mw.mr_lkey = mr->object.handle;
		wqe->wr.wr.mw.rkey = reg_wr(wr)->key;
		wqe->wr.wr.mw.access = reg_wr(wr)->access;
		break;
	}
	default:
		return -EOPNOTSUPP;
	}
	return 0;
}

/* What a request changes in the kernel, before the daemon sees it. */
static void rrdma_apply_send(struct rrdma_qp *qp, const struct ib_send_wr *wr)
{
	enum ib_qp_state state = READ_ONCE(qp->attr.qp_state);

	if (READ_ONCE(qp->dead))
		return;		/* its keys were those of another daemon */
	if (wr->opcode == IB_WR_LOCAL_INV) {
		rrdma_close_key(qp, wr->ex.invalidate_rkey);
	} else if (wr->opcode == IB_WR_REG_MR) {
		struct rrdma_mr *mr = to_mr(reg_wr(wr)->mr);

		mr->ib.lkey = mr->ib.rkey = reg_wr(wr)->key;
		/* In the error state it flushes, and then its memory is the user's again. */
		if (state == IB_QPS_RTS || state == IB_QPS_SQD)
			rrdma_open_fast(mr, qp, reg_wr(wr)->access);
	}
}

static int rrdma_post_one_send(struct rrdma_qp *qp, const struct ib_send_wr *wr)
{
	struct rrdma_queue *queue = &qp->sends;
	u32 slot = queue->producer & (queue->ring->slots - 1);
	struct rxe_send_wqe *wqe = rrdma_slot(queue->ring, slot);
	struct rrdma_work *work;
	int err;

	if (wr->send_flags & IB_SEND_INLINE)
		return -EINVAL;
	work = rrdma_take_work(queue);
	if (!work)
		return -ENOMEM;
	memset(wqe, 0, sizeof(*wqe));
	work->wr_id = wr->wr_id;
	work->signaled = qp->signal_all || (wr->send_flags & IB_SEND_SIGNALED);
	err = rrdma_fill_send(qp, work, wr, wqe);
	if (!err)
		err = rrdma_fill_list(queue, work, slot, wr->sg_list, wr->num_sge, &wqe->dma);
	if (err) {
		rrdma_free_work(work);
		return err;
	}
	wqe->wr.wr_id = slot;
	wqe->wr.opcode = wr->opcode;
	wqe->wr.send_flags = wr->send_flags;
	wqe->wr.ex.imm_data = wr->ex.imm_data;
	rrdma_apply_send(qp, wr);
	queue->producer++;
	smp_store_release(&queue->ring->buf->producer_index, queue->producer & (queue->ring->slots - 1));
	return 0;
}

int rrdma_post_send(struct ib_qp *ib, const struct ib_send_wr *wr, const struct ib_send_wr **bad)
{
	struct rrdma_qp *qp = to_qp(ib);
	unsigned long flags;
	int err = 0;

	if (ib->qp_type == IB_QPT_GSI)
		return rrdma_gsi_post_send(qp, wr, bad);
	if (READ_ONCE(qp->attr.qp_state) < IB_QPS_RTS) {
		*bad = wr;
		return -EINVAL;
	}
	if (!qp->user) {
		spin_lock_irqsave(&qp->sends.lock, flags);
		for (; wr; wr = wr->next) {
			err = rrdma_post_one_send(qp, wr);
			if (err) {
				*bad = wr;
				break;
			}
		}
		spin_unlock_irqrestore(&qp->sends.lock, flags);
	}
	if (!READ_ONCE(qp->dead)) {
		if (qp->user)
			rrdma_ring_and_yield(qp);
		else
			rrdma_ring_doorbell(qp);
	} else if (!rrdma_flush_qp(qp) && !err) {
		*bad = wr;
		err = -ENETDOWN;	/* it never completes */
	}
	return err;
}

static int rrdma_post_receives(struct rrdma_queue *queue, const struct ib_recv_wr *wr, const struct ib_recv_wr **bad)
{
	unsigned long flags;
	int err = 0;

	spin_lock_irqsave(&queue->lock, flags);
	for (; wr && !err; wr = wr->next) {
		u32 slot = queue->producer & (queue->ring->slots - 1);
		struct rrdma_work *work = rrdma_take_work(queue);

		*bad = wr;
		if (!work) {
			err = -ENOMEM;
			break;
		}
		work->wr_id = wr->wr_id;
		work->opcode = IB_WC_RECV;
		work->signaled = true;
		err = rrdma_fill_receive_slot(queue, work, slot, wr->sg_list, wr->num_sge);
		if (err) {
			rrdma_free_work(work);
			break;
		}
		queue->producer++;
		smp_store_release(&queue->ring->buf->producer_index, queue->producer & (queue->ring->slots - 1));
	}
	spin_unlock_irqrestore(&queue->lock, flags);
	return err;
}

int rrdma_post_recv(struct ib_qp *ib, const struct ib_recv_wr *wr, const struct ib_recv_wr **bad)
{
	struct rrdma_qp *qp = to_qp(ib);
	int err;

	if (qp->user || qp->srq) {
		*bad = wr;
		return -EINVAL;
	}
	if (ib->qp_type == IB_QPT_GSI)
		return rrdma_gsi_post_recv(qp, wr, bad);
	err = rrdma_post_receives(&qp->receives, wr, bad);
	if (READ_ONCE(qp->dead))
		rrdma_flush_qp(qp);
	else if (READ_ONCE(qp->attr.qp_state) == IB_QPS_ERR)
		rrdma_ring_doorbell(qp);	/* the daemon flushes; otherwise it looks when it needs one */
	return err;
}

int rrdma_post_srq_recv(struct ib_srq *ib, const struct ib_recv_wr *wr, const struct ib_recv_wr **bad)
{
	if (to_srq(ib)->user) {
		*bad = wr;
		return -EINVAL;
	}
	return rrdma_post_receives(&to_srq(ib)->queue, wr, bad);
}

/* Retires the send in this slot and the unsignaled ones before it. NULL: the daemon may not complete it now. */
static struct rrdma_work *rrdma_retire_send(struct rrdma_queue *queue, u64 slot, bool success, u64 *wr_id)
{
	u32 index = queue->oldest;
	struct rrdma_work *work;

	if (slot >= queue->ring->slots)
		return NULL;
	work = rrdma_work_at(queue, slot);
	if (work->state != RRDMA_WORK_POSTED || (success && !work->signaled))
		return NULL;
	for (; (index & (queue->ring->slots - 1)) != slot; index++) {
		work = rrdma_work_at(queue, index);
		if (work->state != RRDMA_WORK_POSTED || work->signaled)
			return NULL;
	}
	for (; queue->oldest != index + 1; queue->oldest++)
		rrdma_free_work(rrdma_work_at(queue, queue->oldest));
	work = rrdma_work_at(queue, index);
	*wr_id = work->wr_id;
	return work;
}

static struct rrdma_work *rrdma_retire_receive(struct rrdma_queue *queue, u64 slot, u64 *wr_id)
{
	struct rrdma_work *work;

	if (slot >= queue->ring->slots)
		return NULL;
	work = rrdma_work_at(queue, slot);
	if (work->state != RRDMA_WORK_POSTED)
		return NULL;
	*wr_id = work->wr_id;
	rrdma_free_work(work);
	return work;
}

static u32 rrdma_length_of(const struct rrdma_work *work)
{
	u32 length = 0, i;

	for (i = 0; i < work->sges; i++)
		length += work->sge[i].length;
	return length;
}

/* Believes the daemon only what it alone can know. */
static bool rrdma_take_cqe(struct rrdma_qp *qp, const struct ib_uverbs_wc *from, struct ib_wc *wc)
{
	bool receive = from->opcode & IB_WC_RECV;
	struct rrdma_queue *queue = !receive ? &qp->sends : qp->srq ? &qp->srq->queue : &qp->receives;
	struct rrdma_work *work;

	if (!queue->work)
		return false;
	memset(wc, 0, sizeof(*wc));
	spin_lock(&queue->lock);
	work = receive ? rrdma_retire_receive(queue, from->wr_id, &wc->wr_id) :
			 rrdma_retire_send(queue, from->wr_id, from->status == IB_WC_SUCCESS, &wc->wr_id);
	if (work) {
		wc->opcode = work->opcode;
		wc->byte_len = min_t(u32, from->byte_len, rrdma_length_of(work));
	}
	spin_unlock(&queue->lock);
	if (!work)
		return false;
	wc->status = from->status <= IB_WC_GENERAL_ERR ? from->status : IB_WC_GENERAL_ERR;
	wc->vendor_err = from->vendor_err;
	wc->qp = &qp->ib;
	wc->port_num = RRDMA_PORT;
	if (wc->status != IB_WC_SUCCESS)
		rrdma_close_fast_of(qp);
	if (!receive)
		return true;
	/* Its length stays within the receive request, too: users take it for the length of what is there. */
	if (from->opcode == IB_WC_RECV_RDMA_WITH_IMM)
		wc->opcode = IB_WC_RECV_RDMA_WITH_IMM;
	wc->src_qp = from->src_qp & 0xffffff;
	wc->wc_flags = from->wc_flags & (IB_WC_GRH | IB_WC_WITH_IMM);
	if (from->wc_flags & RRDMA_WC_WITH_INVALIDATE) {
		wc->wc_flags |= IB_WC_WITH_INVALIDATE;
		wc->ex.invalidate_rkey = (__force u32)from->ex.imm_data;
		rrdma_close_key(qp, wc->ex.invalidate_rkey);
	} else {
		wc->ex.imm_data = (__force __be32)from->ex.imm_data;
	}
	return true;
}

/* `tries`: a daemon may write CQEs of nothing for ever. */
static bool rrdma_poll_ring(struct rrdma_cq *cq, struct ib_wc *wc, u32 *tries)
{
	struct rxe_queue_buf *buf = cq->ring->buf;
	u32 mask = cq->ring->slots - 1;

	for (; *tries; --*tries) {
		u32 index = READ_ONCE(buf->consumer_index) & mask;
		struct rrdma_object *object;
		struct ib_uverbs_wc cqe;
		struct rrdma_qp *qp;
		bool taken = false;
		u32 handle;
		u8 *slot;

		if ((smp_load_acquire(&buf->producer_index) & mask) == index)
			return false;
		slot = rrdma_slot(cq->ring, index);
		memcpy(&cqe, slot, sizeof(cqe));
		handle = READ_ONCE(*(u32 *)(slot + RRDMA_CQE_QP_AT));
		smp_store_release(&buf->consumer_index, (index + 1) & mask);
		object = rrdma_find(cq->object.dev, handle, RRDMA_QP);
		if (!object)
			continue;
		qp = container_of(object, struct rrdma_qp, object);
		/* QP1 is the kernel's alone: its queues must outlive this daemon. */
		if (!qp->user && qp->ib.qp_type != IB_QPT_GSI &&
		    (cqe.opcode & IB_WC_RECV ? qp->receive_cq : qp->send_cq) == cq)
			taken = rrdma_take_cqe(qp, &cqe, wc);
		rrdma_release(object);
		if (taken)
			return true;
	}
	return false;
}

int rrdma_poll_cq(struct ib_cq *ib, int count, struct ib_wc *wc)
{
	struct rrdma_cq *cq = to_cq(ib);
	unsigned long flags;
	int taken = 0;
	u32 tries;

	if (cq->user)
		return 0;
	tries = cq->ring->slots;
	spin_lock_irqsave(&cq->lock, flags);
	while (taken < count) {
		struct rrdma_work *work;

		if (rrdma_poll_ring(cq, &wc[taken], &tries)) {
			taken++;
			continue;
		}
		work = list_first_entry_or_null(&cq->own, struct rrdma_work, done);
		if (!work)
			break;
		list_del_init(&work->done);
		wc[taken++] = work->wc;
		spin_lock(&work->queue->lock);
		rrdma_free_work(work);
		spin_unlock(&work->queue->lock);
	}
	spin_unlock_irqrestore(&cq->lock, flags);
	return taken;
}

/* Which way the data of a request goes: the daemon stores what arrives, and loads what leaves. */
static bool rrdma_work_stores(const struct rrdma_work *work)
{
	switch (work->opcode) {
	case IB_WC_RECV:
	case IB_WC_RDMA_READ:
	case IB_WC_COMP_SWAP:
	case IB_WC_FETCH_ADD:
		return true;
	default:
		return false;
	}
}

static ssize_t rrdma_copy_part(struct rrdma_dev *dev, u64 place, void *buffer, size_t octets, bool store)
{
	u32 offset = place & ((1U << RRDMA_GRANT_OFFSET_BITS) - 1);
	u32 sge = place >> RRDMA_GRANT_OFFSET_BITS & ((1U << RRDMA_GRANT_SGE_BITS) - 1);
	u32 slot = place >> (RRDMA_GRANT_OFFSET_BITS + RRDMA_GRANT_SGE_BITS) & ((1U << RRDMA_GRANT_SLOT_BITS) - 1);
	u32 grant = (place & ~RRDMA_GRANT_BASE) >>
		    (RRDMA_GRANT_OFFSET_BITS + RRDMA_GRANT_SGE_BITS + RRDMA_GRANT_SLOT_BITS);
	struct rrdma_queue *queue;
	struct rrdma_work *work;
	ssize_t err = -EFAULT;
	unsigned long flags;
	u8 *at;

	xa_lock_irqsave(&dev->grants, flags);
	queue = xa_load(&dev->grants, grant);
	if (!queue || slot >= queue->ring->slots)
		goto unlock;
	spin_lock(&queue->lock);
	work = rrdma_work_at(queue, slot);
	if (work->state == RRDMA_WORK_POSTED && sge < work->sges && work->sge[sge].lkey == RRDMA_GRANT_KEY &&
	    rrdma_work_stores(work) == store && offset + octets <= work->sge[sge].length) {
		at = (u8 *)(uintptr_t)work->sge[sge].addr + offset;
		if (store)
			memcpy(at, buffer, octets);
		else
			memcpy(buffer, at, octets);
		err = 0;
	}
	spin_unlock(&queue->lock);
unlock:
	xa_unlock_irqrestore(&dev->grants, flags);
	return err;
}

/* In small parts: each is copied under the lock that the end of the grant takes. */
ssize_t rrdma_copy_granted(struct rrdma_dev *dev, u64 place, void *buffer, size_t octets, bool store)
{
	while (octets) {
		size_t part = min_t(size_t, octets, SZ_4K);
		ssize_t err = rrdma_copy_part(dev, place, buffer, part, store);

		if (err)
			return err;
		place += part;
		buffer += part;
		octets -= part;
	}
	return 0;
}
