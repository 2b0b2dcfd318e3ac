// The layout of rxe's queues in memory (rdma_user_rxe.h of the kernel), which the rxe provider of rdma-core
// writes and reads. The kernel's header has flexible arrays inside unions, which C++ refuses; hence these
// copies.
#pragma once

#include <rrdma_abi.h>

#include <cstddef>
#include <cstdint>

namespace rrdma::kernel {

struct RxeRingHeader {
  std::uint32_t log2_slot;  // for the program; never read here
  std::uint32_t index_mask;
  std::uint32_t pad_1[30];
  std::uint32_t producer;
  rrdma_published published;  // ours, of a CQ
  std::uint32_t pad_2[28];
  std::uint32_t consumer;
  std::uint32_t pad_3[31];
};
static_assert(sizeof(RxeRingHeader) == 384 && offsetof(RxeRingHeader, published) == 4 * RRDMA_PUBLISHED_WORD);

struct RxeAddress {
  std::uint8_t port, network_type, mac[6];
  std::uint8_t remote[16];
  std::uint32_t flow_label;
  std::uint8_t sgid_index, hop_limit, traffic_class, pad;
  std::uint8_t local_socket[28], remote_socket[28];  // sockaddr_in or sockaddr_in6
};
static_assert(sizeof(RxeAddress) == 88);

struct RxeSge {
  std::uint64_t address;
  std::uint32_t length, lkey;
};

struct RxeDma {
  std::uint32_t length, resid, cur_sge, num_sge, sge_offset, reserved;
};

struct RxeSend {
  std::uint64_t wr_id;
  std::uint32_t reserved, opcode, send_flags, immediate_or_key;
  union {
    struct {
      std::uint64_t remote_address;
      std::uint32_t rkey, reserved;
    } rdma;
    struct {
      std::uint64_t remote_address, compare_add, swap;
      std::uint32_t rkey, reserved;
    } atomic;
    struct {
      std::uint32_t remote_qpn, remote_qkey;
      std::uint16_t pkey_index, reserved;
      std::uint32_t ah_number, pad[4];
      RxeAddress address;
    } datagram;
    struct {
      std::uint64_t address, length;
      std::uint32_t region, window_key, key, access;
    } registration;
  };
  std::uint32_t status, state;
  std::uint64_t iova;
  std::uint32_t mask, first_psn, last_psn, ack_length, ssn, has_rd_atomic;
  RxeDma dma;  // then RxeSge[], or inline data
};
static_assert(sizeof(RxeSend) == 208 && offsetof(RxeSend, dma) == 184);

struct RxeReceive {
  std::uint64_t wr_id;
  std::uint32_t reserved, padding;
  RxeDma dma;  // then RxeSge[]
};
static_assert(sizeof(RxeReceive) == 40);

// struct ib_uverbs_wc, and the QP's handle behind it (RRDMA_CQE_QP_AT).
struct RxeCompletion {
  std::uint64_t wr_id;
  std::uint32_t status, opcode, vendor_err, byte_length, immediate_or_key, qpn, source_qpn, flags;
  std::uint16_t pkey_index, slid;
  std::uint8_t service_level, path_bits, port, reserved;
  std::uint32_t qp_handle;
  std::uint32_t unused;
};
static_assert(sizeof(RxeCompletion) == 56 && offsetof(RxeCompletion, qp_handle) == 48);

}  // namespace rrdma::kernel
