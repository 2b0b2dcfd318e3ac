// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The ib_device: its attributes, its port, its life, and the list of all devices. */
#include <linux/etherdevice.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <net/addrconf.h>
#include <rdma/ib_addr.h>
#include <rdma/ib_mad.h>

#include "device_list.h"
#include "rrdma.h"

static LIST_HEAD(rrdma_devices);
static DEFINE_MUTEX(rrdma_devices_mutex);
static struct lock_class_key rrdma_objects_class, rrdma_fast_class, rrdma_grants_class;

struct rrdma_dev *rrdma_hold_device(const char *name)
{
	struct ib_device *ib = ib_device_get_by_name(name, RDMA_DRIVER_RXE);

	if (ib && ib->ops.owner != THIS_MODULE) {
		ib_device_put(ib);
		ib = NULL;
	}
	return ib ? to_dev(ib) : NULL;
}

/* A port serves only while a daemon does. */
bool rrdma_port_up(struct rrdma_dev *dev)
{
	return READ_ONCE(dev->daemon) && netif_running(dev->ndev) && netif_carrier_ok(dev->ndev);
}

void rrdma_port_changed(struct rrdma_dev *dev)
{
	struct ib_event event = {
		.device = &dev->ib,
		.element.port_num = RRDMA_PORT,
		.event = rrdma_port_up(dev) ? IB_EVENT_PORT_ACTIVE : IB_EVENT_PORT_ERR,
	};

	ib_dispatch_event(&event);
}

static int rrdma_query_device(struct ib_device *ib, struct ib_device_attr *attr, struct ib_udata *udata)
{
	struct rrdma_dev *dev = to_dev(ib);

	if (udata->inlen || udata->outlen)
		return -EINVAL;
	memset(attr, 0, sizeof(*attr));
	attr->vendor_id = 0xffffff;
	attr->fw_ver = 1;
	attr->max_mr_size = 1ULL << 40;
	attr->page_size_cap = ~(u64)(PAGE_SIZE - 1);
	attr->max_qp = RRDMA_QP_MAX;
	attr->max_qp_wr = RRDMA_WR_MAX;
	attr->device_cap_flags = IB_DEVICE_CHANGE_PHY_PORT | IB_DEVICE_RC_RNR_NAK_GEN | IB_DEVICE_SYS_IMAGE_GUID |
				 IB_DEVICE_PORT_ACTIVE_EVENT | IB_DEVICE_MEM_MGT_EXTENSIONS | IB_DEVICE_MEM_WINDOW |
				 IB_DEVICE_MEM_WINDOW_TYPE_2B;
	attr->kernel_cap_flags = IBK_ALLOW_USER_UNREG | IBK_LOCAL_DMA_LKEY;
	attr->max_send_sge = RRDMA_SGE_MAX;
	attr->max_recv_sge = RRDMA_SGE_MAX;
	attr->max_sge_rd = RRDMA_SGE_MAX;
	attr->max_cq = RRDMA_QP_MAX;
	attr->max_cqe = RRDMA_CQE_MAX;
	attr->max_mr = RRDMA_HANDLE_MAX / 2;
	attr->max_mw = RRDMA_HANDLE_MAX / 2;
	attr->max_pd = RRDMA_QP_MAX;
	attr->max_qp_rd_atom = RRDMA_READS_MAX;
	attr->max_res_rd_atom = RRDMA_READS_MAX * 1024;
	attr->max_qp_init_rd_atom = RRDMA_READS_MAX;
	attr->atomic_cap = IB_ATOMIC_HCA;
	attr->max_mcast_grp = 1024;
	attr->max_mcast_qp_attach = 64;
	attr->max_total_mcast_qp_attach = 4096;
	attr->max_ah = 1 << 16;
	attr->max_srq = RRDMA_QP_MAX;
	attr->max_srq_wr = RRDMA_WR_MAX;
	attr->max_srq_sge = RRDMA_SGE_MAX;
	attr->max_fast_reg_page_list_len = RRDMA_FAST_PAGES_MAX;
	attr->max_pkeys = 1;
	attr->local_ca_ack_delay = 15;
	addrconf_addr_eui48((unsigned char *)&attr->sys_image_guid, dev->ndev->dev_addr);
	return 0;
}

static int rrdma_query_port(struct ib_device *ib, u32 port, struct ib_port_attr *attr)
{
	struct rrdma_dev *dev = to_dev(ib);
	int err = ib_get_eth_speed(ib, port, &attr->active_speed, &attr->active_width);

	if (err) {
		attr->active_speed = IB_SPEED_SDR;
		attr->active_width = IB_WIDTH_4X;
	}
	attr->state = rrdma_port_up(dev) ? IB_PORT_ACTIVE : IB_PORT_DOWN;
	attr->phys_state = attr->state == IB_PORT_ACTIVE ? IB_PORT_PHYS_STATE_LINK_UP : IB_PORT_PHYS_STATE_DISABLED;
	attr->max_mtu = IB_MTU_4096;
	attr->active_mtu = max_t(int, iboe_get_mtu(READ_ONCE(dev->ndev->mtu)), IB_MTU_256);
	attr->gid_tbl_len = 1024;
	attr->port_cap_flags = IB_UVERBS_PCF_CM_SUP;
	attr->ip_gids = true;
	attr->max_msg_sz = 1U << 30;
	attr->pkey_tbl_len = 1;
	return 0;
}

static int rrdma_get_port_immutable(struct ib_device *ib, u32 port, struct ib_port_immutable *immutable)
{
	struct ib_port_attr attr = {};
	int err;

	immutable->core_cap_flags = RDMA_CORE_PORT_IBA_ROCE_UDP_ENCAP;
	err = ib_query_port(ib, port, &attr);
	if (err)
		return err;
	immutable->pkey_tbl_len = attr.pkey_tbl_len;
	immutable->gid_tbl_len = attr.gid_tbl_len;
	immutable->max_mad_size = IB_MGMT_MAD_SIZE;
	return 0;
}

static enum rdma_link_layer rrdma_get_link_layer(struct ib_device *ib, u32 port)
{
	return IB_LINK_LAYER_ETHERNET;
}

/*
 * Not ib_device_set_netdev(): rdma_rxe finds devices with its driver id through that table, and would take this one for
 * its own.
 */
static struct net_device *rrdma_get_netdev(struct ib_device *ib, u32 port)
{
	struct rrdma_dev *dev = to_dev(ib);

	if (port != RRDMA_PORT || dev->ndev->reg_state != NETREG_REGISTERED)
		return NULL;
	dev_hold(dev->ndev);
	return dev->ndev;
}

/* The daemon reads the addresses of the interface itself. */
static int rrdma_add_gid(const struct ib_gid_attr *attr, void **context)
{
	return 0;
}

static int rrdma_del_gid(const struct ib_gid_attr *attr, void **context)
{
	return 0;
}

static int rrdma_query_pkey(struct ib_device *ib, u32 port, u16 index, u16 *pkey)
{
	if (index)
		return -EINVAL;
	*pkey = IB_DEFAULT_PKEY_FULL;
	return 0;
}

static int rrdma_alloc_ucontext(struct ib_ucontext *ucontext, struct ib_udata *udata)
{
	return 0;
}

static void rrdma_dealloc_ucontext(struct ib_ucontext *ucontext)
{
}

/* With this callback `rdma link delete` does not wait for programs. ib_uverbs unmaps their rings. */
static void rrdma_disassociate_ucontext(struct ib_ucontext *ucontext)
{
}

/* The last call before the memory of the device goes. */
static void rrdma_dealloc_driver(struct ib_device *ib)
{
	struct rrdma_dev *dev = to_dev(ib);

	rrdma_session_lost_device(dev);
	xa_destroy(&dev->objects);
	xa_destroy(&dev->grants);
	xa_destroy(&dev->fast);
	dev_put(dev->ndev);
}

static const struct ib_device_ops rrdma_ops = {
	.owner = THIS_MODULE,
	.driver_id = RDMA_DRIVER_RXE,
	.uverbs_abi_ver = 2,

	.add_gid = rrdma_add_gid,
	.alloc_mr = rrdma_alloc_mr,
	.alloc_mw = rrdma_alloc_mw,
	.alloc_pd = rrdma_alloc_pd,
	.alloc_ucontext = rrdma_alloc_ucontext,
	.attach_mcast = rrdma_attach_group,
	.create_ah = rrdma_create_ah,
	.create_cq = rrdma_create_cq,
	.create_qp = rrdma_create_qp,
	.create_srq = rrdma_create_srq,
	.create_user_ah = rrdma_create_ah,
	.dealloc_driver = rrdma_dealloc_driver,
	.dealloc_mw = rrdma_dealloc_mw,
	.dealloc_pd = rrdma_dealloc_pd,
	.dealloc_ucontext = rrdma_dealloc_ucontext,
	.del_gid = rrdma_del_gid,
	.dereg_mr = rrdma_dereg_mr,
	.destroy_ah = rrdma_destroy_ah,
	.destroy_cq = rrdma_destroy_cq,
	.destroy_qp = rrdma_destroy_qp,
	.destroy_srq = rrdma_destroy_srq,
	.detach_mcast = rrdma_detach_group,
	.disassociate_ucontext = rrdma_disassociate_ucontext,
	.get_dma_mr = rrdma_get_dma_mr,
	.get_link_layer = rrdma_get_link_layer,
	.get_netdev = rrdma_get_netdev,
	.get_port_immutable = rrdma_get_port_immutable,
	.map_mr_sg = rrdma_map_mr_sg,
	.mmap = rrdma_mmap,
	.mmap_free = rrdma_mmap_free,
	.modify_qp = rrdma_modify_qp,
	.modify_srq = rrdma_modify_srq,
	.poll_cq = rrdma_poll_cq,
	.post_recv = rrdma_post_recv,
	.post_send = rrdma_post_send,
	.post_srq_recv = rrdma_post_srq_recv,
	.query_ah = rrdma_query_ah,
	.query_device = rrdma_query_device,
	.query_pkey = rrdma_query_pkey,
	.query_port = rrdma_query_port,
	.query_qp = rrdma_query_qp,
	.query_srq = rrdma_query_srq,
	.reg_user_mr = rrdma_reg_user_mr,
	.req_notify_cq = rrdma_req_notify_cq,
	.rereg_user_mr = rrdma_rereg_user_mr,
	.resize_cq = rrdma_resize_cq,

	INIT_RDMA_OBJ_SIZE(ib_ah, rrdma_ah, ib),
	INIT_RDMA_OBJ_SIZE(ib_cq, rrdma_cq, ib),
	INIT_RDMA_OBJ_SIZE(ib_mw, rrdma_mw, ib),
	INIT_RDMA_OBJ_SIZE(ib_pd, rrdma_pd, ib),
	INIT_RDMA_OBJ_SIZE(ib_qp, rrdma_qp, ib),
	INIT_RDMA_OBJ_SIZE(ib_srq, rrdma_srq, ib),
	INIT_RDMA_OBJ_SIZE(ib_ucontext, rrdma_ucontext, ib),
};

/* Takes devices from the list: all, or those that are gone. Returns after the last call to their functions. */
static void rrdma_drop_devices(bool all)
{
	struct rrdma_dev *dev, *next;
	LIST_HEAD(dropped);

	mutex_lock(&rrdma_devices_mutex);
	list_for_each_entry_safe(dev, next, &rrdma_devices, entry) {
		if (all || READ_ONCE(dev->gone))
			list_move(&dev->entry, &dropped);
	}
	mutex_unlock(&rrdma_devices_mutex);
	list_for_each_entry_safe(dev, next, &dropped, entry) {
		list_del_init(&dev->entry);
		ib_unregister_device(&dev->ib);	/* or waits for another one who does */
		put_device(&dev->ib.dev);
	}
}

int rrdma_add_device(const char *name, struct net_device *ndev)
{
	struct rrdma_dev *dev = ib_alloc_device(rrdma_dev, ib);
	int err;

	rrdma_drop_devices(false);
	if (!dev)
		return -ENOMEM;
	spin_lock_init(&dev->lock);
	INIT_LIST_HEAD(&dev->calls);
	INIT_LIST_HEAD(&dev->asked);
	INIT_LIST_HEAD(&dev->postponed);
	INIT_LIST_HEAD(&dev->entry);
	mutex_init(&dev->mapping_mutex);
	init_waitqueue_head(&dev->wait);
	init_waitqueue_head(&dev->bells);
	init_waitqueue_head(&dev->turns);
	/* Each of its own class for lockdep: a queue's lock is taken under that of the grants, and over that of fast. */
	xa_init_flags(&dev->objects, XA_FLAGS_ALLOC1 | XA_FLAGS_LOCK_IRQ);
	xa_init_flags(&dev->fast, XA_FLAGS_LOCK_IRQ);
	xa_init_flags(&dev->grants, XA_FLAGS_ALLOC | XA_FLAGS_LOCK_IRQ);
	lockdep_set_class(&dev->objects.xa_lock, &rrdma_objects_class);
	lockdep_set_class(&dev->fast.xa_lock, &rrdma_fast_class);
	lockdep_set_class(&dev->grants.xa_lock, &rrdma_grants_class);
	dev->ndev = ndev;
	dev_hold(ndev);

	dev->ib.node_type = RDMA_NODE_IB_CA;
	dev->ib.phys_port_cnt = 1;
	dev->ib.num_comp_vectors = num_possible_cpus();
	dev->ib.local_dma_lkey = RRDMA_GRANT_KEY;
	strscpy(dev->ib.node_desc, "rrdma", sizeof(dev->ib.node_desc));
	addrconf_addr_eui48((unsigned char *)&dev->ib.node_guid, ndev->dev_addr);
	dev->ib.uverbs_cmd_mask |= BIT_ULL(IB_USER_VERBS_CMD_POST_SEND) | BIT_ULL(IB_USER_VERBS_CMD_REQ_NOTIFY_CQ);
	ib_set_device_ops(&dev->ib, &rrdma_ops);

	get_device(&dev->ib.dev);	/* the list's */
	mutex_lock(&rrdma_devices_mutex);
	list_add_tail(&dev->entry, &rrdma_devices);
	mutex_unlock(&rrdma_devices_mutex);
	err = ib_register_device(&dev->ib, name, NULL);
	if (!err)
		return 0;
	mutex_lock(&rrdma_devices_mutex);
	list_del_init(&dev->entry);
	mutex_unlock(&rrdma_devices_mutex);
	ib_dealloc_device(&dev->ib);	/* calls rrdma_dealloc_driver() */
	put_device(&dev->ib.dev);
	return err;
}

void rrdma_remove_devices(void)
{
	rrdma_drop_devices(true);
}

void rrdma_event_of_interface(struct net_device *ndev, unsigned long event)
{
	struct rrdma_dev *dev;

	mutex_lock(&rrdma_devices_mutex);
	list_for_each_entry(dev, &rrdma_devices, entry) {
		if (dev->ndev != ndev || !ib_device_try_get(&dev->ib))
			continue;
		switch (event) {
		case NETDEV_UNREGISTER:
			ib_unregister_device_queued(&dev->ib);
			break;
		case NETDEV_UP:
		case NETDEV_DOWN:
		case NETDEV_CHANGE:
			rrdma_port_changed(dev);
			break;
		}
		ib_device_put(&dev->ib);
	}
	mutex_unlock(&rrdma_devices_mutex);
}
