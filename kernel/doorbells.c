// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Doorbells: a ring of handles of QPs that have new send requests. The kernel writes it, the daemon reads it and tells how
 * far it has come. A QP is in it once, but QPs may be destroyed and made anew while their handles are there: if the ring is
 * full, the QP is postponed. So is a QP whose requests need something that blocks. Postponed doorbells come by read().
 *
 * The daemon may write anything into the ring. The kernel keeps its own index, and a lie costs only the daemon's users.
 */
#include <linux/poll.h>
#include <linux/sched/stat.h>

#include "rrdma.h"

#define RRDMA_YIELD_TIME (2 * NSEC_PER_MSEC)

struct rrdma_ring *rrdma_make_bells(struct rrdma_dev *dev)
{
	return rrdma_make_ring(dev, RRDMA_QP_MAX, sizeof(u32));
}

/* REQUIRES: dev->lock. A daemon attaches. */
void rrdma_open_bells(struct rrdma_dev *dev, struct rrdma_ring *ring)
{
	dev->bell_ring = ring;
	dev->bells_rung = 0;
	dev->asleep = false;
}

static void rrdma_end_turn(struct rrdma_dev *dev)
{
	WRITE_ONCE(dev->turn, dev->turn + 1);
	wake_up_interruptible_all(&dev->turns);
}

/* REQUIRES: dev->lock. The daemon detaches. Returns the ring, to be dropped without the lock. */
struct rrdma_ring *rrdma_close_bells(struct rrdma_dev *dev)
{
	struct rrdma_ring *ring = dev->bell_ring;

	while (!list_empty(&dev->postponed))
		list_del_init(dev->postponed.next);
	dev->bell_ring = NULL;
	rrdma_end_turn(dev);
	return ring;
}

/* REQUIRES: dev->lock, and a daemon. The doorbells that it has not taken. */
static u32 rrdma_bells_left(struct rrdma_dev *dev)
{
	return (u32)(dev->bells_rung - READ_ONCE(dev->bell_ring->buf->consumer_index)) & (dev->bell_ring->slots - 1);
}

/* REQUIRES: dev->lock, and a daemon. */
static void rrdma_add_bell(struct rrdma_dev *dev, struct rrdma_qp *qp)
{
	struct rrdma_ring *ring = dev->bell_ring;

	*(u32 *)rrdma_slot(ring, dev->bells_rung) = qp->object.handle;
	qp->rung = ++dev->bells_rung;
	smp_store_release(&ring->buf->producer_index, (u32)dev->bells_rung & (ring->slots - 1));
}

/* REQUIRES: dev->lock: a ringer that lost its processor before it wakes the daemon would hold up the doorbells of others. */
static void rrdma_wake_daemon(struct rrdma_dev *dev, bool sync)
{
	dev->asleep = false;
	if (sync)
		wake_up_interruptible_sync_poll(&dev->bells, EPOLLIN | EPOLLRDNORM);
	else
		wake_up_interruptible_poll(&dev->bells, EPOLLIN | EPOLLRDNORM);
}

/* True if it woke the daemon. `turn`: the one that ends when the daemon sleeps again. */
static bool rrdma_ring_bell(struct rrdma_qp *qp, bool sync, u32 *turn)
{
	struct rrdma_dev *dev = qp->object.dev;
	bool asleep = false;
	unsigned long flags;
	u32 left;

	smp_mb();	/* pairs with the daemon's: it sees the request, or the kernel sees that it has taken the last doorbell */
	spin_lock_irqsave(&dev->lock, flags);
	if (!dev->daemon || qp->dead || !list_empty(&qp->postponed))
		goto out;
	left = rrdma_bells_left(dev);
	if (qp->rung > dev->bells_rung - left)
		goto out;
	if (left == dev->bell_ring->slots - 1) {
		list_add_tail(&qp->postponed, &dev->postponed);
		wake_up(&dev->wait);
		goto out;
	}
	rrdma_add_bell(dev, qp);
	*turn = dev->turn;
	asleep = dev->asleep;
	if (asleep)
		rrdma_wake_daemon(dev, sync);
out:
	spin_unlock_irqrestore(&dev->lock, flags);
	return asleep;
}

void rrdma_ring_doorbell(struct rrdma_qp *qp)
{
	u32 turn;

	rrdma_ring_bell(qp, false, &turn);
}

/*
 * For a program. What it waits for is the daemon's work, and a program that polls would keep the processor from it until the
 * scheduler's next tick. So if the doorbell woke the daemon and this processor has another task to run, which most likely is
 * the daemon, the program sleeps until the daemon's turn ends.
 */
void rrdma_ring_and_yield(struct rrdma_qp *qp)
{
	struct rrdma_dev *dev = qp->object.dev;
	u32 turn;

	if (rrdma_ring_bell(qp, true, &turn) && !single_task_running())
		wait_event_interruptible_hrtimeout(dev->turns, READ_ONCE(dev->turn) != turn, RRDMA_YIELD_TIME);
}

/* For poll() of the daemon. If there are none, its turn ends. */
bool rrdma_has_doorbells(struct rrdma_dev *dev)
{
	unsigned long flags;
	bool any = false;

	spin_lock_irqsave(&dev->lock, flags);
	if (dev->bell_ring) {
		any = rrdma_bells_left(dev);
		dev->asleep = !any;
		if (!any)
			rrdma_end_turn(dev);
	}
	spin_unlock_irqrestore(&dev->lock, flags);
	return any;
}

/* What the daemon asks for is done once for all doorbells of the QP until then. */
void rrdma_postpone_doorbell(struct rrdma_qp *qp)
{
	struct rrdma_dev *dev = qp->object.dev;
	unsigned long flags;

	spin_lock_irqsave(&dev->lock, flags);
	if (dev->daemon && !qp->dead)
		list_move_tail(&qp->postponed, &dev->postponed);
	spin_unlock_irqrestore(&dev->lock, flags);
	wake_up(&dev->wait);
}

/* The QP ends. Its handle may stay in the ring: the daemon knows of no QP for it then. */
void rrdma_forget_doorbell(struct rrdma_qp *qp)
{
	struct rrdma_dev *dev = qp->object.dev;
	unsigned long flags;

	spin_lock_irqsave(&dev->lock, flags);
	list_del_init(&qp->postponed);
	spin_unlock_irqrestore(&dev->lock, flags);
}
