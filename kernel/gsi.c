// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * QP1: the kernel's MAD layer. It exists without a daemon. A MAD that it sends is handed to the daemon and complete at
 * once; without a daemon it is lost, as on any network. A MAD of the daemon fills the oldest receive request.
 */
#include <linux/ip.h>
#include <net/ipv6.h>

#include "rrdma.h"

#define RRDMA_GRH_OCTETS 40

static void rrdma_send_mad(struct rrdma_qp *qp, const struct ib_send_wr *wr)
{
	struct rrdma_dev *dev = qp->object.dev;
	struct rrdma_request request = { .op = RRDMA_OP_SEND_MAD };
	unsigned long flags;
	size_t filled = 0;
	int i;

	request.mad.address = to_ah(ud_wr(wr)->ah)->address;
	request.mad.remote_qpn = ud_wr(wr)->remote_qpn;
	for (i = 0; i < wr->num_sge; i++) {
		size_t part = min_t(size_t, wr->sg_list[i].length, RRDMA_MAD_OCTETS - filled);

		memcpy(request.mad.octets + filled, (void *)(uintptr_t)wr->sg_list[i].addr, part);
		filled += part;
	}
	spin_lock_irqsave(&dev->lock, flags);
	if (dev->mads >= RRDMA_MADS_MAX) {
		spin_unlock_irqrestore(&dev->lock, flags);
		return;
	}
	dev->mads++;
	spin_unlock_irqrestore(&dev->lock, flags);
	if (!rrdma_tell(dev, rrdma_serving(dev), &request, GFP_ATOMIC))
		return;
	spin_lock_irqsave(&dev->lock, flags);
	if (dev->mads)
		dev->mads--;
	spin_unlock_irqrestore(&dev->lock, flags);
}

int rrdma_gsi_post_send(struct rrdma_qp *qp, const struct ib_send_wr *wr, const struct ib_send_wr **bad)
{
	struct rrdma_queue *queue = &qp->sends;
	unsigned long flags;
	LIST_HEAD(done);
	int err = 0;

	spin_lock_irqsave(&queue->lock, flags);
	for (; wr; wr = wr->next) {
		struct rrdma_work *work = rrdma_take_work(queue);

		if (!work) {
			*bad = wr;
			err = -ENOMEM;
			break;
		}
		queue->producer++;
		work->wr_id = wr->wr_id;
		work->opcode = IB_WC_SEND;
		if (qp->attr.qp_state == IB_QPS_RTS)
			rrdma_send_mad(qp, wr);
		rrdma_finish_work(work, qp, qp->attr.qp_state == IB_QPS_RTS ? IB_WC_SUCCESS : IB_WC_WR_FLUSH_ERR,
				  &done);
	}
	spin_unlock_irqrestore(&queue->lock, flags);
	rrdma_add_done(qp->send_cq, &done);
	return err;
}

int rrdma_gsi_post_recv(struct rrdma_qp *qp, const struct ib_recv_wr *wr, const struct ib_recv_wr **bad)
{
	struct rrdma_queue *queue = &qp->receives;
	unsigned long flags;
	LIST_HEAD(done);
	int err = 0;

	spin_lock_irqsave(&queue->lock, flags);
	for (; wr; wr = wr->next) {
		struct rrdma_work *work = wr->num_sge <= queue->sges ? rrdma_take_work(queue) : NULL;

		if (!work) {
			*bad = wr;
			err = -ENOMEM;
			break;
		}
		queue->producer++;
		work->wr_id = wr->wr_id;
		work->opcode = IB_WC_RECV;
		work->sges = wr->num_sge;
		memcpy(work->sge, wr->sg_list, wr->num_sge * sizeof(*wr->sg_list));
		if (qp->attr.qp_state == IB_QPS_ERR)
			rrdma_finish_work(work, qp, IB_WC_WR_FLUSH_ERR, &done);
	}
	spin_unlock_irqrestore(&queue->lock, flags);
	rrdma_add_done(qp->receive_cq, &done);
	return err;
}

static bool rrdma_is_ipv4(const u8 *gid)
{
	return ipv6_addr_v4mapped((const struct in6_addr *)gid);
}

/* The area before a datagram: a GRH, or an IPv4 header in its last 20 bytes. */
static void rrdma_fill_grh(u8 *area, const struct rrdma_address *address)
{
	memset(area, 0, RRDMA_GRH_OCTETS);
	if (rrdma_is_ipv4(address->remote)) {
		struct iphdr *ip = (struct iphdr *)(area + RRDMA_GRH_OCTETS - sizeof(*ip));

		ip->version = 4;
		ip->ihl = 5;
		ip->tos = address->traffic_class;
		ip->ttl = address->hop_limit;
		ip->protocol = IPPROTO_UDP;
		ip->tot_len = htons(RRDMA_MAD_OCTETS + 60);
		memcpy(&ip->saddr, address->remote + 12, 4);
		memcpy(&ip->daddr, address->local + 12, 4);
		ip->check = ip_fast_csum(ip, ip->ihl);
	} else {
		struct ipv6hdr *ip = (struct ipv6hdr *)area;

		ip6_flow_hdr(ip, address->traffic_class, htonl(address->flow_label & 0xfffff));
		ip->payload_len = htons(RRDMA_MAD_OCTETS + 32);
		ip->nexthdr = IPPROTO_UDP;
		ip->hop_limit = address->hop_limit;
		memcpy(&ip->saddr, address->remote, 16);
		memcpy(&ip->daddr, address->local, 16);
	}
}

static bool rrdma_fill_receive(struct rrdma_work *work, const u8 *from, size_t octets)
{
	u32 i;

	for (i = 0; i < work->sges && octets; i++) {
		size_t part = min_t(size_t, octets, work->sge[i].length);

		memcpy((void *)(uintptr_t)work->sge[i].addr, from, part);
		from += part;
		octets -= part;
	}
	return !octets;
}

static void rrdma_gsi_receive(struct rrdma_qp *qp, const struct rrdma_mad *mad)
{
	u8 area[RRDMA_GRH_OCTETS + RRDMA_MAD_OCTETS];
	struct rrdma_queue *queue = &qp->receives;
	struct rrdma_work *work;
	unsigned long flags;
	LIST_HEAD(done);

	rrdma_fill_grh(area, &mad->address);
	memcpy(area + RRDMA_GRH_OCTETS, mad->octets, RRDMA_MAD_OCTETS);
	spin_lock_irqsave(&queue->lock, flags);
	work = rrdma_work_at(queue, queue->oldest);
	if (work->state == RRDMA_WORK_POSTED && rrdma_fill_receive(work, area, sizeof(area))) {
		queue->oldest++;
		rrdma_finish_work(work, qp, IB_WC_SUCCESS, &done);
		work->wc.byte_len = sizeof(area);
		work->wc.src_qp = 1;
		work->wc.wc_flags = IB_WC_GRH | IB_WC_WITH_NETWORK_HDR_TYPE;
		work->wc.network_hdr_type = rrdma_is_ipv4(mad->address.remote) ? RDMA_NETWORK_IPV4 :
										 RDMA_NETWORK_IPV6;
	}
	spin_unlock_irqrestore(&queue->lock, flags);
	rrdma_add_done(qp->receive_cq, &done);
}

int rrdma_gsi_deliver(struct rrdma_dev *dev, const struct rrdma_mad *mad)
{
	struct rrdma_object *object = rrdma_find(dev, READ_ONCE(dev->gsi), RRDMA_QP);
	struct rrdma_qp *qp;

	if (!object)
		return -ENOENT;
	qp = container_of(object, struct rrdma_qp, object);
	if (qp->attr.qp_state == IB_QPS_RTS || qp->attr.qp_state == IB_QPS_RTR)
		rrdma_gsi_receive(qp, mad);
	rrdma_release(object);
	return 0;
}
