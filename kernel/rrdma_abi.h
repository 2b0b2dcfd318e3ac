/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The ABI of /dev/rrdma, between rrdma.ko and the daemon that serves its devices (`rrdmad --kernel`).
 *
 * The daemon opens the file and attaches to one device. Then
 *   read()          returns requests (struct rrdma_request), and blocks while there are none;
 *   poll()          says whether there are doorbells: a thread that moves packets waits for them as it waits for its
 *                   sockets;
 *   write()         takes replies (struct rrdma_reply); requests without a tag want none;
 *   mmap()          maps a ring (of a queue, of doorbells), or the pinned pages of a memory region;
 *   pread, pwrite   copy from and to kernel memory that a work request or a fast registration grants;
 *   ioctl()         attaches, raises completion and asynchronous events, delivers MADs.
 * A file that is closed, however the daemon ends, detaches: see docs/kernel.md.
 *
 * Queues have the layout of rdma_user_rxe.h (struct rxe_queue_buf), so that the stock rxe provider of rdma-core drives
 * them. Both sides mask every index and keep their own copies of the sizes.
 */
#ifndef RRDMA_ABI_H
#define RRDMA_ABI_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define RRDMA_ABI_VERSION 3
#define RRDMA_NAME_MAX 64
#define RRDMA_MAD_OCTETS 256

/* Places in the file, in pages for mmap(), in bytes for pread() and pwrite(). */
#define RRDMA_RING_PAGE(handle) ((__u64)(handle) << 16)
#define RRDMA_REGION_PAGE(handle) (1ULL << 50 | (__u64)(handle) << 32)
#define RRDMA_HANDLE_MAX ((1u << 18) - 1)
/* A grant: one SGE of a work request of a kernel QP. */
#define RRDMA_GRANT_BASE (1ULL << 61)
#define RRDMA_GRANT_OFFSET_BITS 28
#define RRDMA_GRANT_SGE_BITS 5
#define RRDMA_GRANT_SLOT_BITS 13
/* A fast registration: an offset into the pages of a kernel MR. */
#define RRDMA_FAST_BASE (1ULL << 62)
#define RRDMA_FAST_OFFSET_BITS 40
/* The lkey of an SGE whose address is a grant. The daemon's own keys never have this value. */
#define RRDMA_GRANT_KEY 0u

/* Word 8 of a CQ's header (pad_1): which completions raise an event. The kernel sets it, the daemon reads it. */
#define RRDMA_ARMED_WORD 8
#define RRDMA_ARMED_SOLICITED 1
#define RRDMA_ARMED_ANY 2

/*
 * From this word of a CQ's header on: the completion that the daemon is publishing. It writes the CQE, this, the consumer
 * index of the request's queue, the producer index of the CQ, and then 0 to `queue`. If it dies in between, the kernel
 * writes both indices. Only for QPs of programs.
 */
#define RRDMA_PUBLISHED_WORD 33
struct rrdma_published {
	__u32 queue;		/* the handle of the QP << 1, and 1 for a receive; 0: nothing */
	__u32 producer;
	__u32 consumer;
};

/*
 * A CQE: struct ib_uverbs_wc, then this. In the requests and completions of kernel QPs wr_id is the slot of the request:
 * the daemon never sees the real one.
 */
#define RRDMA_CQE_QP_AT 48	/* __u32: the handle of the QP */
/* In wc_flags, whose values are those of programs: IBV_WC_WITH_INV. IB_WC_WITH_INVALIDATE has another one. */
#define RRDMA_WC_WITH_INVALIDATE 8

enum rrdma_op {
	RRDMA_OP_DOORBELL = 1,	/* of the QP `handle`, which was postponed; no reply */
	RRDMA_OP_CREATE_QP,
	RRDMA_OP_MODIFY_QP,
	RRDMA_OP_QUERY_QP,
	RRDMA_OP_DESTROY_QP,
	RRDMA_OP_REGISTER,	/* user memory */
	RRDMA_OP_ALLOC_FAST,	/* a region for fast registration */
	RRDMA_OP_DEREGISTER,
	RRDMA_OP_DESTROY_CQ,	/* no reply, as all below */
	RRDMA_OP_DESTROY_SRQ,
	RRDMA_OP_DESTROY_PD,
	RRDMA_OP_ARM_SRQ,
	RRDMA_OP_SEND_MAD,
	RRDMA_OP_ATTACH_GROUP,	/* has a reply */
	RRDMA_OP_DETACH_GROUP,
	RRDMA_OP_ALLOC_WINDOW,	/* as all below, it has a reply */
	RRDMA_OP_FREE_WINDOW,
	RRDMA_OP_RESIZE_CQ,	/* what is in the old ring goes to the new one */
};

struct rrdma_ring_form {
	__u32 handle;		/* of the ring, for mmap(); 0: there is none */
	__u32 octets;		/* of the mapping */
	__u32 slots;		/* a power of two */
	__u32 log2_slot;	/* octets of a slot */
};

/* A queue that the daemon creates when a QP first names it. */
struct rrdma_queue_form {
	__u32 handle;		/* 0: there is none */
	__u32 sges;		/* SRQ */
	struct rrdma_ring_form ring;
};

struct rrdma_address {
	__u8 remote[16];
	__u8 local[16];
	__u32 flow_label;
	__u8 hop_limit;
	__u8 traffic_class;
	__u8 service_level;
	__u8 sgid_index;
};

struct rrdma_create_qp {
	__u32 pd;
	__u32 type;		/* enum ib_qp_type */
	struct rrdma_queue_form send_cq, receive_cq, srq;
	struct rrdma_ring_form sends, receives;
	__u32 srq_pd, srq_limit;
	__u32 send_entries, receive_entries;
	__u32 send_sges, receive_sges;
	__u32 inline_octets;
	__u32 signal_all;
	__u32 in_kernel;	/* SGEs are grants */
};

/* The values of struct ib_qp_attr and its mask. */
struct rrdma_qp_attributes {
	__u32 mask;
	__u32 state, current_state;
	__u32 path_mtu;
	__u32 qkey;
	__u32 rq_psn, sq_psn;
	__u32 dest_qpn;
	__u32 access_flags;
	__u16 pkey_index;
	__u8 drain_notify, draining;
	__u8 max_reads, max_destination_reads;
	__u8 min_rnr_timer, port, timeout, retry_count, rnr_retry;
	__u8 reserved[5];
	struct rrdma_address address;
};

struct rrdma_register {
	__u32 pd;
	__u32 access;
	__u64 address;		/* iova */
	__u64 length;
	__u32 first_offset;	/* of the first byte in the first page */
	__u32 pages;
};

struct rrdma_mad {
	struct rrdma_address address;
	__u32 remote_qpn;
	__u32 reserved;
	__u8 octets[RRDMA_MAD_OCTETS];
};

struct rrdma_window {
	__u32 pd;
	__u32 type;		/* enum ib_mw_type */
};

struct rrdma_resize {
	struct rrdma_ring_form ring;
	__u32 entries;		/* -EINVAL if the CQ holds more */
};

struct rrdma_group {
	__u8 gid[16];
};

struct rrdma_request {
	__u64 tag;		/* 0: no reply */
	__u32 op;
	__u32 handle;		/* of the object */
	union {
		struct rrdma_create_qp create_qp;
		struct rrdma_qp_attributes qp;
		struct rrdma_register region;
		struct rrdma_mad mad;
		struct rrdma_group group;
		struct rrdma_window window;
		struct rrdma_resize resize;
		__u32 limit;	/* ARM_SRQ */
		__u8 room[368];
	};
};

struct rrdma_reply {
	__u64 tag;
	__s32 error;		/* 0, or a negative errno */
	__u32 number;		/* the QPN, or the key */
	struct rrdma_qp_attributes qp;
};

struct rrdma_attach {
	__u32 version;		/* in: RRDMA_ABI_VERSION */
	__u32 interface_index;	/* out */
	char device[RRDMA_NAME_MAX];	/* in: rrdma0 */
	char interface[16];	/* out: eth0 */
	/*
	 * Out: the ring of doorbells. A slot is the handle of a QP that has new send requests. The daemon advances the
	 * consumer index, and looks at the requests after a full barrier: the kernel adds a QP again only then.
	 */
	struct rrdma_ring_form doorbells;
};

struct rrdma_notify {
	__u32 handle;		/* of a CQ */
};

/* The doorbell of a QP comes by read(): its requests need something that blocks. */
struct rrdma_postpone {
	__u32 handle;
};

struct rrdma_event {
	__u32 handle;		/* of a QP, CQ or SRQ */
	__u32 event;		/* enum ib_event_type */
};

#define RRDMA_IOC_ATTACH _IOWR('R', 0x40, struct rrdma_attach)
#define RRDMA_IOC_NOTIFY _IOW('R', 0x41, struct rrdma_notify)
#define RRDMA_IOC_EVENT _IOW('R', 0x42, struct rrdma_event)
#define RRDMA_IOC_MAD _IOW('R', 0x43, struct rrdma_mad)
#define RRDMA_IOC_POSTPONE _IOW('R', 0x45, struct rrdma_postpone)

#endif
