// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Rings: memory that the kernel allocates and that the program and the daemon map. Its header shows the sizes to
 * programs; the kernel uses its own copies. Pages stay while someone maps them, so a ring may go at any time.
 */
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "rrdma.h"

struct rrdma_mmap_entry {
	struct rdma_user_mmap_entry rdma;
	struct rrdma_ring *ring;
};

/* One slot stays free, as the provider expects. */
struct rrdma_ring *rrdma_make_ring(struct rrdma_dev *dev, u32 entries, u32 octets)
{
	struct rrdma_ring *ring = kzalloc(sizeof(*ring), GFP_KERNEL);
	int err;

	if (!ring)
		return ERR_PTR(-ENOMEM);
	kref_init(&ring->kref);
	ring->slots = roundup_pow_of_two(entries + 1);
	ring->log2_slot = ilog2(roundup_pow_of_two(octets));
	ring->octets = PAGE_ALIGN(sizeof(*ring->buf) + (ring->slots << ring->log2_slot));
	ring->buf = vmalloc_user(ring->octets);
	if (!ring->buf) {
		kfree(ring);
		return ERR_PTR(-ENOMEM);
	}
	ring->buf->log2_elem_size = ring->log2_slot;
	ring->buf->index_mask = ring->slots - 1;
	err = rrdma_name(dev, &ring->object, RRDMA_RING);
	if (err) {
		vfree(ring->buf);
		kfree(ring);
		return ERR_PTR(err);
	}
	return ring;
}

static void rrdma_free_ring(struct kref *kref)
{
	struct rrdma_ring *ring = container_of(kref, struct rrdma_ring, kref);

	vfree(ring->buf);
	kfree(ring);
}

void rrdma_drop_ring(struct rrdma_ring *ring)
{
	if (IS_ERR_OR_NULL(ring))
		return;
	rrdma_unname(&ring->object);
	if (ring->mapped)
		rdma_user_mmap_entry_remove(ring->mapped);
	kref_put(&ring->kref, rrdma_free_ring);
}

int rrdma_show_ring(struct rrdma_ring *ring, struct ib_ucontext *ucontext, struct mminfo *info)
{
	struct rrdma_mmap_entry *entry = kzalloc(sizeof(*entry), GFP_KERNEL);
	int err;

	if (!entry)
		return -ENOMEM;
	entry->ring = ring;
	kref_get(&ring->kref);
	err = rdma_user_mmap_entry_insert(ucontext, &entry->rdma, ring->octets);
	if (err) {
		kref_put(&ring->kref, rrdma_free_ring);
		kfree(entry);
		return err;
	}
	ring->mapped = &entry->rdma;
	info->offset = rdma_user_mmap_get_offset(&entry->rdma);
	info->size = ring->octets;
	info->pad = 0;
	return 0;
}

int rrdma_mmap(struct ib_ucontext *ucontext, struct vm_area_struct *vma)
{
	struct rdma_user_mmap_entry *rdma = rdma_user_mmap_entry_get(ucontext, vma);
	int err;

	if (!rdma)
		return -EINVAL;
	err = remap_vmalloc_range(vma, container_of(rdma, struct rrdma_mmap_entry, rdma)->ring->buf, 0);
	rdma_user_mmap_entry_put(rdma);
	return err;
}

void rrdma_mmap_free(struct rdma_user_mmap_entry *rdma)
{
	struct rrdma_mmap_entry *entry = container_of(rdma, struct rrdma_mmap_entry, rdma);

	kref_put(&entry->ring->kref, rrdma_free_ring);
	kfree(entry);
}

struct rrdma_ring_form rrdma_ring_form(const struct rrdma_ring *ring)
{
	struct rrdma_ring_form form = {};

	if (ring) {
		form.handle = ring->object.handle;
		form.octets = ring->octets;
		form.slots = ring->slots;
		form.log2_slot = ring->log2_slot;
	}
	return form;
}
