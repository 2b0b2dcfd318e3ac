/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Finding a device by its name. It stays registered until ib_device_put(). */
#ifndef RRDMA_DEVICE_LIST_H
#define RRDMA_DEVICE_LIST_H

struct rrdma_dev;

struct rrdma_dev *rrdma_hold_device(const char *name);

#endif
