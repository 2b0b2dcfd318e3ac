// The state of one thread of the spin: its objects, its memory, its random numbers. Threads share the context
// and the contents of `Shared`, which exist from before the first call until after the last. Everything else
// belongs to one thread: a program that uses an object in one thread and destroys it in another is wrong on
// any device.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "verdicts.h"

namespace spin {

struct Shared {
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_cq* cq = nullptr;
  ibv_srq* srq = nullptr;
  ibv_gid gid{};
  std::uint8_t gid_index = 0;
};

struct PdEntry {
  ibv_pd* pd = nullptr;
  ibv_pd* original = nullptr;  // of a parent domain
  ibv_td* td = nullptr;
};

struct MrEntry {
  ibv_mr* mr = nullptr;
  ibv_dm* dm = nullptr;
};

struct CqEntry {
  ibv_cq* cq = nullptr;
  ibv_comp_channel* channel = nullptr;
  ibv_cq_ex* extended = nullptr;  // the same CQ, if it was created as extended
};

struct SrqEntry {
  ibv_srq* srq = nullptr;
  ibv_xrcd* xrcd = nullptr;
};

struct QpEntry {
  ibv_qp* qp = nullptr;
  ibv_xrcd* xrcd = nullptr;
  bool builders = false;
  std::uint32_t groups = 0;  // number of multicast groups that it is attached to
};

class World {
 public:
  static constexpr std::size_t kArenaOctets = 1 << 20;
  static constexpr std::size_t kEachMax = 24;  // objects of one kind

  World(Shared& shared, std::uint64_t seed, unsigned thread);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // Makes one random call, or a few that belong together.
  void step();
  // Destroys everything; each of these calls must succeed.
  void clear();

  [[nodiscard]] const Verdicts& verdicts() const { return verdicts_; }

 private:
  using Action = void (World::*)();
  struct Choice {
    unsigned weight;
    Action action;
  };
  static const std::vector<Choice>& choices();

  // device_actions.cc
  void query_device();
  void query_port();
  void query_gid();
  void query_pkey();
  void query_clock();
  void open_another();
  void leave_behind(ibv_context* context, ibv_pd* pd, ibv_qp* qp);
  void take_async_event();
  void ask_for_what_is_not_offered();
  // memory_actions.cc
  void make_pd();
  void drop_pd();
  void make_parent_domain();
  void make_mr();
  void make_special_mr();
  void change_mr();
  void drop_mr();
  void advise_mr();
  void make_dm();
  void drop_dm();
  void copy_dm();
  void make_mw();
  void drop_mw();
  void bind_mw();
  // queue_actions.cc
  void make_channel();
  void drop_channel();
  void make_cq();
  void drop_cq();
  void change_cq();
  void arm_cq();
  void poll_cq();
  void take_cq_event();
  void make_srq();
  void drop_srq();
  void change_srq();
  void post_srq();
  void make_xrcd();
  void drop_xrcd();
  // qp_actions.cc
  void make_qp();
  void drop_qp();
  void change_qp();
  void connect_pair();
  void query_qp();
  void attach_group();
  void make_ah();
  void drop_ah();
  // request_actions.cc
  void post_send();
  void post_receive();
  void build_requests();

  // Random numbers and picks.
  std::uint64_t random() { return random_(); }
  std::uint32_t below(std::uint32_t bound) { return static_cast<std::uint32_t>(random() % bound); }
  bool chance(unsigned percent) { return below(100) < percent; }
  template <typename Entry>
  Entry* pick(std::vector<Entry>& from) {
    return from.empty() ? nullptr : &from[below(static_cast<std::uint32_t>(from.size()))];
  }
  template <typename Entry>
  static void forget(std::vector<Entry>& from, Entry* entry) {
    *entry = from.back();
    from.pop_back();
  }
  template <typename Entry>
  static bool full(const std::vector<Entry>& entries) {
    return entries.size() >= kEachMax;
  }

  ibv_pd* any_pd();
  ibv_cq* any_cq();
  std::uint8_t* any_address();  // usually in the arena
  ibv_sge any_sge();
  ibv_ah_attr any_address_vector();
  std::uint64_t any_remote_address();
  std::uint32_t any_rkey();
  void move(ibv_qp* qp, ibv_qp_state state, const ibv_qp* peer);
  void destroy_qp(QpEntry* entry);
  [[nodiscard]] bool is_used(const ibv_pd* pd) const;
  [[nodiscard]] bool is_used(const ibv_cq* cq) const;
  [[nodiscard]] bool is_used(const ibv_srq* srq) const;
  [[nodiscard]] bool is_used(const ibv_xrcd* xrcd) const;

  Shared& shared_;
  Verdicts verdicts_;
  std::mt19937_64 random_;
  std::uint8_t* arena_ = nullptr;
  // Pages without access. They are mapped nevertheless, or the allocator would use the addresses, and a
  // region over all memory would lead into its heap.
  std::uint8_t* nowhere_ = nullptr;

  std::vector<PdEntry> pds_;
  std::vector<MrEntry> mrs_;
  std::vector<ibv_dm*> dms_;
  std::vector<ibv_mw*> mws_;
  std::vector<ibv_comp_channel*> channels_;
  std::vector<CqEntry> cqs_;
  std::vector<SrqEntry> srqs_;
  std::vector<ibv_xrcd*> xrcds_;
  std::vector<QpEntry> qps_;
  std::vector<ibv_ah*> ahs_;
};

}  // namespace spin
