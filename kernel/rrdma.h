/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * rrdma.ko: a real RDMA device whose NIC is a daemon in user space. The kernel side keeps objects, pins memory, owns
 * the rings and copies; it knows no protocol. rrdma_abi.h is the daemon's side, rdma_user_rxe.h the programs' side.
 *
 *   netlink.c   rdma link add ... type rrdma, the module
 *   device.c    the ib_device: attributes, port, GIDs, events of the interface
 *   calls.c     requests to the daemon and their replies
 *   doorbells.c doorbells
 *   chardev.c   /dev/rrdma
 *   rings.c     rings in memory that program, kernel and daemon share
 *   queues.c    PD, AH, SRQ, QP: creation, state, destruction
 *   cqs.c       CQ: creation, arming, resizing, destruction
 *   posts.c     work requests and completions of kernel users
 *   memory.c    memory regions; the daemon's view of them
 *   gsi.c       QP1
 *
 * Everything in a ring, a reply or an ioctl is hostile. The kernel never follows a pointer, index or size from there
 * without a check against its own copy.
 */
#ifndef RRDMA_H
#define RRDMA_H

#include <linux/completion.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/netdevice.h>
#include <linux/refcount.h>
#include <linux/spinlock.h>
#include <linux/version.h>
#include <linux/wait.h>
#include <linux/xarray.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_user_rxe.h>
#include <rdma/uverbs_ioctl.h>

#include "rrdma_abi.h"

#define RRDMA_PORT 1
#define RRDMA_CALL_TIMEOUT (30 * HZ)
#define RRDMA_STALLED_TIMEOUT (HZ / 10)
#define RRDMA_QP_MAX 16384
#define RRDMA_WR_MAX 8000
#define RRDMA_SGE_MAX 32
#define RRDMA_INLINE_MAX 1024
#define RRDMA_CQE_MAX (1 << 16)
#define RRDMA_READS_MAX 128
#define RRDMA_FAST_PAGES_MAX 1024
#define RRDMA_MADS_MAX 1024

enum rrdma_kind { RRDMA_QP, RRDMA_CQ, RRDMA_SRQ, RRDMA_PD, RRDMA_MR, RRDMA_MW, RRDMA_RING };

struct rrdma_session;

struct rrdma_dev {
	struct ib_device ib;
	struct net_device *ndev;
	struct xarray objects;		/* by handle */
	u32 next_handle;		/* under its lock */
	struct xarray fast;		/* regions for fast registration, by key >> 8 */
	struct xarray grants;		/* work queues of kernel users, by grant number */

	spinlock_t lock;		/* all below; taken in any context */
	struct rrdma_session *daemon;	/* NULL: nobody serves */
	u32 serving;			/* its number; 0: nobody serves */
	u32 last_daemon;
	bool stalled;			/* it let a caller wait too long and has answered nothing since */
	bool detaching;			/* the objects of the last one still flush */
	struct list_head calls;		/* not yet read */
	struct list_head asked;		/* read, not answered */
	struct list_head postponed;	/* QPs */
	struct rrdma_ring *bell_ring;	/* NULL: nobody serves */
	u64 bells_rung;			/* by this daemon's time */
	bool asleep;			/* the daemon waits for a doorbell */
	u32 turn;			/* of the daemon; ends when it sleeps */
	u64 last_tag;
	unsigned int mads;		/* in calls */
	wait_queue_head_t wait;		/* of the daemon, for requests */
	wait_queue_head_t bells;	/* for doorbells */
	wait_queue_head_t turns;	/* of programs, for the end of the daemon's turn */
	u32 gsi;			/* the handle of QP1; 0: there is none */
	bool gone;			/* unregistered */
	struct list_head entry;		/* in the list of devices */

	struct mutex mapping_mutex;
	struct address_space *mapping;	/* of the daemon's file; NULL: nobody serves */
};

/* The part of every object that the daemon may name. */
struct rrdma_object {
	struct rrdma_dev *dev;
	u32 handle;
	unsigned long serial;		/* of no other object, ever; handles come again */
	enum rrdma_kind kind;
	bool ready;			/* its creation succeeds: events may come */
	u32 told;			/* the number of the daemon that last heard of it */
	refcount_t refs;
	struct completion unused;
};

struct rrdma_ring {
	struct rrdma_object object;
	struct kref kref;		/* the queue, and mappings of the program */
	struct rxe_queue_buf *buf;
	u32 slots, log2_slot, octets;
	struct rdma_user_mmap_entry *mapped;	/* NULL: kernel user */
};

enum rrdma_work_state { RRDMA_WORK_FREE, RRDMA_WORK_POSTED, RRDMA_WORK_DONE };

/* A request of a kernel user, as the kernel remembers it. Its queue's lock guards it. */
struct rrdma_work {
	u64 wr_id;
	u32 sges;
	enum rrdma_work_state state;
	enum ib_wc_opcode opcode;
	bool signaled;
	struct rrdma_queue *queue;
	struct list_head done;		/* in rrdma_cq.own: a completion that the kernel itself made */
	struct ib_wc wc;		/* for it */
	struct ib_sge sge[];
};

/* One work queue: sends or receives of a QP, or an SRQ. */
struct rrdma_queue {
	struct rrdma_ring *ring;
	spinlock_t lock;
	u32 entries, sges;
	/* Kernel users only. */
	u32 grant;
	u32 used;
	u32 producer, oldest;
	size_t stride;
	u8 *work;
};

struct rrdma_pd {
	struct ib_pd ib;
	struct rrdma_object object;
};

struct rrdma_ucontext {
	struct ib_ucontext ib;
};

struct rrdma_ah {
	struct ib_ah ib;
	struct rrdma_address address;
	struct rxe_av av;
};

struct rrdma_cq {
	struct ib_cq ib;
	struct rrdma_object object;
	struct rrdma_ring *ring;	/* a resize replaces it, under the lock */
	struct mutex resizing;
	struct rrdma_ring *next;	/* of the resize that runs: the other ring */
	u32 next_entries;
	bool moved;			/* the daemon died in it, and `ring` is the new one already */
	spinlock_t lock;
	bool user;
	int armed;			/* RRDMA_ARMED_* */
	struct list_head own;		/* struct rrdma_work */
};

struct rrdma_srq {
	struct ib_srq ib;
	struct rrdma_object object;
	struct rrdma_queue queue;
	u32 limit;
	bool user;
};

struct rrdma_qp {
	struct ib_qp ib;
	struct rrdma_object object;
	struct rrdma_queue sends, receives;
	struct rrdma_cq *send_cq, *receive_cq;
	struct rrdma_srq *srq;
	struct ib_qp_cap cap;
	struct ib_qp_attr attr;		/* as last set */
	bool user, signal_all;
	bool dead;			/* its daemon is gone: everything flushes */
	bool registers;			/* fast regions may be open through it */
	u64 rung;			/* dev->bells_rung after its last doorbell */
	struct list_head postponed;	/* in dev->postponed, or empty */
};

struct rrdma_mr {
	struct ib_mr ib;
	struct rrdma_object object;
	struct ib_umem *umem;		/* NULL: not user memory */
	u64 *pages;			/* pfns of user memory, addresses of a fast registration */
	u32 page_count, pages_max;
	int rights;			/* of user memory, as registered */
	u64 iova;			/* likewise: the core's copy may be another one after a rereg */
	unsigned long place;		/* in dev->fast */
	/* Fast registration. The daemon may copy what the last REG_MR named, while it is open. */
	spinlock_t lock;
	bool open;
	u32 access;
	u64 first, last;		/* offsets in the pages: the first byte, and behind the last */
	struct rrdma_qp *qp;		/* which registered it; only to compare */
};

struct rrdma_mw {
	struct ib_mw ib;
	struct rrdma_object object;
};

static inline struct rrdma_dev *to_dev(struct ib_device *ib) { return container_of(ib, struct rrdma_dev, ib); }
static inline struct rrdma_pd *to_pd(struct ib_pd *ib) { return container_of(ib, struct rrdma_pd, ib); }
static inline struct rrdma_ah *to_ah(struct ib_ah *ib) { return container_of(ib, struct rrdma_ah, ib); }
static inline struct rrdma_cq *to_cq(struct ib_cq *ib) { return container_of(ib, struct rrdma_cq, ib); }
static inline struct rrdma_srq *to_srq(struct ib_srq *ib) { return container_of(ib, struct rrdma_srq, ib); }
static inline struct rrdma_qp *to_qp(struct ib_qp *ib) { return container_of(ib, struct rrdma_qp, ib); }
static inline struct rrdma_mr *to_mr(struct ib_mr *ib) { return container_of(ib, struct rrdma_mr, ib); }
static inline struct rrdma_mw *to_mw(struct ib_mw *ib) { return container_of(ib, struct rrdma_mw, ib); }

/* device.c */
int rrdma_add_device(const char *name, struct net_device *ndev);
void rrdma_remove_devices(void);
void rrdma_port_changed(struct rrdma_dev *dev);
bool rrdma_port_up(struct rrdma_dev *dev);
void rrdma_event_of_interface(struct net_device *ndev, unsigned long event);

/* calls.c */
struct rrdma_call;
int rrdma_name(struct rrdma_dev *dev, struct rrdma_object *object, enum rrdma_kind kind);
void rrdma_unname(struct rrdma_object *object);	/* waits for its users */
struct rrdma_object *rrdma_find(struct rrdma_dev *dev, u32 handle, enum rrdma_kind kind);
void rrdma_release(struct rrdma_object *object);
/*
 * Daemons have numbers. A request goes to one of them only, so that no daemon hears of half an object. Each object knows
 * the daemon that has heard of it; what another one is told of it is not even sent.
 */
static inline u32 rrdma_serving(struct rrdma_dev *dev) { return READ_ONCE(dev->serving); }
static inline bool rrdma_is_told(const struct rrdma_object *object)
{
	u32 told = READ_ONCE(object->told);

	return told && told == READ_ONCE(object->dev->serving);
}
bool rrdma_mark_told(struct rrdma_object *object, u32 daemon);	/* false: it serves no more */
bool rrdma_mark_ready(struct rrdma_object *object, u32 daemon);	/* told, and its creation succeeds */
/* `undo`: the op that ends what an unanswered request may have begun; 0: none. */
int rrdma_ask(struct rrdma_dev *dev, u32 daemon, const struct rrdma_request *request, struct rrdma_reply *reply,
	      u32 undo);
int rrdma_ask_end(struct rrdma_object *object, const struct rrdma_request *request);	/* for destructors */
int rrdma_tell(struct rrdma_dev *dev, u32 daemon, const struct rrdma_request *request, gfp_t how);
int rrdma_tell_latest(struct rrdma_object *object, const struct rrdma_request *request); /* in place of an unread one */
void rrdma_tell_destroyed(struct rrdma_object *object, u32 op);
bool rrdma_has_work(struct rrdma_dev *dev);
bool rrdma_next_request(struct rrdma_dev *dev, struct rrdma_request *request);
void rrdma_take_reply(struct rrdma_dev *dev, const struct rrdma_reply *reply);
int rrdma_attach_daemon(struct rrdma_dev *dev, struct rrdma_session *session, struct rrdma_ring *bells);
void rrdma_detach_daemon(struct rrdma_dev *dev, struct rrdma_session *session);

/* doorbells.c */
struct rrdma_ring *rrdma_make_bells(struct rrdma_dev *dev);
void rrdma_open_bells(struct rrdma_dev *dev, struct rrdma_ring *ring);
struct rrdma_ring *rrdma_close_bells(struct rrdma_dev *dev);
void rrdma_ring_doorbell(struct rrdma_qp *qp);
void rrdma_ring_and_yield(struct rrdma_qp *qp);	/* may sleep for two milliseconds */
bool rrdma_has_doorbells(struct rrdma_dev *dev);
void rrdma_postpone_doorbell(struct rrdma_qp *qp);
void rrdma_forget_doorbell(struct rrdma_qp *qp);

/* chardev.c */
int rrdma_open_chardev(void);
void rrdma_close_chardev(void);
void rrdma_session_lost_device(struct rrdma_dev *dev);
void rrdma_unmap_region(struct rrdma_mr *mr);

/* rings.c */
struct rrdma_ring *rrdma_make_ring(struct rrdma_dev *dev, u32 entries, u32 octets);
void rrdma_drop_ring(struct rrdma_ring *ring);
int rrdma_show_ring(struct rrdma_ring *ring, struct ib_ucontext *ucontext, struct mminfo *info);
int rrdma_mmap(struct ib_ucontext *ucontext, struct vm_area_struct *vma);
void rrdma_mmap_free(struct rdma_user_mmap_entry *entry);
struct rrdma_ring_form rrdma_ring_form(const struct rrdma_ring *ring);
static inline void *rrdma_slot(struct rrdma_ring *ring, u32 index)
{
	return ring->buf->data + ((size_t)(index & (ring->slots - 1)) << ring->log2_slot);
}

/* queues.c */
int rrdma_alloc_pd(struct ib_pd *ib, struct ib_udata *udata);
int rrdma_dealloc_pd(struct ib_pd *ib, struct ib_udata *udata);
int rrdma_create_ah(struct ib_ah *ib, struct rdma_ah_init_attr *attr, struct ib_udata *udata);
int rrdma_query_ah(struct ib_ah *ib, struct rdma_ah_attr *attr);
int rrdma_destroy_ah(struct ib_ah *ib, u32 flags);
int rrdma_create_srq(struct ib_srq *ib, struct ib_srq_init_attr *init, struct ib_udata *udata);
int rrdma_modify_srq(struct ib_srq *ib, struct ib_srq_attr *attr, enum ib_srq_attr_mask mask, struct ib_udata *udata);
int rrdma_query_srq(struct ib_srq *ib, struct ib_srq_attr *attr);
int rrdma_destroy_srq(struct ib_srq *ib, struct ib_udata *udata);
int rrdma_create_qp(struct ib_qp *ib, struct ib_qp_init_attr *init, struct ib_udata *udata);
int rrdma_modify_qp(struct ib_qp *ib, struct ib_qp_attr *attr, int mask, struct ib_udata *udata);
int rrdma_query_qp(struct ib_qp *ib, struct ib_qp_attr *attr, int mask, struct ib_qp_init_attr *init);
int rrdma_destroy_qp(struct ib_qp *ib, struct ib_udata *udata);
int rrdma_attach_group(struct ib_qp *ib, union ib_gid *gid, u16 lid);
int rrdma_detach_group(struct ib_qp *ib, union ib_gid *gid, u16 lid);
void rrdma_fill_address(struct rrdma_address *to, const struct rdma_ah_attr *from);
void rrdma_raise_event(struct rrdma_dev *dev, u32 handle, u32 event);

/* cqs.c */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 11, 0)
int rrdma_create_cq(struct ib_cq *ib, const struct ib_cq_init_attr *attr, struct uverbs_attr_bundle *attrs);
#else
int rrdma_create_cq(struct ib_cq *ib, const struct ib_cq_init_attr *attr, struct ib_udata *udata);
#endif
int rrdma_destroy_cq(struct ib_cq *ib, struct ib_udata *udata);
int rrdma_resize_cq(struct ib_cq *ib, int entries, struct ib_udata *udata);
int rrdma_req_notify_cq(struct ib_cq *ib, enum ib_cq_notify_flags flags);
void rrdma_complete_cq(struct rrdma_cq *cq);
int rrdma_cq_form(struct rrdma_cq *cq, u32 daemon, struct rrdma_queue_form *form);	/* for a QP that uses it */
void rrdma_settle_cq(struct rrdma_cq *cq);	/* its daemon is gone. REQUIRES: the CQ's lock */

/* posts.c */
int rrdma_post_send(struct ib_qp *ib, const struct ib_send_wr *wr, const struct ib_send_wr **bad);
int rrdma_post_recv(struct ib_qp *ib, const struct ib_recv_wr *wr, const struct ib_recv_wr **bad);
int rrdma_post_srq_recv(struct ib_srq *ib, const struct ib_recv_wr *wr, const struct ib_recv_wr **bad);
int rrdma_poll_cq(struct ib_cq *ib, int count, struct ib_wc *wc);
int rrdma_prepare_queue(struct rrdma_dev *dev, struct rrdma_queue *queue);	/* for a kernel user */
void rrdma_end_queue(struct rrdma_dev *dev, struct rrdma_queue *queue);
void rrdma_forget_completions(struct rrdma_cq *cq, struct ib_qp *qp);
/* For gsi.c. REQUIRES: the queue's lock, for all but rrdma_add_done(). */
struct rrdma_work *rrdma_work_at(struct rrdma_queue *queue, u32 index);
struct rrdma_work *rrdma_take_work(struct rrdma_queue *queue);
void rrdma_finish_work(struct rrdma_work *work, struct rrdma_qp *qp, enum ib_wc_status status, struct list_head *done);
void rrdma_add_done(struct rrdma_cq *cq, struct list_head *done);
bool rrdma_flush_qp(struct rrdma_qp *qp);	/* false: not all, because a new daemon writes to the program's CQ */
void rrdma_reset_qp(struct rrdma_qp *qp);
void rrdma_rewind_queue(struct rrdma_queue *queue);	/* of an SRQ of a kernel user */
ssize_t rrdma_copy_granted(struct rrdma_dev *dev, u64 place, void *buffer, size_t octets, bool store);

/* memory.c */
struct ib_mr *rrdma_get_dma_mr(struct ib_pd *ib, int access);
struct ib_mr *rrdma_reg_user_mr(struct ib_pd *ib, u64 start, u64 length, u64 virt, int access, struct ib_udata *udata);
struct ib_mr *rrdma_rereg_user_mr(struct ib_mr *ib, int flags, u64 start, u64 length, u64 virt, int access,
				  struct ib_pd *pd, struct ib_udata *udata);
int rrdma_alloc_mw(struct ib_mw *ib, struct ib_udata *udata);
int rrdma_dealloc_mw(struct ib_mw *ib);
struct ib_mr *rrdma_alloc_mr(struct ib_pd *ib, enum ib_mr_type type, u32 sges);
int rrdma_map_mr_sg(struct ib_mr *ib, struct scatterlist *sg, int count, unsigned int *offset);
int rrdma_dereg_mr(struct ib_mr *ib, struct ib_udata *udata);
void rrdma_open_fast(struct rrdma_mr *mr, struct rrdma_qp *qp, u32 access);
void rrdma_close_fast(struct rrdma_mr *mr);
void rrdma_close_fast_of(struct rrdma_qp *qp);
void rrdma_close_all_fast(struct rrdma_dev *dev);
void rrdma_close_key(struct rrdma_qp *qp, u32 key);
ssize_t rrdma_copy_fast(struct rrdma_dev *dev, u64 place, void *buffer, size_t octets, bool store);

/* gsi.c */
int rrdma_gsi_post_send(struct rrdma_qp *qp, const struct ib_send_wr *wr, const struct ib_send_wr **bad);
int rrdma_gsi_post_recv(struct rrdma_qp *qp, const struct ib_recv_wr *wr, const struct ib_recv_wr **bad);
int rrdma_gsi_deliver(struct rrdma_dev *dev, const struct rrdma_mad *mad);

#endif
