// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Requests to the daemon. A control operation asks and waits, killably and with a timeout. A note is told and forgotten.
 * All are dropped when the daemon goes: waiting callers get -ENETDOWN. A daemon that let a caller wait too long is stalled
 * until it answers: others wait a short time, and the ends of objects do not wait.
 *
 * Names: each object has a handle that the daemon uses. rrdma_find() takes a reference; rrdma_unname() waits until the
 * last one is returned. No reference is held while user memory is touched.
 */
#include <linux/slab.h>

#include "rrdma.h"

struct rrdma_call {
	struct list_head entry;
	struct rrdma_request request;
	struct rrdma_reply reply;
	struct completion done;
	/* Under dev->lock. */
	bool taken;			/* the daemon has read it */
	bool answered;			/* and in no list */
};

int rrdma_name(struct rrdma_dev *dev, struct rrdma_object *object, enum rrdma_kind kind)
{
	static atomic_long_t serials;
	int err;

	object->dev = dev;
	object->kind = kind;
	object->ready = false;
	object->told = 0;
	object->serial = atomic_long_inc_return(&serials);
	refcount_set(&object->refs, 1);
	init_completion(&object->unused);
	/* Cyclic: a daemon that is late with the end of an object does not take the next one for it. */
	err = xa_alloc_cyclic_irq(&dev->objects, &object->handle, object, XA_LIMIT(1, RRDMA_HANDLE_MAX),
				  &dev->next_handle, GFP_KERNEL);
	return err < 0 ? err : 0;
}

void rrdma_unname(struct rrdma_object *object)
{
	xa_erase_irq(&object->dev->objects, object->handle);
	rrdma_release(object);
	wait_for_completion(&object->unused);
}

struct rrdma_object *rrdma_find(struct rrdma_dev *dev, u32 handle, enum rrdma_kind kind)
{
	struct rrdma_object *object;
	unsigned long flags;

	xa_lock_irqsave(&dev->objects, flags);
	object = xa_load(&dev->objects, handle);
	if (object && (object->kind != kind || !refcount_inc_not_zero(&object->refs)))
		object = NULL;
	xa_unlock_irqrestore(&dev->objects, flags);
	return object;
}

void rrdma_release(struct rrdma_object *object)
{
	if (refcount_dec_and_test(&object->refs))
		complete(&object->unused);
}

static struct rrdma_call *rrdma_make_call(const struct rrdma_request *request, gfp_t how)
{
	struct rrdma_call *call = kzalloc(sizeof(*call), how);

	if (!call)
		return NULL;
	call->request = *request;
	init_completion(&call->done);
	return call;
}

bool rrdma_mark_told(struct rrdma_object *object, u32 daemon)
{
	struct rrdma_dev *dev = object->dev;
	unsigned long flags;
	bool serves;

	spin_lock_irqsave(&dev->lock, flags);
	serves = daemon && daemon == dev->serving;
	if (serves)
		WRITE_ONCE(object->told, daemon);
	spin_unlock_irqrestore(&dev->lock, flags);
	return serves;
}

/* In one step: if the daemon dies after it, the object gets its event; if before, its creation fails. */
bool rrdma_mark_ready(struct rrdma_object *object, u32 daemon)
{
	struct rrdma_dev *dev = object->dev;
	unsigned long flags;
	bool serves;

	spin_lock_irqsave(&dev->lock, flags);
	serves = daemon && daemon == dev->serving;
	if (serves) {
		WRITE_ONCE(object->told, daemon);
		WRITE_ONCE(object->ready, true);
	}
	spin_unlock_irqrestore(&dev->lock, flags);
	return serves;
}

static bool rrdma_enqueue(struct rrdma_dev *dev, u32 daemon, struct rrdma_call *call, bool wants_reply)
{
	unsigned long flags;
	bool served;

	spin_lock_irqsave(&dev->lock, flags);
	served = daemon && daemon == dev->serving;
	if (served) {
		call->request.tag = wants_reply ? ++dev->last_tag : 0;
		list_add_tail(&call->entry, &dev->calls);
	}
	spin_unlock_irqrestore(&dev->lock, flags);
	if (served)
		wake_up(&dev->wait);
	return served;
}

/* REQUIRES: dev->lock. `op` goes to the daemon as a note, in the memory of this call, after what it has read. */
static void rrdma_turn_into_note(struct rrdma_dev *dev, struct rrdma_call *call, u32 op)
{
	call->request.op = op;
	call->request.tag = 0;
	list_add_tail(&call->entry, &dev->calls);
}

/*
 * Takes the call. An unanswered request that the daemon never read is withdrawn, so that a stalled daemon collects no
 * notes; if it was read, `undo` (0: nothing) follows it. An end is never withdrawn.
 */
static int rrdma_wait_for_reply(struct rrdma_dev *dev, u32 daemon, struct rrdma_call *call, struct rrdma_reply *reply,
				u32 undo, bool ends)
{
	long patience = RRDMA_CALL_TIMEOUT, left;
	unsigned long flags;
	bool noted = false;
	int err;

	if (!rrdma_enqueue(dev, daemon, call, true)) {
		kfree(call);
		return -ENETDOWN;
	}
	if (READ_ONCE(dev->stalled))
		patience = ends ? 0 : RRDMA_STALLED_TIMEOUT;
	left = wait_for_completion_killable_timeout(&call->done, patience);
	spin_lock_irqsave(&dev->lock, flags);
	if (call->answered) {
		err = call->reply.error;
		if (err > 0 || err < -MAX_ERRNO)
			err = -EIO;
		if (reply)
			*reply = call->reply;
	} else {
		err = left < 0 ? -EINTR : -ETIMEDOUT;
		if (!left)
			dev->stalled = true;
		list_del(&call->entry);
		noted = undo && (call->taken || ends);
		if (noted)
			rrdma_turn_into_note(dev, call, undo);
	}
	spin_unlock_irqrestore(&dev->lock, flags);
	if (noted)
		wake_up(&dev->wait);
	else
		kfree(call);
	return err;
}

int rrdma_ask(struct rrdma_dev *dev, u32 daemon, const struct rrdma_request *request, struct rrdma_reply *reply,
	      u32 undo)
{
	struct rrdma_call *call = rrdma_make_call(request, GFP_KERNEL);

	return call ? rrdma_wait_for_reply(dev, daemon, call, reply, undo, false) : -ENOMEM;
}

/* The end of something must not be lost: without an answer the request becomes a note. */
int rrdma_ask_end(struct rrdma_object *object, const struct rrdma_request *request)
{
	struct rrdma_call *call = rrdma_make_call(request, GFP_KERNEL | __GFP_NOFAIL);

	return rrdma_wait_for_reply(object->dev, READ_ONCE(object->told), call, NULL, request->op, true);
}

int rrdma_tell(struct rrdma_dev *dev, u32 daemon, const struct rrdma_request *request, gfp_t how)
{
	struct rrdma_call *call = rrdma_make_call(request, how);

	if (!call)
		return -ENOMEM;
	if (rrdma_enqueue(dev, daemon, call, false))
		return 0;
	kfree(call);
	return -ENETDOWN;
}

int rrdma_tell_latest(struct rrdma_object *object, const struct rrdma_request *request)
{
	struct rrdma_dev *dev = object->dev;
	struct rrdma_call *call;
	unsigned long flags;
	bool replaced = false;

	spin_lock_irqsave(&dev->lock, flags);
	list_for_each_entry(call, &dev->calls, entry) {
		if (call->request.tag || call->request.op != request->op || call->request.handle != request->handle)
			continue;
		call->request = *request;
		replaced = true;
		break;
	}
	spin_unlock_irqrestore(&dev->lock, flags);
	return replaced ? 0 : rrdma_tell(dev, READ_ONCE(object->told), request, GFP_KERNEL);
}

void rrdma_tell_destroyed(struct rrdma_object *object, u32 op)
{
	struct rrdma_request request = { .op = op, .handle = object->handle };

	if (rrdma_is_told(object))
		rrdma_tell(object->dev, object->told, &request, GFP_KERNEL | __GFP_NOFAIL);
}

bool rrdma_has_work(struct rrdma_dev *dev)
{
	return READ_ONCE(dev->gone) || !list_empty_careful(&dev->calls) || !list_empty_careful(&dev->postponed);
}

/* Calls go first, in their order; a doorbell refers to a QP that the daemon already has. */
bool rrdma_next_request(struct rrdma_dev *dev, struct rrdma_request *request)
{
	struct rrdma_call *call, *told = NULL;
	struct rrdma_qp *qp;
	unsigned long flags;
	bool found = true;

	spin_lock_irqsave(&dev->lock, flags);
	call = list_first_entry_or_null(&dev->calls, struct rrdma_call, entry);
	qp = list_first_entry_or_null(&dev->postponed, struct rrdma_qp, postponed);
	if (call) {
		*request = call->request;
		if (request->tag) {
			list_move_tail(&call->entry, &dev->asked);
			call->taken = true;
		} else {
			list_del(&call->entry);
			told = call;
			if (request->op == RRDMA_OP_SEND_MAD && dev->mads)
				dev->mads--;
		}
	} else if (qp) {
		memset(request, 0, sizeof(*request));
		request->op = RRDMA_OP_DOORBELL;
		request->handle = qp->object.handle;
		list_del_init(&qp->postponed);
	} else {
		found = false;
	}
	spin_unlock_irqrestore(&dev->lock, flags);
	kfree(told);
	return found;
}

void rrdma_take_reply(struct rrdma_dev *dev, const struct rrdma_reply *reply)
{
	struct rrdma_call *call;
	unsigned long flags;

	spin_lock_irqsave(&dev->lock, flags);
	dev->stalled = false;
	list_for_each_entry(call, &dev->asked, entry) {
		if (call->request.tag != reply->tag)
			continue;
		list_del(&call->entry);
		call->reply = *reply;
		call->answered = true;
		complete(&call->done);
		break;
	}
	spin_unlock_irqrestore(&dev->lock, flags);
}

int rrdma_attach_daemon(struct rrdma_dev *dev, struct rrdma_session *session, struct rrdma_ring *bells)
{
	unsigned long flags;
	int err = 0;

	spin_lock_irqsave(&dev->lock, flags);
	if (dev->gone)
		err = -ENODEV;
	else if (dev->daemon || dev->detaching)
		err = -EBUSY;
	if (!err) {
		dev->daemon = session;
		rrdma_open_bells(dev, bells);
		dev->last_daemon += dev->last_daemon == U32_MAX ? 2 : 1;	/* 0 is nobody */
		WRITE_ONCE(dev->serving, dev->last_daemon);
	}
	spin_unlock_irqrestore(&dev->lock, flags);
	return err;
}

static void rrdma_flush_all(struct rrdma_dev *dev)
{
	struct rrdma_object *object;
	unsigned long index;

	xa_for_each(&dev->objects, index, object) {
		object = rrdma_find(dev, index, RRDMA_QP);
		if (object) {
			struct rrdma_qp *qp = container_of(object, struct rrdma_qp, object);

			rrdma_flush_qp(qp);
			rrdma_raise_event(dev, index, IB_EVENT_QP_FATAL);
			if (qp->srq)
				rrdma_raise_event(dev, index, IB_EVENT_QP_LAST_WQE_REACHED);
			rrdma_release(object);
		}
		object = rrdma_find(dev, index, RRDMA_SRQ);
		if (object) {
			struct rrdma_srq *srq = container_of(object, struct rrdma_srq, object);

			if (srq->user && READ_ONCE(object->told) == dev->last_daemon)
				rrdma_raise_event(dev, index, IB_EVENT_SRQ_ERR);
			else if (!srq->user && READ_ONCE(object->ready))
				rrdma_rewind_queue(&srq->queue);
			rrdma_release(object);
		}
		cond_resched();
	}
}

/* Everything that the daemon knew is lost: its QPs are dead, and callers get an error. */
void rrdma_detach_daemon(struct rrdma_dev *dev, struct rrdma_session *session)
{
	struct rrdma_call *call, *next;
	struct rrdma_ring *bells;
	unsigned long flags;
	LIST_HEAD(told);

	spin_lock_irqsave(&dev->lock, flags);
	if (dev->daemon != session) {
		spin_unlock_irqrestore(&dev->lock, flags);
		return;
	}
	dev->daemon = NULL;
	/* From here on no REG_MR opens a region; one that still does so holds the lock of a queue that is flushed below. */
	WRITE_ONCE(dev->serving, 0);
	dev->stalled = false;
	dev->detaching = true;
	dev->mads = 0;
	list_splice_tail_init(&dev->calls, &dev->asked);
	list_for_each_entry_safe(call, next, &dev->asked, entry) {
		if (!call->request.tag) {
			list_move(&call->entry, &told);
			continue;
		}
		list_del(&call->entry);
		call->reply.error = -ENETDOWN;
		call->answered = true;
		complete(&call->done);
	}
	bells = rrdma_close_bells(dev);
	spin_unlock_irqrestore(&dev->lock, flags);
	rrdma_drop_ring(bells);
	list_for_each_entry_safe(call, next, &told, entry)
		kfree(call);

	rrdma_flush_all(dev);
	rrdma_close_all_fast(dev);
	spin_lock_irqsave(&dev->lock, flags);
	dev->detaching = false;
	spin_unlock_irqrestore(&dev->lock, flags);
}
