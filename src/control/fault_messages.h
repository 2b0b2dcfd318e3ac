// Messages about injected faults (numbers 0x220 to 0x22f): a tool sets, lists and clears rules; the daemon
// keeps them and forwards them. Rules are text here (faults/rule.h parses them), so that an older daemon need
// not know them all.
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

inline constexpr MessageType kSetFault = static_cast<MessageType>(0x220);
inline constexpr MessageType kFaultWasSet = static_cast<MessageType>(0x221);
inline constexpr MessageType kClearFault = static_cast<MessageType>(0x222);
inline constexpr MessageType kListFaults = static_cast<MessageType>(0x223);
inline constexpr MessageType kFaultList = static_cast<MessageType>(0x224);
inline constexpr MessageType kFaultOrder = static_cast<MessageType>(0x225);
inline constexpr MessageType kFaultInjected = static_cast<MessageType>(0x226);
inline constexpr std::size_t kRuleOctetsMax = 256;
inline constexpr std::size_t kRulesMax = 40;  // all of them fit into one message

struct SetFault {
  static constexpr MessageType kType = kSetFault;
  std::string rule;

  template <typename Archive, typename Self>
  static void fields(Archive& archive, Self& self) {
    archive.text(self.rule, kRuleOctetsMax);
  }
};

struct FaultWasSet {
  static constexpr MessageType kType = kFaultWasSet;
  std::uint32_t number = 0;
  std::uint32_t programs = 0;  // number of programs notified

  template <typename Archive, typename Self>
  static void fields(Archive& archive, Self& self) {
    archive.value(self.number);
    archive.value(self.programs);
  }
};

struct ClearFault {
  static constexpr MessageType kType = kClearFault;
  std::uint32_t number = 0;  // 0: all rules of this user

  template <typename Archive, typename Self>
  static void fields(Archive& archive, Self& self) {
    archive.value(self.number);
  }
};

struct ListFaults {
  static constexpr MessageType kType = kListFaults;
  template <typename Archive, typename Self>
  static void fields(Archive&, Self&) {}
};

struct NumberedRule {
  std::uint32_t number = 0;
  std::uint32_t injected = 0;  // FaultList: by the daemon itself (messages of the connection manager)
  std::string rule;
  std::uint64_t set_ns = 0;  // FaultList: wall clock time at which it was set

  template <typename Archive, typename Self>
  static void fields(Archive& archive, Self& self) {
    archive.value(self.number);
    archive.value(self.injected);
    archive.text(self.rule, kRuleOctetsMax);
    archive.value(self.set_ns);
  }
};

struct FaultList {
  static constexpr MessageType kType = kFaultList;
  std::vector<NumberedRule> rules;

  template <typename Archive, typename Self>
  static void fields(Archive& archive, Self& self) {
    archive.list(self.rules, kRulesMax);
  }
};

// `packets_only`: some rule affects packets, so all traffic between programs of its user must travel as
// packets.
struct FaultOrder {
  static constexpr MessageType kType = kFaultOrder;
  bool packets_only = false;
  std::vector<NumberedRule> rules;

  template <typename Archive, typename Self>
  static void fields(Archive& archive, Self& self) {
    archive.flag(self.packets_only);
    archive.list(self.rules, kRulesMax);
  }
};

struct FaultInjected {
  static constexpr MessageType kType = kFaultInjected;
  std::uint32_t number = 0;
  std::string rule;
  std::string deed;  // one sentence

  template <typename Archive, typename Self>
  static void fields(Archive& archive, Self& self) {
    archive.value(self.number);
    archive.text(self.rule, kRuleOctetsMax);
    archive.text(self.deed, kRuleOctetsMax);
  }
};

}  // namespace rrdma::control
