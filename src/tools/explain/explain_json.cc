#include "tools/explain/explain_json.h"

#include <nlohmann/json.hpp>

#include "tools/explain/chinese.h"
#include "tools/explain/process_report.h"
#include "tools/explain/source_line.h"
#include "tools/terminal.h"
#include "wire/address_text.h"
#include "wire/headers.h"

namespace rrdma::tools {
namespace {

using Json = nlohmann::ordered_json;
using host::ExplainFacts;

std::string text_of(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json list_of(const std::array<Phrase, Topic::kLinesMax>& lines, Language language) {
  auto array = Json::array();
  for (const Phrase& line : lines) {
    if (!line.empty()) array.push_back(line.in(language));
  }
  return array;
}

Json topic_json(const FoundTopic& found, Language language) {
  const Topic& topic = *found.topic;
  Json json = {{"kind", kind_prefix(topic.kind)}, {"code", topic.code}, {"name", topic.name}};
  if (found.psn) json["psn"] = *found.psn;
  json["meaning"] = topic.meaning.in(language);
  json["causes"] = list_of(topic.causes, language);
  json["checks"] = list_of(topic.checks, language);
  return json;
}

Json attempts_json(const ExplainFacts& facts) {
  auto list = Json::array();
  const std::size_t kept = std::min<std::size_t>(facts.attempts, ExplainFacts::kAttempts);
  for (std::size_t i = 0; i < kept; ++i)
    list.push_back({{"after_us", facts.attempt_us[i]}, {"why", attempt_name(facts.attempt_why[i])}});
  return list;
}

Json rejection_json(const ExplainFacts& facts, Language language) {
  Json json = {{"kind", "rejected"},
               {"reason", facts.reason},
               {"peer", wire::to_text(facts.peer)},
               {"remedy", Json::array()}};
  for (const std::string_view line : remedies_of(facts, language)) json["remedy"].push_back(line);
  return json;
}

void add_region(const ExplainFacts& facts, Json& json) {
  if (facts.region == ExplainFacts::kNoRegion) return;
  json["region"] = {{"key", facts.region_key},
                    {"address", facts.region_address},
                    {"length", facts.region_length},
                    {"access", facts.region_access},
                    {"named_by_key", facts.region == ExplainFacts::kNamedByKey}};
  if (facts.local_length == 0) return;
  json["element"] = {{"address", facts.local_address}, {"length", facts.local_length}, {"lkey", facts.lkey}};
}

Json failure_json(const ExplainFacts& facts, Language language) {
  if (facts.kind == ExplainFacts::kRejected) return rejection_json(facts, language);
  Json json = {{"kind", failure_kind_name(facts.kind)},
               {"status", facts.status},
               {"status_name", status_name(facts.status)},
               {"cause", facts.cause},
               {"opcode", facts.opcode},
               {"wr_id", facts.wr_id},
               {"qpn", facts.qpn},
               {"peer", wire::to_text(facts.peer)},
               {"peer_qpn", facts.peer_qpn},
               {"link", facts.shm != 0 ? "shm" : "udp"},
               {"length", facts.length},
               {"moved", facts.moved},
               {"remote_address", facts.remote_address},
               {"rkey", facts.rkey},
               {"psn", facts.psn},
               {"timeout", facts.timeout},
               {"retry_cnt", facts.retry_count},
               {"rnr_retry", facts.rnr_retry},
               {"retries", facts.attempts},
               {"last_retries", attempts_json(facts)},
               {"gave_up_after_us", facts.failed_us},
               {"flushed_sends", facts.flushed_sends},
               {"flushed_receives", facts.flushed_receives},
               {"remedy", Json::array()}};
  add_region(facts, json);
  if (facts.peer_fate != ExplainFacts::kUnknownFate) {
    json["peer_process"] = {{"pid", facts.peer_pid},
                            {"program", printable(facts.peer_program)},
                            {"fate", facts.peer_fate == ExplainFacts::kExited ? "exited" : "killed"}};
  }
  if (facts.report != ExplainFacts::kNoReport) {
    constexpr std::string_view kReports[] = {"",          "ttl_exceeded", "port_closed", "unreachable",
                                             "forbidden", "too_long"};
    json["network_report"] = {{"kind", facts.report < std::size(kReports) ? kReports[facts.report] : "?"},
                              {"from", wire::to_text(facts.reporter)}};
    if (facts.reported_mtu != 0) json["network_report"]["mtu"] = facts.reported_mtu;
  }
  if (facts.syndrome != 0) {
    const wire::Aeth aeth{.syndrome = facts.syndrome};
    json["answer"] = {{"kind", aeth.is_rnr_nak() ? "RNR NAK" : "NAK"}, {"code", aeth.code()}};
  }
  for (const std::string_view line : remedies_of(facts, language)) json["remedy"].push_back(line);
  return json;
}

}  // namespace

std::string topics_json(std::span<const FoundTopic> topics, Language language) {
  auto list = Json::array();
  for (const FoundTopic& topic : topics) list.push_back(topic_json(topic, language));
  return text_of(list);
}

std::string processes_json(std::span<const host::ExplainedProcess> processes,
                           std::span<const host::ExplainedProcess> all, Language language) {
  auto list = Json::array();
  for (const host::ExplainedProcess& process : processes) {
    auto sentences = Json::array();
    for (const host::Explained& said : process.sentences) {
      Json json = {{"time_ns", said.first_ns},     {"last_time_ns", said.last_ns},
                   {"times", said.times},          {"severity", severity_name(said.severity)},
                   {"call", printable(said.call)}, {"sentence", text_in(said, language)}};
      if (said.facts.kind != ExplainFacts::kNone) json["failure"] = failure_json(said.facts, language);
      if (const SourceLine line = source_line_of(said); !line.module.empty()) {
        json["source"] = {{"module", line.module},
                          {"address", line.address},
                          {"function", line.function},
                          {"line", line.line}};
      }
      if (const OtherSide other = find_other_side(said, all); other.said != nullptr) {
        json["other_end"] = {{"pid", other.process->pid},
                             {"program", printable(other.process->program)},
                             {"sentence", text_in(*other.said, language)}};
      }
      sentences.push_back(std::move(json));
    }
    list.push_back({{"pid", process.pid},
                    {"program", printable(process.program)},
                    {"running", process.running},
                    {"net_namespace", process.net_namespace},
                    {"sentences", sentences}});
  }
  return text_of(list);
}

}  // namespace rrdma::tools
