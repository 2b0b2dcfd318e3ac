// Questions about memory regions and windows.
#include <sys/mman.h>

#include <cerrno>

#include "probe.h"

namespace answers {
namespace {

std::string registered(const Table& table, void* address, std::size_t length,
                       int access = IBV_ACCESS_LOCAL_WRITE) {
  errno = 0;
  ibv_mr* mr = ibv_reg_mr(table.pd, address, length, access);
  if (mr == nullptr) return name_of_error(errno);
  ibv_dereg_mr(mr);
  return "ok";
}

void ask_ranges(const Table& table) {
  tell("reg_mr.no_bytes.page_aligned", registered(table, table.memory, 0));
  tell("reg_mr.no_bytes.unaligned", registered(table, table.memory + 1, 0));
  void* hole = mmap(nullptr, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  munmap(hole, 8192);
  tell("reg_mr.not_mapped", registered(table, hole, 4096));
  tell("reg_mr.no_bytes.unaligned_not_mapped", registered(table, static_cast<char*>(hole) + 1, 0));
  tell("reg_mr.null_and_no_bytes", registered(table, nullptr, 0));
  tell("reg_mr.beyond_the_address_space", registered(table, table.memory, SIZE_MAX - 4096));
  void* read_only = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  tell("reg_mr.local_write_of_read_only_pages", registered(table, read_only, 4096));
  munmap(read_only, 4096);
  tell("reg_mr.remote_write_without_local_write",
       registered(table, table.memory, 64, IBV_ACCESS_REMOTE_WRITE));
  tell("reg_mr.remote_atomic_without_local_write",
       registered(table, table.memory, 64, IBV_ACCESS_REMOTE_ATOMIC));
  tell("reg_mr.unknown_access", registered(table, table.memory, 64, 1 << 15));
  errno = 0;
  ibv_mr* dmabuf = ibv_reg_dmabuf_mr(table.pd, 0, 4096, 0, -1, IBV_ACCESS_LOCAL_WRITE);
  tell("reg_dmabuf_mr.descriptor_-1", dmabuf == nullptr ? name_of_error(errno) : "ok");
}

// A region of no bytes is of use to nobody, and must not be one of all bytes either.
void ask_empty_region(const Table& table) {
  ibv_mr* empty = ibv_reg_mr(table.pd, table.memory + 1, 0, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  if (empty == nullptr) return tell("reg_mr.no_bytes.used", "no region");
  ibv_qp* one = table.create_qp(IBV_QPT_RC);
  ibv_qp* other = table.create_qp(IBV_QPT_RC);
  table.connect(one, other);
  ibv_sge sge = table.at(0, 8);
  ibv_send_wr wr{};
  wr.wr_id = 1;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.wr.rdma = {.remote_addr = table.address(1), .rkey = empty->rkey};
  tell("reg_mr.no_bytes.used", posted(table, one, wr));
  ibv_destroy_qp(one);
  ibv_destroy_qp(other);
  ibv_dereg_mr(empty);
}

void ask_again(const Table& table) {
  ibv_mr* mr = ibv_reg_mr(table.pd, table.memory, 64, int{IBV_ACCESS_LOCAL_WRITE});
  tell("rereg_mr.no_flags", std::to_string(ibv_rereg_mr(mr, 0, nullptr, nullptr, 0, 0)));
  tell("rereg_mr.no_bytes",
       std::to_string(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, table.memory, 0, 0)));
  ibv_dereg_mr(mr);
}

std::string bound(const Table& table, ibv_qp* qp, ibv_mw* mw, std::uint32_t key, int rights) {
  ibv_send_wr wr{};
  wr.wr_id = 1;
  wr.opcode = IBV_WR_BIND_MW;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.bind_mw.mw = mw;
  wr.bind_mw.rkey = key;
  wr.bind_mw.bind_info = {.mr = table.mr,
                          .addr = table.address(0),
                          .length = 64,
                          .mw_access_flags = static_cast<unsigned>(rights)};
  return posted(table, qp, wr);
}

void ask_windows(const Table& table) {
  ibv_qp* qp = table.create_qp(IBV_QPT_RC);
  table.move(qp, IBV_QPS_RTS, qp->qp_num);
  ibv_mw* mw = ibv_alloc_mw(table.pd, IBV_MW_TYPE_2);
  if (mw == nullptr) return tell("mw.type_2", "none");
  const std::uint32_t key = ibv_inc_rkey(mw->rkey);
  tell("mw.bind", bound(table, qp, mw, key, IBV_ACCESS_REMOTE_WRITE));
  tell("mw.dereg_mr_while_bound", outcome(ibv_dereg_mr(table.mr)));
  tell("mw.second_bind", bound(table, qp, mw, ibv_inc_rkey(key), IBV_ACCESS_REMOTE_WRITE));
  tell("mw.dealloc_pd_while_allocated", outcome(ibv_dealloc_pd(table.pd)));
  ibv_dealloc_mw(mw);
  ibv_destroy_qp(qp);
}

}  // namespace

void ask_about_memory(const Table& table) {
  ask_ranges(table);
  ask_empty_region(table);
  ask_again(table);
  ask_windows(table);
}

}  // namespace answers
