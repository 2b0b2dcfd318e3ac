/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Finding a device by its name. Its memory stays until rrdma_put_device(); its objects may go at any time. */
#ifndef RRDMA_DEVICE_LIST_H
#define RRDMA_DEVICE_LIST_H

struct rrdma_dev;

struct rrdma_dev *rrdma_hold_device(const char *name);
void rrdma_put_device(struct rrdma_dev *dev);

#endif
