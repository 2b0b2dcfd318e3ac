// Messages about injected faults: a tool sets, lists and clears rules; the daemon keeps and forwards them.
// Rules are text here (faults/rule.h parses them), so that an older daemon need not know them all.
//
//   tool:     SetFault -> FaultWasSet; ListFaults -> FaultList; ClearFault -> Done
//   program:  FaultOrder (event): all rules for this program, whenever they change, and before its first
//   slot;
//             FaultInjected (event): the daemon injected a fault into a connection manager message of this
//             program
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "control/messages.h"

namespace rrdma::control {

inline constexpr std::size_t kRuleOctetsMax = 256;
inline constexpr std::size_t kRulesMax = 40;  // all of them fit into one message

struct SetFault {
  static constexpr MessageType kType = MessageType::kSetFault;
  std::string rule;

  static void fields(auto& archive, auto& self) { archive.text(self.rule, kRuleOctetsMax); }
};

struct FaultWasSet {
  static constexpr MessageType kType = MessageType::kFaultWasSet;
  std::uint32_t number = 0;
  std::uint32_t programs = 0;  // number of programs notified

  static void fields(auto& archive, auto& self) { archive(self.number, self.programs); }
};

struct ClearFault {
  static constexpr MessageType kType = MessageType::kClearFault;
  std::uint32_t number = 0;  // 0: all rules of this user

  static void fields(auto& archive, auto& self) { archive.value(self.number); }
};

struct ListFaults {
  static constexpr MessageType kType = MessageType::kListFaults;
  static void fields(auto&, auto&) {}
};

struct NumberedRule {
  std::uint32_t number = 0;
  std::uint32_t injected = 0;  // FaultList: by the daemon itself (messages of the connection manager)
  std::string rule;
  std::uint64_t set_ns = 0;  // FaultList: wall clock time at which it was set

  static void fields(auto& archive, auto& self) {
    archive(self.number, self.injected);
    archive.text(self.rule, kRuleOctetsMax);
    archive.value(self.set_ns);
  }
};

struct FaultList {
  static constexpr MessageType kType = MessageType::kFaultList;
  std::vector<NumberedRule> rules;

  static void fields(auto& archive, auto& self) { archive.list(self.rules, kRulesMax); }
};

// `packets_only`: some rule affects packets, so all traffic between programs of its user must travel as
// packets.
struct FaultOrder {
  static constexpr MessageType kType = MessageType::kFaultOrder;
  bool packets_only = false;
  std::vector<NumberedRule> rules;

  static void fields(auto& archive, auto& self) {
    archive.flag(self.packets_only);
    archive.list(self.rules, kRulesMax);
  }
};

struct FaultInjected {
  static constexpr MessageType kType = MessageType::kFaultInjected;
  std::uint32_t number = 0;
  std::string rule;
  std::string deed;  // one sentence

  static void fields(auto& archive, auto& self) {
    archive.value(self.number);
    archive.text(self.rule, kRuleOctetsMax);
    archive.text(self.deed, kRuleOctetsMax);
  }
};

}  // namespace rrdma::control
