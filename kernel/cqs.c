// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* CQs: creation, arming, resizing, destruction. posts.c polls those of kernel users. */
#include <linux/slab.h>

#include "rrdma.h"

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 11, 0)
int rrdma_create_cq(struct ib_cq *ib, const struct ib_cq_init_attr *attr, struct uverbs_attr_bundle *attrs)
{
	struct ib_udata *udata = attrs ? &attrs->driver_udata : NULL;
#else
int rrdma_create_cq(struct ib_cq *ib, const struct ib_cq_init_attr *attr, struct ib_udata *udata)
{
#endif
	struct rrdma_cq *cq = to_cq(ib);
	struct rrdma_dev *dev = to_dev(ib->device);
	struct rxe_create_cq_resp response = {};
	int err;

	if (attr->flags)
		return -EOPNOTSUPP;
	if (!attr->cqe || attr->cqe > RRDMA_CQE_MAX)
		return -EINVAL;
	if (udata && udata->outlen < sizeof(response))
		return -EINVAL;
	spin_lock_init(&cq->lock);
	mutex_init(&cq->resizing);
	INIT_LIST_HEAD(&cq->own);
	cq->user = udata;
	cq->ring = rrdma_make_ring(dev, attr->cqe, sizeof(struct ib_uverbs_wc));
	if (IS_ERR(cq->ring))
		return PTR_ERR(cq->ring);
	err = rrdma_name(dev, &cq->object, RRDMA_CQ);
	if (err)
		goto drop;
	if (udata) {
		struct rrdma_ucontext *ucontext = rdma_udata_to_drv_context(udata, struct rrdma_ucontext, ib);

		err = rrdma_show_ring(cq->ring, &ucontext->ib, &response.mi);
		if (!err)
			err = ib_copy_to_udata(udata, &response, sizeof(response));
		if (err)
			goto unname;
	}
	ib->cqe = attr->cqe;
	WRITE_ONCE(cq->object.ready, true);
	return 0;

unname:
	rrdma_unname(&cq->object);
drop:
	rrdma_drop_ring(cq->ring);
	return err;
}

int rrdma_destroy_cq(struct ib_cq *ib, struct ib_udata *udata)
{
	struct rrdma_cq *cq = to_cq(ib);

	rrdma_tell_destroyed(&cq->object, RRDMA_OP_DESTROY_CQ);
	rrdma_unname(&cq->object);
	/* The core has ended it, but a daemon may have raised one more event since. None comes from here on. */
	if (!cq->user && (ib->poll_ctx == IB_POLL_WORKQUEUE || ib->poll_ctx == IB_POLL_UNBOUND_WORKQUEUE))
		cancel_work_sync(&ib->work);
	rrdma_forget_completions(cq, NULL);
	rrdma_drop_ring(cq->ring);
	return 0;
}

static u32 *rrdma_armed_word(const struct rrdma_ring *ring)
{
	return (u32 *)ring->buf + RRDMA_ARMED_WORD;
}

static bool rrdma_cq_is_empty(struct rrdma_cq *cq)
{
	u32 mask = cq->ring->slots - 1;

	return list_empty(&cq->own) && !((READ_ONCE(cq->ring->buf->producer_index) ^
					  READ_ONCE(cq->ring->buf->consumer_index)) & mask);
}

int rrdma_req_notify_cq(struct ib_cq *ib, enum ib_cq_notify_flags flags)
{
	struct rrdma_cq *cq = to_cq(ib);
	int wanted = (flags & IB_CQ_SOLICITED_MASK) == IB_CQ_SOLICITED ? RRDMA_ARMED_SOLICITED : RRDMA_ARMED_ANY;
	unsigned long irq;
	int missed;

	spin_lock_irqsave(&cq->lock, irq);
	cq->armed = max(cq->armed, wanted);
	WRITE_ONCE(*rrdma_armed_word(cq->ring), cq->armed);
	smp_mb();	/* pairs with the daemon's, between its CQE and its look at the word */
	missed = (flags & IB_CQ_REPORT_MISSED_EVENTS) && !rrdma_cq_is_empty(cq);
	spin_unlock_irqrestore(&cq->lock, irq);
	return missed;
}

/* One event for each time that the CQ was armed. */
void rrdma_complete_cq(struct rrdma_cq *cq)
{
	unsigned long flags;
	bool armed;

	spin_lock_irqsave(&cq->lock, flags);
	armed = cq->armed;
	cq->armed = 0;
	WRITE_ONCE(*rrdma_armed_word(cq->ring), 0);
	spin_unlock_irqrestore(&cq->lock, flags);
	if (armed && cq->ib.comp_handler)
		cq->ib.comp_handler(&cq->ib, cq->ib.cq_context);
}

/* For a CQ that the daemon does not write to. REQUIRES: cq->lock. */
static int rrdma_move_completions(struct rrdma_cq *cq, struct rrdma_ring *to, u32 entries)
{
	struct rxe_queue_buf *from = cq->ring->buf;
	u32 mask = cq->ring->slots - 1, count = 0;
	u32 index = READ_ONCE(from->consumer_index) & mask, end = READ_ONCE(from->producer_index) & mask;

	if (((end - index) & mask) > entries)
		return -EINVAL;
	for (; index != end; index = (index + 1) & mask)
		memcpy(rrdma_slot(to, count++), rrdma_slot(cq->ring, index), sizeof(struct ib_uverbs_wc));
	to->buf->producer_index = count;
	return 0;
}

/* REQUIRES: cq->lock. Publishes the completion in which the daemon died. */
static void rrdma_settle_published(struct rrdma_cq *cq, struct rrdma_ring *ring)
{
	struct rrdma_published *published = (void *)((u32 *)ring->buf + RRDMA_PUBLISHED_WORD);
	u32 named = READ_ONCE(published->queue);
	struct rrdma_ring *queue = NULL;
	struct rrdma_object *object;
	struct rrdma_qp *qp;

	WRITE_ONCE(published->queue, 0);
	object = rrdma_find(cq->object.dev, named >> 1, RRDMA_QP);
	if (!object)
		return;
	/* The program may have written it: it reaches only its own queues. */
	qp = container_of(object, struct rrdma_qp, object);
	if (!(named & 1))
		queue = qp->send_cq == cq ? qp->sends.ring : NULL;
	else if (qp->receive_cq == cq)
		queue = qp->srq ? qp->srq->queue.ring : qp->receives.ring;
	if (qp->user && queue) {
		WRITE_ONCE(queue->buf->consumer_index, READ_ONCE(published->consumer) & (queue->slots - 1));
		WRITE_ONCE(ring->buf->producer_index, READ_ONCE(published->producer) & (ring->slots - 1));
	}
	rrdma_release(object);
}

/*
 * Nobody knows whether the daemon had begun the new ring when it died: it publishes there everything at once. If not, what
 * is in the old one moves now, if it fits.
 */
void rrdma_settle_cq(struct rrdma_cq *cq)
{
	rrdma_settle_published(cq, cq->ring);
	if (!cq->next)
		return;
	rrdma_settle_published(cq, cq->next);
	if (cq->moved)
		return;
	if (!(READ_ONCE(cq->next->buf->producer_index) & (cq->next->slots - 1)) &&
	    rrdma_move_completions(cq, cq->next, cq->next_entries))
		return;
	swap(cq->ring, cq->next);
	cq->moved = true;
}

/* Asks the daemon, if it writes to the CQ. REQUIRES: cq->resizing, and cq->next. Leaves the ring to drop in cq->next. */
static int rrdma_switch_ring(struct rrdma_cq *cq)
{
	struct rrdma_request request = { .op = RRDMA_OP_RESIZE_CQ, .handle = cq->object.handle };
	bool told = rrdma_is_told(&cq->object), missed;
	int err = 0;

	if (told) {
		request.resize.ring = rrdma_ring_form(cq->next);
		request.resize.entries = cq->next_entries;
		err = rrdma_ask(cq->object.dev, READ_ONCE(cq->object.told), &request, NULL, 0);
	}
	spin_lock_irq(&cq->lock);
	if (!told || err == -ENETDOWN) {
		err = -EINVAL;
		rrdma_settle_cq(cq);
	} else if (!err && !cq->moved) {
		swap(cq->ring, cq->next);
		cq->moved = true;
	}
	if (cq->moved)
		err = 0;	/* its flushed requests may be there already, whatever the daemon answered */
	WRITE_ONCE(*rrdma_armed_word(cq->ring), cq->armed);
	missed = cq->armed && !rrdma_cq_is_empty(cq);
	spin_unlock_irq(&cq->lock);
	if (missed)
		rrdma_complete_cq(cq);	/* it may have come before the armed word */
	return err;
}

/* The provider keeps other threads of the program from the CQ meanwhile, and maps the new ring. */
int rrdma_resize_cq(struct ib_cq *ib, int entries, struct ib_udata *udata)
{
	struct rrdma_cq *cq = to_cq(ib);
	struct rxe_resize_cq_resp response = {};
	struct rrdma_ucontext *ucontext;
	struct rrdma_ring *ring;
	int err;

	if (!cq->user || !udata || udata->outlen < sizeof(response))
		return -EOPNOTSUPP;
	if (entries < 1 || entries > RRDMA_CQE_MAX)
		return -EINVAL;
	ucontext = rdma_udata_to_drv_context(udata, struct rrdma_ucontext, ib);
	ring = rrdma_make_ring(cq->object.dev, entries, sizeof(struct ib_uverbs_wc));
	if (IS_ERR(ring))
		return PTR_ERR(ring);
	err = rrdma_show_ring(ring, &ucontext->ib, &response.mi);
	if (!err)
		err = ib_copy_to_udata(udata, &response, sizeof(response));
	if (!err)
		err = mutex_lock_killable(&cq->resizing);
	if (err)
		goto drop;
	spin_lock_irq(&cq->lock);
	*rrdma_armed_word(ring) = cq->armed;
	cq->next = ring;
	cq->next_entries = entries;
	cq->moved = false;
	spin_unlock_irq(&cq->lock);
	err = rrdma_switch_ring(cq);
	if (!err)
		ib->cqe = entries;
	spin_lock_irq(&cq->lock);
	ring = cq->next;
	cq->next = NULL;
	spin_unlock_irq(&cq->lock);
	mutex_unlock(&cq->resizing);
drop:
	rrdma_drop_ring(ring);
	return err;
}

int rrdma_cq_form(struct rrdma_cq *cq, u32 daemon, struct rrdma_queue_form *form)
{
	unsigned long flags;

	/* The daemon must not get the ring that a resize is about to replace. */
	if (mutex_lock_killable(&cq->resizing))
		return -EINTR;
	spin_lock_irqsave(&cq->lock, flags);
	form->handle = cq->object.handle;
	form->ring = rrdma_ring_form(cq->ring);
	rrdma_mark_told(&cq->object, daemon);	/* the kernel writes no CQE of a program any more */
	spin_unlock_irqrestore(&cq->lock, flags);
	mutex_unlock(&cq->resizing);
	return 0;
}
