// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Memory regions. User memory is pinned, and the daemon maps its pages. Kernel memory is never mapped: the daemon copies
 * from and to it through the file, within what a work request or a fast registration grants.
 */
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "rrdma.h"

/* Every SGE of a kernel user is a grant, whatever its key. A key for peers to all of memory does not exist. */
struct ib_mr *rrdma_get_dma_mr(struct ib_pd *ib, int access)
{
	struct rrdma_mr *mr;

	if (access & (IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_ATOMIC))
		return ERR_PTR(-EOPNOTSUPP);
	mr = kzalloc(sizeof(*mr), GFP_KERNEL);
	if (!mr)
		return ERR_PTR(-ENOMEM);
	mr->ib.lkey = mr->ib.rkey = RRDMA_GRANT_KEY;
	return &mr->ib;
}

static int rrdma_list_pages(struct rrdma_mr *mr)
{
	struct sg_page_iter iter;
	u64 *page;

	mr->page_count = ib_umem_num_pages(mr->umem);
	mr->pages = page = kvcalloc(mr->page_count, sizeof(*page), GFP_KERNEL);
	if (!page)
		return -ENOMEM;
	for_each_sgtable_page(&mr->umem->sgt_append.sgt, &iter, 0) {
		if (page == mr->pages + mr->page_count)
			return -EINVAL;
		*page++ = page_to_pfn(sg_page_iter_page(&iter));
	}
	return page == mr->pages + mr->page_count ? 0 : -EINVAL;
}

/* Names the region and tells the daemon, which gives it a key. The request lacks only its handle and domain. */
static int rrdma_introduce(struct rrdma_mr *mr, struct ib_pd *ib, struct rrdma_request *request)
{
	struct rrdma_dev *dev = to_dev(ib->device);
	u32 daemon = rrdma_serving(dev);
	struct rrdma_reply reply;
	int err = rrdma_name(dev, &mr->object, RRDMA_MR);

	if (err)
		return err;
	request->handle = mr->object.handle;
	request->region.pd = to_pd(ib)->object.handle;
	rrdma_mark_told(&to_pd(ib)->object, daemon);
	err = rrdma_ask(dev, daemon, request, &reply, RRDMA_OP_DEREGISTER);
	if (!err && !rrdma_mark_told(&mr->object, daemon))
		err = -ENETDOWN;
	if (err) {
		rrdma_unname(&mr->object);
		if (mr->umem)
			rrdma_unmap_region(mr);
		return err;
	}
	mr->ib.lkey = mr->ib.rkey = reply.number;
	return 0;
}

struct ib_mr *rrdma_reg_user_mr(struct ib_pd *ib, u64 start, u64 length, u64 virt, int access, struct ib_udata *udata)
{
	struct rrdma_mr *mr = kzalloc(sizeof(*mr), GFP_KERNEL);
	struct rrdma_request request = { .op = RRDMA_OP_REGISTER };
	int err;

	if (!mr)
		return ERR_PTR(-ENOMEM);
	mr->umem = ib_umem_get(ib->device, start, length, access);
	if (IS_ERR(mr->umem)) {
		err = PTR_ERR(mr->umem);
		goto free;
	}
	err = rrdma_list_pages(mr);
	if (err)
		goto release;
	mr->rights = access;
	mr->iova = virt;
	request.region.access = access;
	request.region.address = virt;
	request.region.length = length;
	request.region.first_offset = ib_umem_offset(mr->umem);
	request.region.pages = mr->page_count;
	err = rrdma_introduce(mr, ib, &request);
	if (!err)
		return &mr->ib;

release:
	kvfree(mr->pages);
	ib_umem_release(mr->umem);
free:
	kfree(mr);
	return ERR_PTR(err);
}

/*
 * A new region with new keys takes the place of the old one, which the core ends: the pages of a region that becomes
 * writable must be pinned again, whatever else stays.
 */
struct ib_mr *rrdma_rereg_user_mr(struct ib_mr *ib, int flags, u64 start, u64 length, u64 virt, int access,
				  struct ib_pd *pd, struct ib_udata *udata)
{
	struct rrdma_mr *mr = to_mr(ib);

	if (!mr->umem)
		return ERR_PTR(-EOPNOTSUPP);
	if (!(flags & IB_MR_REREG_TRANS)) {
		start = mr->umem->address;
		length = mr->umem->length;
		virt = mr->iova;
	}
	return rrdma_reg_user_mr(flags & IB_MR_REREG_PD ? pd : ib->pd, start, length, virt,
				 flags & IB_MR_REREG_ACCESS ? access : mr->rights, udata);
}

/* Programs bind windows by their rings: the kernel only names them. */
int rrdma_alloc_mw(struct ib_mw *ib, struct ib_udata *udata)
{
	struct rrdma_mw *mw = to_mw(ib);
	struct rrdma_dev *dev = to_dev(ib->device);
	struct rrdma_request request = { .op = RRDMA_OP_ALLOC_WINDOW };
	u32 daemon = rrdma_serving(dev);
	struct rrdma_reply reply;
	int err = rrdma_name(dev, &mw->object, RRDMA_MW);

	if (err)
		return err;
	request.handle = mw->object.handle;
	request.window.pd = to_pd(ib->pd)->object.handle;
	request.window.type = ib->type;
	rrdma_mark_told(&to_pd(ib->pd)->object, daemon);
	err = rrdma_ask(dev, daemon, &request, &reply, RRDMA_OP_FREE_WINDOW);
	if (!err && !rrdma_mark_told(&mw->object, daemon))
		err = -ENETDOWN;
	if (err) {
		rrdma_unname(&mw->object);
		return err;
	}
	ib->rkey = reply.number;
	return 0;
}

int rrdma_dealloc_mw(struct ib_mw *ib)
{
	struct rrdma_mw *mw = to_mw(ib);
	struct rrdma_request request = { .op = RRDMA_OP_FREE_WINDOW, .handle = mw->object.handle };

	rrdma_ask_end(&mw->object, &request);
	rrdma_unname(&mw->object);
	return 0;
}

/*
 * Keys of fast regions lead to them, without their low byte. A daemon gives each only once; a key of an earlier daemon
 * may come again, and leads to the new region then.
 */
static int rrdma_index_fast(struct rrdma_dev *dev, struct rrdma_mr *mr)
{
	struct rrdma_object *earlier, *found;
	bool taken;

	mr->place = mr->ib.rkey >> 8;
	xa_lock_irq(&dev->fast);
	earlier = xa_load(&dev->fast, mr->place);
	taken = earlier && rrdma_is_told(earlier);
	xa_unlock_irq(&dev->fast);
	if (taken)
		return -EBUSY;
	found = xa_cmpxchg_irq(&dev->fast, mr->place, earlier, &mr->object, GFP_KERNEL);
	if (xa_is_err(found))
		return xa_err(found);
	return found == earlier ? 0 : -EBUSY;
}

struct ib_mr *rrdma_alloc_mr(struct ib_pd *ib, enum ib_mr_type type, u32 sges)
{
	struct rrdma_dev *dev = to_dev(ib->device);
	struct rrdma_request request = { .op = RRDMA_OP_ALLOC_FAST };
	struct rrdma_mr *mr;
	int err = -ENOMEM;

	if (type != IB_MR_TYPE_MEM_REG || !sges || sges > RRDMA_FAST_PAGES_MAX)
		return ERR_PTR(-EINVAL);
	mr = kzalloc(sizeof(*mr), GFP_KERNEL);
	if (!mr)
		return ERR_PTR(-ENOMEM);
	spin_lock_init(&mr->lock);
	mr->pages_max = sges;
	mr->pages = kvcalloc(sges, sizeof(*mr->pages), GFP_KERNEL);
	if (!mr->pages)
		goto free;
	request.region.length = (u64)sges << PAGE_SHIFT;
	err = rrdma_introduce(mr, ib, &request);
	if (err)
		goto free;
	err = rrdma_index_fast(dev, mr);
	if (!err)
		return &mr->ib;

	request.op = RRDMA_OP_DEREGISTER;
	rrdma_ask_end(&mr->object, &request);
	rrdma_unname(&mr->object);
free:
	kvfree(mr->pages);
	kfree(mr);
	return ERR_PTR(err);
}

static int rrdma_set_page(struct ib_mr *ib, u64 address)
{
	struct rrdma_mr *mr = to_mr(ib);

	if (mr->page_count == mr->pages_max)
		return -ENOMEM;
	mr->pages[mr->page_count++] = address;
	return 0;
}

int rrdma_map_mr_sg(struct ib_mr *ib, struct scatterlist *sg, int count, unsigned int *offset)
{
	rrdma_close_fast(to_mr(ib));
	to_mr(ib)->page_count = 0;
	if (ib->page_size != SZ_4K)
		return -EINVAL;	/* the daemon counts in these */
	return ib_sg_to_pages(ib, sg, count, offset, rrdma_set_page);
}

/* Opens the region to the daemon, at REG_MR. Any context, as all of these. */
void rrdma_open_fast(struct rrdma_mr *mr, struct rrdma_qp *qp, u32 access)
{
	unsigned long flags;

	if (!rrdma_is_told(&mr->object))
		return;		/* its daemon is gone */
	WRITE_ONCE(qp->registers, true);
	spin_lock_irqsave(&mr->lock, flags);
	mr->open = true;
	mr->access = access;
	mr->first = mr->ib.iova & (SZ_4K - 1);
	mr->last = mr->first + mr->ib.length;
	mr->qp = qp;
	spin_unlock_irqrestore(&mr->lock, flags);
}

/* At LOCAL_INV, or when a peer has invalidated it. */
void rrdma_close_fast(struct rrdma_mr *mr)
{
	unsigned long flags;

	spin_lock_irqsave(&mr->lock, flags);
	mr->open = false;
	mr->qp = NULL;
	spin_unlock_irqrestore(&mr->lock, flags);
}

static void rrdma_close_some_fast(struct rrdma_dev *dev, struct rrdma_qp *qp)
{
	struct rrdma_object *object;
	unsigned long index, flags;

	xa_lock_irqsave(&dev->fast, flags);
	xa_for_each(&dev->fast, index, object) {
		struct rrdma_mr *mr = container_of(object, struct rrdma_mr, object);

		if (!qp || READ_ONCE(mr->qp) == qp)
			rrdma_close_fast(mr);
	}
	xa_unlock_irqrestore(&dev->fast, flags);
}

/* The QP moves no data any more: it is in the error state, reset, dead or destroyed. */
void rrdma_close_fast_of(struct rrdma_qp *qp)
{
	if (xchg(&qp->registers, false))
		rrdma_close_some_fast(qp->object.dev, qp);
}

void rrdma_close_all_fast(struct rrdma_dev *dev)
{
	rrdma_close_some_fast(dev, NULL);
}

/* Through this QP: of its domain. The keys of a region differ only in their low byte. */
void rrdma_close_key(struct rrdma_qp *qp, u32 key)
{
	struct rrdma_dev *dev = qp->object.dev;
	struct rrdma_object *object;
	unsigned long flags;

	xa_lock_irqsave(&dev->fast, flags);
	object = xa_load(&dev->fast, key >> 8);
	if (object && container_of(object, struct rrdma_mr, object)->ib.pd == qp->ib.pd)
		rrdma_close_fast(container_of(object, struct rrdma_mr, object));
	xa_unlock_irqrestore(&dev->fast, flags);
}

/* A page at a time under the lock: after the region is closed no byte of it is touched. */
static bool rrdma_copy_page(struct rrdma_mr *mr, u64 offset, void *buffer, size_t octets, bool store)
{
	u64 page = offset / SZ_4K;
	u32 in_page = offset & (SZ_4K - 1);
	unsigned long flags;
	bool open;
	u8 *at;

	spin_lock_irqsave(&mr->lock, flags);
	open = mr->open && page < mr->page_count && offset >= mr->first && offset + octets <= mr->last &&
	       (!store || (mr->access & IB_ACCESS_LOCAL_WRITE));
	if (open) {
		at = (u8 *)(uintptr_t)mr->pages[page] + in_page;
		if (store)
			memcpy(at, buffer, octets);
		else
			memcpy(buffer, at, octets);
	}
	spin_unlock_irqrestore(&mr->lock, flags);
	return open;
}

ssize_t rrdma_copy_fast(struct rrdma_dev *dev, u64 place, void *buffer, size_t octets, bool store)
{
	u64 offset = place & ((1ULL << RRDMA_FAST_OFFSET_BITS) - 1);
	u32 handle = (place & ~RRDMA_FAST_BASE) >> RRDMA_FAST_OFFSET_BITS;
	struct rrdma_object *object = rrdma_find(dev, handle, RRDMA_MR);
	struct rrdma_mr *mr;
	ssize_t err = 0;

	if (!object)
		return -EFAULT;
	mr = container_of(object, struct rrdma_mr, object);
	if (mr->umem)
		err = -EFAULT;
	while (octets && !err) {
		size_t part = min_t(size_t, octets, SZ_4K - (offset & (SZ_4K - 1)));

		if (!rrdma_copy_page(mr, offset, buffer, part, store))
			err = -EFAULT;
		buffer += part;
		offset += part;
		octets -= part;
	}
	rrdma_release(object);
	return err;
}

/* The daemon unmaps first. One that does not loses its mapping, and gets SIGBUS if it goes on. */
int rrdma_dereg_mr(struct ib_mr *ib, struct ib_udata *udata)
{
	struct rrdma_mr *mr = to_mr(ib);

	if (mr->object.dev) {
		struct rrdma_request request = { .op = RRDMA_OP_DEREGISTER, .handle = mr->object.handle };

		if (!mr->umem) {
			rrdma_close_fast(mr);
			xa_cmpxchg_irq(&mr->object.dev->fast, mr->place, &mr->object, NULL, 0);
		}
		rrdma_ask_end(&mr->object, &request);
		rrdma_unname(&mr->object);
		if (mr->umem)
			rrdma_unmap_region(mr);
	}
	if (mr->umem)
		ib_umem_release(mr->umem);
	kvfree(mr->pages);
	kfree(mr);
	return 0;
}
