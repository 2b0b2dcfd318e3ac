// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The module, and `rdma link add NAME type rrdma netdev INTERFACE`. `rdma link delete` is ib_core's. */
#include <linux/module.h>
#include <rdma/rdma_netlink.h>

#include "rrdma.h"

static int rrdma_newlink(const char *name, struct net_device *ndev)
{
	return rrdma_add_device(name, ndev);
}

static struct rdma_link_ops rrdma_link_ops = {
	.type = "rrdma",
	.newlink = rrdma_newlink,
};

static int rrdma_netdev_event(struct notifier_block *block, unsigned long event, void *info)
{
	rrdma_event_of_interface(netdev_notifier_info_to_dev(info), event);
	return NOTIFY_OK;
}

static struct notifier_block rrdma_netdev_block = {
	.notifier_call = rrdma_netdev_event,
};

static int __init rrdma_init(void)
{
	int err = rrdma_open_chardev();

	if (err)
		return err;
	err = register_netdevice_notifier(&rrdma_netdev_block);
	if (err) {
		rrdma_close_chardev();
		return err;
	}
	rdma_link_register(&rrdma_link_ops);
	return 0;
}

/* The driver id is rxe's, so that rdma-core takes its rxe provider. ib_unregister_driver() would end both drivers'. */
static void __exit rrdma_exit(void)
{
	rdma_link_unregister(&rrdma_link_ops);
	unregister_netdevice_notifier(&rrdma_netdev_block);
	rrdma_remove_devices();
	rrdma_close_chardev();
}

module_init(rrdma_init);
module_exit(rrdma_exit);
MODULE_DESCRIPTION("RDMA device whose NIC is a daemon in user space");
MODULE_LICENSE("Dual BSD/GPL");
MODULE_ALIAS_RDMA_LINK("rrdma");
