// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* /dev/rrdma: the daemon's side of the devices. rrdma_abi.h describes it. Everything that arrives here is hostile. */
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/poll.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/uio.h>
#include <linux/vmalloc.h>

#include "device_list.h"
#include "rrdma.h"

/* One open file. It keeps the memory of its device, not the device. */
struct rrdma_session {
	struct mutex mutex;		/* guards attaching */
	struct rrdma_dev *dev;		/* set once */
};

#define RRDMA_COPY_MAX (64 * 1024)

static int rrdma_open(struct inode *inode, struct file *file)
{
	struct rrdma_session *session = kzalloc(sizeof(*session), GFP_KERNEL);

	if (!session)
		return -ENOMEM;
	mutex_init(&session->mutex);
	file->private_data = session;
	return 0;
}

/* The file of the daemon in which regions are mapped; mappings keep it open. */
static void rrdma_set_mapping(struct rrdma_dev *dev, struct address_space *mapping)
{
	mutex_lock(&dev->mapping_mutex);
	dev->mapping = mapping;
	mutex_unlock(&dev->mapping_mutex);
}

static int rrdma_close(struct inode *inode, struct file *file)
{
	struct rrdma_session *session = file->private_data;

	if (session->dev) {
		rrdma_set_mapping(session->dev, NULL);
		rrdma_detach_daemon(session->dev, session);
		if (ib_device_try_get(&session->dev->ib)) {
			rrdma_port_changed(session->dev);
			ib_device_put(&session->dev->ib);
		}
		put_device(&session->dev->ib.dev);
	}
	kfree(session);
	return 0;
}

/* The device goes. The session keeps its memory and finds nothing in it. */
void rrdma_session_lost_device(struct rrdma_dev *dev)
{
	rrdma_detach_daemon(dev, READ_ONCE(dev->daemon));
	WRITE_ONCE(dev->gone, true);
	wake_up_all(&dev->wait);
}

static struct rrdma_dev *rrdma_dev_of(struct file *file)
{
	struct rrdma_session *session = file->private_data;

	return smp_load_acquire(&session->dev);
}

static ssize_t rrdma_copy_memory(struct rrdma_dev *dev, struct kiocb *iocb, struct iov_iter *iter, bool store)
{
	u64 place = iocb->ki_pos;
	size_t done = 0;
	void *buffer = kvmalloc(min_t(size_t, iov_iter_count(iter), RRDMA_COPY_MAX), GFP_KERNEL);

	if (!buffer)
		return -ENOMEM;
	while (iov_iter_count(iter)) {
		size_t part = min_t(size_t, iov_iter_count(iter), RRDMA_COPY_MAX);
		ssize_t err;

		if (store && copy_from_iter(buffer, part, iter) != part) {
			kvfree(buffer);
			return -EFAULT;
		}
		err = place >= RRDMA_FAST_BASE ? rrdma_copy_fast(dev, place, buffer, part, store) :
						 rrdma_copy_granted(dev, place, buffer, part, store);
		if (!err && !store && copy_to_iter(buffer, part, iter) != part)
			err = -EFAULT;
		if (err) {
			kvfree(buffer);
			return err;
		}
		place += part;
		done += part;
	}
	kvfree(buffer);
	return done;
}

static ssize_t rrdma_read(struct kiocb *iocb, struct iov_iter *iter)
{
	struct rrdma_dev *dev = rrdma_dev_of(iocb->ki_filp);
	struct rrdma_request request;
	ssize_t done = 0;

	if (!dev)
		return -ENOTCONN;
	if (iocb->ki_pos >= RRDMA_GRANT_BASE)
		return rrdma_copy_memory(dev, iocb, iter, false);
	if (iov_iter_count(iter) < sizeof(request))
		return -EINVAL;
	while (!done) {
		if (READ_ONCE(dev->gone))
			return -ENODEV;
		while (iov_iter_count(iter) >= sizeof(request) && rrdma_next_request(dev, &request)) {
			if (copy_to_iter(&request, sizeof(request), iter) != sizeof(request))
				return -EFAULT;
			done += sizeof(request);
		}
		if (done)
			break;
		if (iocb->ki_filp->f_flags & O_NONBLOCK)
			return -EAGAIN;
		if (wait_event_interruptible(dev->wait, rrdma_has_work(dev)))
			return -ERESTARTSYS;
	}
	return done;
}

static ssize_t rrdma_write(struct kiocb *iocb, struct iov_iter *iter)
{
	struct rrdma_dev *dev = rrdma_dev_of(iocb->ki_filp);
	struct rrdma_reply reply;
	ssize_t done = 0;

	if (!dev)
		return -ENOTCONN;
	if (iocb->ki_pos >= RRDMA_GRANT_BASE)
		return rrdma_copy_memory(dev, iocb, iter, true);
	while (iov_iter_count(iter) >= sizeof(reply)) {
		if (copy_from_iter(&reply, sizeof(reply), iter) != sizeof(reply))
			return -EFAULT;
		rrdma_take_reply(dev, &reply);
		done += sizeof(reply);
	}
	return done ? done : -EINVAL;
}

static __poll_t rrdma_poll(struct file *file, poll_table *wait)
{
	struct rrdma_dev *dev = rrdma_dev_of(file);

	if (!dev)
		return EPOLLERR;
	poll_wait(file, &dev->bells, wait);
	return rrdma_has_doorbells(dev) ? EPOLLIN | EPOLLRDNORM : 0;
}

static long rrdma_attach(struct file *file, struct rrdma_attach __user *from)
{
	struct rrdma_session *session = file->private_data;
	struct rrdma_attach attach;
	struct rrdma_ring *bells;
	struct rrdma_dev *dev;
	long err;

	if (copy_from_user(&attach, from, sizeof(attach)))
		return -EFAULT;
	if (attach.version != RRDMA_ABI_VERSION || strnlen(attach.device, RRDMA_NAME_MAX) == RRDMA_NAME_MAX)
		return -EINVAL;
	dev = rrdma_hold_device(attach.device);
	if (!dev)
		return -ENODEV;
	attach.interface_index = dev->ndev->ifindex;
	memset(attach.interface, 0, sizeof(attach.interface));
	strscpy(attach.interface, dev->ndev->name, sizeof(attach.interface));
	bells = rrdma_make_bells(dev);
	if (IS_ERR(bells)) {
		ib_device_put(&dev->ib);
		return PTR_ERR(bells);
	}
	attach.doorbells = rrdma_ring_form(bells);
	mutex_lock(&session->mutex);
	err = session->dev ? -EISCONN : rrdma_attach_daemon(dev, session, bells);
	if (err) {
		rrdma_drop_ring(bells);
	} else {
		get_device(&dev->ib.dev);
		rrdma_set_mapping(dev, file->f_mapping);
		smp_store_release(&session->dev, dev);
	}
	mutex_unlock(&session->mutex);
	if (!err)
		rrdma_port_changed(dev);
	ib_device_put(&dev->ib);
	if (err)
		return err;
	return copy_to_user(from, &attach, sizeof(attach)) ? -EFAULT : 0;
}

static long rrdma_deliver_mad(struct rrdma_dev *dev, const void __user *from)
{
	struct rrdma_mad *mad = memdup_user(from, sizeof(*mad));
	long err;

	if (IS_ERR(mad))
		return PTR_ERR(mad);
	err = rrdma_gsi_deliver(dev, mad);
	kfree(mad);
	return err;
}

static long rrdma_notify(struct rrdma_dev *dev, u32 handle)
{
	struct rrdma_object *object = rrdma_find(dev, handle, RRDMA_CQ);

	if (!object)
		return -ENOENT;
	rrdma_complete_cq(container_of(object, struct rrdma_cq, object));
	rrdma_release(object);
	return 0;
}

static long rrdma_postpone(struct rrdma_dev *dev, u32 handle)
{
	struct rrdma_object *object = rrdma_find(dev, handle, RRDMA_QP);

	if (!object)
		return -ENOENT;
	rrdma_postpone_doorbell(container_of(object, struct rrdma_qp, object));
	rrdma_release(object);
	return 0;
}

static long rrdma_ioctl(struct file *file, unsigned int command, unsigned long argument)
{
	void __user *from = (void __user *)argument;
	struct rrdma_dev *dev = rrdma_dev_of(file);
	struct rrdma_postpone postpone;
	struct rrdma_notify notify;
	struct rrdma_event event;

	if (command == RRDMA_IOC_ATTACH)
		return rrdma_attach(file, from);
	if (_IOC_NR(command) == _IOC_NR(RRDMA_IOC_ATTACH) && _IOC_TYPE(command) == _IOC_TYPE(RRDMA_IOC_ATTACH))
		return -EINVAL;	/* another version: its struct has another size */
	if (!dev)
		return -ENOTCONN;
	if (READ_ONCE(dev->gone))
		return -ENODEV;
	switch (command) {
	case RRDMA_IOC_NOTIFY:
		if (copy_from_user(&notify, from, sizeof(notify)))
			return -EFAULT;
		return rrdma_notify(dev, notify.handle);
	case RRDMA_IOC_EVENT:
		if (copy_from_user(&event, from, sizeof(event)))
			return -EFAULT;
		rrdma_raise_event(dev, event.handle, event.event);
		return 0;
	case RRDMA_IOC_MAD:
		return rrdma_deliver_mad(dev, from);
	case RRDMA_IOC_POSTPONE:
		if (copy_from_user(&postpone, from, sizeof(postpone)))
			return -EFAULT;
		return rrdma_postpone(dev, postpone.handle);
	}
	return -ENOTTY;
}

/* Populates a mapped region page by page: filling it at once could race with its end. */
static vm_fault_t rrdma_fault(struct vm_fault *fault)
{
	struct rrdma_dev *dev = rrdma_dev_of(fault->vma->vm_file);
	u32 handle = (fault->vma->vm_pgoff & ~RRDMA_REGION_PAGE(0)) >> 32;
	struct rrdma_object *object = rrdma_find(dev, handle, RRDMA_MR);
	u32 page = fault->pgoff;	/* the handle is above; the mapping may have been split */
	vm_fault_t outcome = VM_FAULT_SIGBUS;
	struct rrdma_mr *mr;

	if (!object)
		return outcome;
	mr = container_of(object, struct rrdma_mr, object);
	if (mr->umem && object->serial == (unsigned long)fault->vma->vm_private_data && page < mr->page_count &&
	    (mr->umem->writable || !(fault->vma->vm_flags & VM_WRITE)))
		outcome = vmf_insert_pfn(fault->vma, fault->address, mr->pages[page]);
	rrdma_release(object);
	return outcome;
}

static const struct vm_operations_struct rrdma_vm_ops = {
	.fault = rrdma_fault,
};

static int rrdma_map_region(struct rrdma_dev *dev, struct vm_area_struct *vma)
{
	u32 handle = (vma->vm_pgoff & ~RRDMA_REGION_PAGE(0)) >> 32;
	struct rrdma_object *object = rrdma_find(dev, handle, RRDMA_MR);
	struct rrdma_mr *mr;
	int err = 0;

	if (!object)
		return -ENOENT;
	mr = container_of(object, struct rrdma_mr, object);
	if (!mr->umem || (u32)vma->vm_pgoff || vma_pages(vma) > mr->page_count)
		err = -EINVAL;
	else if (!mr->umem->writable && (vma->vm_flags & VM_WRITE))
		err = -EACCES;
	vma->vm_private_data = (void *)object->serial;	/* the next region with this handle is another one */
	rrdma_release(object);
	if (err)
		return err;
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 3, 0)
	vm_flags_mod(vma, VM_PFNMAP | VM_DONTCOPY | VM_DONTEXPAND | VM_DONTDUMP,
		     vma->vm_flags & VM_WRITE ? 0 : VM_MAYWRITE);
#else
	vma->vm_flags |= VM_PFNMAP | VM_DONTCOPY | VM_DONTEXPAND | VM_DONTDUMP;
	if (!(vma->vm_flags & VM_WRITE))
		vma->vm_flags &= ~VM_MAYWRITE;
#endif
	vma->vm_ops = &rrdma_vm_ops;
	return 0;
}

static int rrdma_map_ring(struct rrdma_dev *dev, struct vm_area_struct *vma)
{
	struct rrdma_object *object;
	struct rrdma_ring *ring;
	int err = -EINVAL;

	if (vma->vm_pgoff & 0xffff || vma->vm_pgoff >> 16 > RRDMA_HANDLE_MAX)
		return -EINVAL;
	object = rrdma_find(dev, vma->vm_pgoff >> 16, RRDMA_RING);
	if (!object)
		return -ENOENT;
	ring = container_of(object, struct rrdma_ring, object);
	if (vma->vm_end - vma->vm_start == ring->octets)
		err = remap_vmalloc_range(vma, ring->buf, 0);
	rrdma_release(object);
	return err;
}

static int rrdma_chardev_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct rrdma_dev *dev = rrdma_dev_of(file);

	if (!dev)
		return -ENOTCONN;
	if (!(vma->vm_flags & VM_SHARED))
		return -EINVAL;
	return vma->vm_pgoff >= RRDMA_REGION_PAGE(0) ? rrdma_map_region(dev, vma) : rrdma_map_ring(dev, vma);
}

/* REQUIRES: no lookup finds the region any more. */
void rrdma_unmap_region(struct rrdma_mr *mr)
{
	struct rrdma_dev *dev = mr->object.dev;

	mutex_lock(&dev->mapping_mutex);
	if (dev->mapping)
		unmap_mapping_range(dev->mapping, RRDMA_REGION_PAGE(mr->object.handle) << PAGE_SHIFT,
				    (loff_t)mr->page_count << PAGE_SHIFT, 1);
	mutex_unlock(&dev->mapping_mutex);
}

static const struct file_operations rrdma_fops = {
	.owner = THIS_MODULE,
	.open = rrdma_open,
	.release = rrdma_close,
	.read_iter = rrdma_read,
	.write_iter = rrdma_write,
	.poll = rrdma_poll,
	.unlocked_ioctl = rrdma_ioctl,
	.mmap = rrdma_chardev_mmap,
};

static struct miscdevice rrdma_misc = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "rrdma",
	.mode = 0600,
	.fops = &rrdma_fops,
};

int rrdma_open_chardev(void)
{
	return misc_register(&rrdma_misc);
}

void rrdma_close_chardev(void)
{
	misc_deregister(&rrdma_misc);
}
